"""The cluster that the other tests stand on does what a Kubernetes does."""

from __future__ import annotations

import base64
from collections.abc import Callable

import pytest
from tests.cluster.commands import CommandFailed
from tests.cluster.images.recipes import POSTGRES_IMAGE, ROOT
from tests.cluster.pods import container, deployment, pod, pod_spec, service
from tests.cluster.provider import Cluster
from tests.cluster.waiting import eventually

_WEB_SERVER = ["python3", "-u", "-m", "http.server", "8080", "--directory", "/etc"]  # /hostname
_SLEEPER = ["python3", "-c", "import signal; print('here', flush=True); signal.pause()"]
_FETCH = """
import sys, urllib.request
print(urllib.request.urlopen(sys.argv[1], timeout=5).read().decode())
"""
_ASK_API = """
import pathlib, ssl, sys, urllib.error, urllib.request
account = pathlib.Path("/var/run/secrets/kubernetes.io/serviceaccount")
trust = ssl.create_default_context(cafile=str(account / "ca.crt"))
headers = {"Authorization": "Bearer " + (account / "token").read_text()}
url = "https://kubernetes.default.svc" + sys.argv[1]
try:
    print(urllib.request.urlopen(urllib.request.Request(url, headers=headers), context=trust).status)
except urllib.error.HTTPError as refused:
    print(refused.code)
"""


@pytest.fixture
def client(cluster: Cluster, namespace: str, python_image: str) -> str:
    """A running pod with Python in it; returns its name."""
    cluster.apply(pod("client", pod_spec(container(python_image, _SLEEPER))), "-n", namespace)
    cluster.kubectl("wait", "--for=condition=Ready", "pod/client", "-n", namespace)
    return "client"


@pytest.fixture
def in_pod(cluster: Cluster, namespace: str, client: str) -> Callable[..., str]:
    """Run Python source with arguments inside the client pod and return what it printed."""

    def run(source: str, *arguments: str) -> str:
        command = ["python3", "-c", source, *arguments]
        return cluster.kubectl("exec", client, "-n", namespace, "--", *command).strip()

    return run


@pytest.fixture
def web(cluster: Cluster, namespace: str, python_image: str) -> str:
    """Two pods behind a Service; returns its name, which is theirs too."""
    probe = {"httpGet": {"path": "/hostname", "port": 8080}, "periodSeconds": 1}
    main = container(python_image, _WEB_SERVER, readinessProbe=probe)
    cluster.apply(deployment("web", pod_spec(main), replicas=2), "-n", namespace)
    cluster.apply(service("web", port=80, target=8080), "-n", namespace)
    cluster.kubectl("rollout", "status", "deployment/web", "-n", namespace, "--timeout=60s")
    return "web"


def _asked(cluster: Cluster, namespace: str, asking: str, url: str) -> str | None:
    """What a pod gets from the URL; None while no ready pod is behind the Service yet."""
    command = ["exec", asking, "-n", namespace, "--", "python3", "-c", _FETCH, url]
    try:
        return cluster.kubectl(*command).strip()
    except CommandFailed as error:
        # A ready pod becomes an endpoint a moment later; anything else is a failure.
        if "Connection refused" in error.output:
            return None
        raise


def test_every_node_is_ready(cluster: Cluster):
    nodes = cluster.get("nodes")["items"]

    assert nodes
    for node in nodes:
        conditions = {each["type"]: each["status"] for each in node["status"]["conditions"]}
        assert conditions["Ready"] == "True", node["metadata"]["name"]


def test_a_deployment_of_two_pods_becomes_ready_under_the_restricted_standard(
    cluster: Cluster, namespace: str, web: str
):
    status = cluster.get("deployment", web, "-n", namespace)["status"]

    assert status["readyReplicas"] == 2


def test_a_pod_with_rights_is_refused_under_the_restricted_standard(
    cluster: Cluster, namespace: str, python_image: str
):
    main = container(python_image, _SLEEPER, securityContext={"privileged": True})

    with pytest.raises(CommandFailed, match="violates PodSecurity"):
        cluster.apply(pod("strong", pod_spec(main)), "-n", namespace)


def test_a_pod_reaches_a_service_by_its_short_and_its_full_name(
    cluster: Cluster, namespace: str, web: str, client: str
):
    for name in (web, f"{web}.{namespace}", f"{web}.{namespace}.svc.cluster.local"):
        url = f"http://{name}/hostname"
        answer = eventually(
            lambda url=url: _asked(cluster, namespace, client, url), seconds=30, what=url
        )
        assert answer.startswith(f"{web}-")


def test_a_service_spreads_over_its_pods_and_a_pod_reaches_itself_through_it(
    cluster: Cluster, namespace: str, web: str
):
    listed = cluster.get("pods", "-n", namespace, "-l", f"app={web}")["items"]
    pods = {each["metadata"]["name"] for each in listed}

    for asking in pods:
        unseen = set(pods)

        def all_answered(asking: str = asking, unseen: set[str] = unseen) -> bool:
            unseen.discard(_asked(cluster, namespace, asking, f"http://{web}/hostname") or "")
            return not unseen

        eventually(all_answered, seconds=60, what=f"an answer of each pod, asked from {asking}")


def test_names_outside_of_the_cluster_do_not_exist(in_pod: Callable[..., str]):
    source = """
import socket
try:
    print(socket.getaddrinfo("runnerq.invalid", 80))
except socket.gaierror as error:
    print(error.errno == socket.EAI_NONAME)
"""
    assert in_pod(source) == "True"


def test_logs_and_exec_reach_a_pod(cluster: Cluster, namespace: str, client: str):
    # The pod is ready as soon as it runs, which is before Python does.
    log = eventually(
        lambda: cluster.kubectl("logs", client, "-n", namespace), seconds=30, what="its first line"
    )
    assert log == "here\n"
    assert cluster.kubectl("exec", client, "-n", namespace, "--", "id", "-u") == "65532\n"


def test_a_pod_may_do_on_the_api_what_its_account_may_and_no_more(
    cluster: Cluster, namespace: str, in_pod: Callable[..., str]
):
    pods, secrets = (f"/api/v1/namespaces/{namespace}/{kind}" for kind in ("pods", "secrets"))
    assert in_pod(_ASK_API, pods) == "403"

    reader = ["--verb=get,list", "--resource=pods", "-n", namespace]
    account = [f"--serviceaccount={namespace}:default", "-n", namespace]
    cluster.kubectl("create", "role", "reader", *reader)
    cluster.kubectl("create", "rolebinding", "reader", "--role=reader", *account)

    eventually(lambda: in_pod(_ASK_API, pods) == "200", seconds=30, what="the new right")
    assert in_pod(_ASK_API, secrets) == "403"


def test_the_audit_log_tells_what_a_pod_asked_and_what_it_was_answered(
    cluster: Cluster, namespace: str, in_pod: Callable[..., str]
):
    in_pod(_ASK_API, f"/api/v1/namespaces/{namespace}/configmaps")

    by_pod = [
        (event.verb, event.resource, event.code, event.writes)
        for event in cluster.audit_events()
        if event.user == f"system:serviceaccount:{namespace}:default"
    ]
    assert by_pod == [("list", "configmaps", 403, False)]


def test_a_pod_over_its_memory_limit_is_killed_and_says_so(
    cluster: Cluster, namespace: str, python_image: str
):
    hungry = ["python3", "-c", "x = bytearray(256 * 1024 * 1024); print(len(x))"]
    main = container(python_image, hungry, resources={"limits": {"memory": "64Mi"}})
    spec = pod_spec(main, restartPolicy="Never")
    cluster.apply(pod("hungry", spec), "-n", namespace)

    def reason() -> str | None:
        statuses = cluster.get("pod", "hungry", "-n", namespace)["status"].get(
            "containerStatuses", []
        )
        return next((s["state"].get("terminated", {}).get("reason") for s in statuses), None)

    assert eventually(reason, seconds=60, what="the end of the pod") == "OOMKilled"


def test_the_throw_away_database_of_the_examples_accepts_its_url(
    cluster: Cluster, load_image: Callable[[str], str]
):
    load_image(POSTGRES_IMAGE)
    manifest = ROOT / "examples" / "cluster" / "postgres.yaml"
    cluster.kubectl("apply", "-f", manifest)
    try:
        rollout = ["rollout", "status", "deployment/runnerq-postgres", "-n", "default"]
        cluster.kubectl(*rollout, "--timeout=90s")
        secret = cluster.get("secret", "runnerq-postgres", "-n", "default")["data"]
        url = base64.b64decode(secret["url"]).decode()
        ask = ["exec", "deployment/runnerq-postgres", "-n", "default", "--"]

        def user() -> str | None:
            try:
                return cluster.kubectl(*ask, "psql", url, "-Atc", "select current_user")
            except CommandFailed as error:
                if "Connection refused" in error.output:
                    return None
                raise

        assert eventually(user, seconds=30, what="an answer through the Service") == "runnerq\n"
    finally:
        cluster.kubectl("delete", "-f", manifest, "--wait=false")


def test_an_image_that_is_nowhere_is_a_pod_that_says_so(cluster: Cluster, namespace: str):
    main = container("localhost/runnerq-nowhere:1", _SLEEPER, imagePullPolicy="Never")
    cluster.apply(pod("nowhere", pod_spec(main)), "-n", namespace)

    def waiting() -> str | None:
        status = cluster.get("pod", "nowhere", "-n", namespace)["status"]
        states = [each["state"] for each in status.get("containerStatuses", [])]
        return next((state.get("waiting", {}).get("reason") for state in states), None)

    eventually(
        lambda: waiting() == "ErrImageNeverPull", seconds=30, what="the reason ErrImageNeverPull"
    )

"""Brings the local cluster up, hands it to tests, and takes it down."""

from __future__ import annotations

import os
import secrets
import tempfile
from pathlib import Path

from tests.cluster.audit import AuditEvent, parse_events
from tests.cluster.cache import locked
from tests.cluster.commands import CommandFailed
from tests.cluster.images.archive import archive_identity
from tests.cluster.images.sandbox import build_pause, sandbox_archive
from tests.cluster.local import processes
from tests.cluster.local.addresses import NODE, free_subnet
from tests.cluster.local.binaries import build_binaries
from tests.cluster.local.cgroups import make_cgroups
from tests.cluster.local.control_plane import AUDIT_LOG, ControlPlane
from tests.cluster.local.credentials import Credentials, make_credentials
from tests.cluster.local.dns import ClusterDns
from tests.cluster.local.node import Node
from tests.cluster.local.packages import require_packages
from tests.cluster.local.runtime import SANDBOX_IMAGE, Runtime
from tests.cluster.local.state import ClusterState, known_names, load_state
from tests.cluster.local.teardown import read_sysctls, tear_down
from tests.cluster.provider import Cluster, ClusterFailed
from tests.cluster.stages import Stages
from tests.cluster.waiting import eventually

DEFAULT_NAME = "default"
# Starting and removing happen one after the other: two must not take the same addresses.
_LOCK = "clusters"


class LocalCluster(Cluster):
    """A cluster of one node on this machine; made by `up`, found again by `find`."""

    provider = "local"

    def __init__(self, state: ClusterState, node: Node, runtime: Runtime) -> None:
        self.state = state
        self.node = node
        self._runtime = runtime
        self.kubeconfig = Credentials(Path(state.folder) / "credentials").kubeconfig("admin")

    def load_image(self, archive: Path, reference: str) -> None:
        identity = archive_identity(archive)
        if self.state.images.get(reference) == identity:
            return
        self._runtime.load_image(archive)
        self.state.images[reference] = identity
        self.state.save()

    def audit_events(self) -> list[AuditEvent]:
        log = Path(self.state.folder) / AUDIT_LOG
        with log.open() as lines:
            return parse_events(lines)

    def down(self) -> None:
        tear_down(self.state)


def find(name: str = DEFAULT_NAME) -> LocalCluster | None:
    """The running cluster of this name; None when there is none, or only its leftovers."""
    state = load_state(name)
    if state is None or not state.ready or not processes.alive(state.holder):
        return None
    node = Node(state)
    return LocalCluster(state, node, Runtime(node, state))


def up(stages: Stages, name: str = DEFAULT_NAME, *, own: bool = False) -> LocalCluster:
    """Start a cluster, or return the one of this name that runs; leftovers are removed first.

    Args:
        stages: is told how long each part took.
        name: clusters of different names can run beside each other.
        own: it belongs to this process: any later `up` removes it once this process is gone.

    Raises:
        ClusterFailed, MissingProgram, CommandFailed, DeadlinePassed: with the next step or the
        log of the part that failed. What was started by then has been removed.
    """
    if os.geteuid() != 0:
        raise ClusterFailed("a cluster on this machine needs root; or set RUNNERQ_TEST_KUBECONFIG")
    require_packages()
    with stages.stage("binaries (built on the first run)"):
        binaries = build_binaries(on_line=stages.note)
    with locked(_LOCK):
        _remove_orphans(stages)
        running = find(name)
        if running is not None and _answers(running):
            return running
        leftover = load_state(name)
        if leftover is not None:
            with stages.stage("removing what is left of an earlier cluster"):
                tear_down(leftover)
        state = _new_state(name)
        if own:
            state.owner = processes.mark(os.getpid())
            state.save()
        try:
            return _start(state, binaries, stages)
        except BaseException:
            # Also on Ctrl-C: what half stands is in nobody's hands.
            tear_down(state)
            raise


def down(name: str = DEFAULT_NAME) -> bool:
    """Remove the cluster of this name, running or not; False when there was none."""
    with locked(_LOCK):
        state = load_state(name)
        if state is None:
            return False
        tear_down(state)
        return True


def _remove_orphans(stages: Stages) -> None:
    """Remove the clusters whose owner was killed before it could."""
    for name in known_names():
        state = load_state(name)
        if state is not None and state.owner is not None and not processes.alive(state.owner):
            with stages.stage(f"removing cluster {name}, whose owner has ended"):
                tear_down(state)


def _new_state(name: str) -> ClusterState:
    others = [state for other in known_names() if (state := load_state(other))]
    subnet = free_subnet({other.subnet for other in others})
    mark = secrets.token_hex(3)
    state = ClusterState(
        name=name,
        folder=tempfile.mkdtemp(prefix="runnerq-cluster-"),
        cgroup=f"runnerq-cluster-{mark}",
        link=f"rq-{mark}",
        subnet=subnet,
        # With another cluster here, the machine's own settings are those that it found.
        sysctls=others[0].sysctls if others else read_sysctls(),
    )
    state.save()
    return state


def _start(state: ClusterState, binaries: Path, stages: Stages) -> LocalCluster:
    folder = Path(state.folder)
    node = Node(state)
    runtime = Runtime(node, state)
    with stages.stage("node"):
        make_cgroups(state.cgroup)
        node.open(build_pause())
    with stages.stage("credentials"):
        credentials = make_credentials(folder / "credentials", state.subnet)
    control_plane = ControlPlane(node, binaries, folder, credentials, state.subnet)
    dns = ClusterDns(node, binaries, folder, state.subnet)
    cluster = LocalCluster(state, node, runtime)
    with stages.stage("API server"):
        control_plane.start_api()
        runtime.start_containerd()
        cluster.load_image(sandbox_archive(SANDBOX_IMAGE), SANDBOX_IMAGE)
        control_plane.wait_for_api()
    with stages.stage("node ready"):
        control_plane.start_controllers()
        runtime.start_kubelet(binaries, credentials)
        dns.start(credentials)
        _wait_for_node(cluster)
    with stages.stage("cluster DNS"):
        dns.wait()
    state.ready = True
    state.save()
    return cluster


def _wait_for_node(cluster: LocalCluster) -> None:
    """Until the node is Ready and the first namespace has the account that pods need."""

    def ready() -> bool:
        cluster.node.require_running()
        try:
            node = cluster.get("node", NODE)
            cluster.get("serviceaccount", "default", "-n", "default")
        except CommandFailed:
            return False  # not registered yet
        conditions = {each["type"]: each["status"] for each in node["status"]["conditions"]}
        return conditions.get("Ready") == "True" and not node["spec"].get("taints")

    eventually(
        ready,
        seconds=90,
        what="a ready node",
        every=0.2,
        detail=lambda: cluster.node.log_tail("kubelet"),
    )


def _answers(cluster: LocalCluster) -> bool:
    try:
        cluster.kubectl("get", "--raw", "/readyz", timeout=10)
    except CommandFailed:
        return False
    return True

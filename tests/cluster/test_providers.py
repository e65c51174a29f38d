"""Which provider is chosen, and what is said where one cannot be had. Starts no cluster."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cluster import providers
from tests.cluster.audit import parse_events
from tests.cluster.commands import CommandFailed, MissingProgram, require, run
from tests.cluster.given import GivenCluster
from tests.cluster.images.archive import archive_identity, write_image
from tests.cluster.images.wheelhouse import pinned
from tests.cluster.kind import KindCluster
from tests.cluster.provider import ClusterFailed
from tests.cluster.providers import open_cluster
from tests.cluster.stages import Stages
from tests.cluster.waiting import DeadlinePassed, eventually


class _Local:
    """Stands in for the cluster on this machine."""

    def __init__(self) -> None:
        self.started: list[str] = []

    def up(self, stages: Stages, name: str, *, own: bool) -> str:
        self.started.append(name)
        return "local"


@pytest.fixture
def local(monkeypatch: pytest.MonkeyPatch) -> _Local:
    """The provider `local`, which starts nothing here."""
    stand_in = _Local()
    monkeypatch.setattr(providers.local, "up", stand_in.up)
    return stand_in


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is searched for programs first; kind and docker in it do as a test says."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setenv("RUNNERQ_CLUSTER_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("RUNNERQ_TEST_KUBECONFIG", raising=False)
    return folder


def _program(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def test_a_given_kubeconfig_comes_before_all_others(
    programs: Path, local: _Local, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    _program(programs, "docker", "exit 0")
    _program(programs, "kind", "exit 0")
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text("{}")
    monkeypatch.setenv("RUNNERQ_TEST_KUBECONFIG", str(kubeconfig))

    cluster = open_cluster(Stages())

    assert isinstance(cluster, GivenCluster)
    assert cluster.kubeconfig == kubeconfig
    assert local.started == []


def test_a_given_kubeconfig_that_does_not_exist_is_named(
    programs: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("RUNNERQ_TEST_KUBECONFIG", "/nowhere/config")

    with pytest.raises(ClusterFailed, match="RUNNERQ_TEST_KUBECONFIG=/nowhere/config"):
        open_cluster(Stages())


def test_kind_is_used_where_docker_runs(programs: Path, local: _Local, tmp_path: Path):
    calls = tmp_path / "calls"
    _program(programs, "docker", "exit 0")
    _program(programs, "kind", f'echo "$@" >> {calls}')

    cluster = open_cluster(Stages(), name="some")

    assert isinstance(cluster, KindCluster)
    assert "create cluster --name runnerq-some" in calls.read_text()
    assert local.started == []
    config = (tmp_path / "cache" / "kind" / "some" / "kind.yaml").read_text()
    assert f'hostPath: "{Path(__file__).parent / "audit-policy.yaml"}"' in config


def test_kind_without_its_node_image_gives_way_to_this_machine_and_says_why(
    programs: Path, local: _Local
):
    said: list[str] = []
    _program(programs, "docker", "exit 0")
    _program(programs, "kind", '[ "$1" != create ] || { echo no such image; exit 1; }')

    open_cluster(Stages(write=said.append), name="some")

    assert local.started == ["some"]
    assert "no such image" in "\n".join(said)


@pytest.mark.parametrize("docker", ["exit 1", None])
def test_without_docker_the_cluster_is_on_this_machine(
    programs: Path, local: _Local, docker: str | None
):
    _program(programs, "kind", "exit 0")
    if docker is not None:
        _program(programs, "docker", docker)

    open_cluster(Stages(), name="some")

    assert local.started == ["some"]


def test_a_wanted_provider_that_cannot_be_had_is_a_failure_with_the_reason(
    programs: Path, local: _Local
):
    _program(programs, "docker", "exit 1")
    _program(programs, "kind", "exit 0")

    with pytest.raises(ClusterFailed, match="`docker info` fails"):
        open_cluster(Stages(), provider="kind")
    with pytest.raises(ClusterFailed, match="set RUNNERQ_TEST_KUBECONFIG"):
        open_cluster(Stages(), provider="given")
    assert local.started == []


def test_a_given_cluster_loads_images_by_the_command_that_is_set(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    seen = tmp_path / "seen"
    _program(programs, "loader", f'echo "$@" > {seen}')
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text("{}")
    cluster = GivenCluster(kubeconfig)

    with pytest.raises(ClusterFailed, match="set RUNNERQ_TEST_LOAD_IMAGE"):
        cluster.load_image(tmp_path / "a.tar", "app:1")

    monkeypatch.setenv("RUNNERQ_TEST_LOAD_IMAGE", "loader {archive} as {image}")
    cluster.load_image(tmp_path / "a.tar", "app:1")
    assert seen.read_text() == f"{tmp_path / 'a.tar'} as app:1\n"


def test_a_given_cluster_without_an_audit_log_says_what_to_set(tmp_path: Path):
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text("{}")

    with pytest.raises(ClusterFailed, match="set RUNNERQ_TEST_AUDIT_LOG"):
        GivenCluster(kubeconfig).audit_events()


def test_a_missing_program_is_named_with_the_command_that_installs_it():
    with pytest.raises(MissingProgram, match="no-such-program; run `apt-get install it`"):
        require(["sh", "no-such-program"], install="apt-get install it")


def test_a_failed_command_tells_what_it_said():
    with pytest.raises(CommandFailed, match=r"ended with 3:\nout\n\nerr"):
        run(["sh", "-c", "echo out; echo err >&2; exit 3"])


def test_waiting_ends_with_what_was_waited_for_and_the_detail():
    with pytest.raises(DeadlinePassed, match=r"no sign of rain after 0 s\nit is sunny"):
        eventually(lambda: None, seconds=0, what="rain", detail=lambda: "it is sunny")


def test_the_audit_log_is_read_up_to_the_line_that_is_being_written():
    line = (
        '{"stage":"ResponseComplete","requestReceivedTimestamp":"2026-01-02T03:04:05.678901Z",'
        '"user":{"username":"system:serviceaccount:a:b"},"verb":"patch","requestURI":"/x",'
        '"objectRef":{"resource":"deployments","subresource":"scale","namespace":"a",'
        '"name":"d","apiGroup":"apps"},"responseStatus":{"code":200},"userAgent":"kopf"}\n'
    )
    started = line.replace("ResponseComplete", "ResponseStarted")

    events = parse_events([line, started, line[:50]])

    assert len(events) == 1
    assert (events[0].verb, events[0].subresource, events[0].code) == ("patch", "scale", 200)
    assert events[0].writes


def test_the_same_content_gives_the_same_image(tmp_path: Path):
    for name, content in (("a", b"1"), ("b", b"1"), ("c", b"2")):
        write_image(tmp_path / name, "x:1", {"bin/x": content}, entrypoint=["/bin/x"], user="1:1")

    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert archive_identity(tmp_path / "a") != archive_identity(tmp_path / "c")


def test_a_package_is_taken_from_the_lock_with_all_its_hashes(tmp_path: Path):
    listed = tmp_path / "lock.txt"
    listed.write_text("a==1 \\\n    --hash=sha256:1 \\\n    --hash=sha256:2\nb==2 \\\n  --hash=x\n")

    assert pinned("a", listed) == "a==1 \\\n    --hash=sha256:1 \\\n    --hash=sha256:2\n"
    with pytest.raises(ValueError, match="does not pin c"):
        pinned("c", listed)

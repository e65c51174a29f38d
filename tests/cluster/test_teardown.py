"""Nothing of a cluster stays on the machine, however it came to its end.

These start clusters of their own on this machine, whatever the other tests run on.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from tests.cluster.commands import run
from tests.cluster.images.base import BASE_IMAGE
from tests.cluster.images.builder import ImageBuilder
from tests.cluster.local import cluster as local
from tests.cluster.local import processes
from tests.cluster.local.binaries import build_binaries
from tests.cluster.local.cgroups import cgroup_folders
from tests.cluster.local.cluster import LocalCluster
from tests.cluster.local.node import ProgramEnded
from tests.cluster.local.state import ClusterState, load_state
from tests.cluster.local.teardown import CHANGED_BY_KUBELET, LeftBehind, tear_down
from tests.cluster.pods import container, pod, pod_spec
from tests.cluster.stages import Stages
from tests.cluster.waiting import eventually

pytestmark = pytest.mark.cluster

_ROOT = Path(__file__).parents[2]


def _machine() -> dict[str, object]:
    """What a cluster could leave on this machine, its folder aside."""
    return {
        "mounts": sorted(
            line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()
        ),
        "links": sorted(each["ifname"] for each in json.loads(run(["ip", "-json", "link"]))),
        "routes": run(["ip", "-4", "route"]),
        "packet filter": run(["nft", "list", "ruleset"]),
        "network namespaces": run(["ip", "netns", "list"]),
        "settings": {name: Path("/proc/sys", name).read_text() for name in CHANGED_BY_KUBELET},
        "forwarding": Path("/proc/sys/net/ipv4/ip_forward").read_text(),
        "folders": [
            (name, Path(name).exists())
            for name in ("/run/containerd", "/run/netns", "/var/lib/cni", "/var/lib/kubelet",
                         "/var/log/pods", "/opt/containerd")
        ],
    }  # fmt: skip


def _command_lines_with(text: str) -> list[bytes]:
    found: list[bytes] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if text.encode() in line:
            found.append(line.replace(b"\0", b" "))
    return found


@pytest.fixture
def name() -> Generator[str]:
    """Name of a cluster of this test's own, removed in any case."""
    name = f"teardown-{os.getpid()}"
    yield name
    local.down(name)


@pytest.fixture
def busy_cluster(name: str, stages: Stages, image_builder: ImageBuilder) -> LocalCluster:
    """A cluster in which a pod runs: it has mounts, links, rules and control groups."""
    archive = image_builder.build(BASE_IMAGE)
    cluster = local.up(stages, name, own=True)
    cluster.load_image(archive, BASE_IMAGE)
    sleep = ["python3", "-c", "import signal; signal.pause()"]
    cluster.apply(pod("sleeper", pod_spec(container(BASE_IMAGE, sleep))))
    cluster.kubectl("wait", "--for=condition=Ready", "pod/sleeper", "--timeout=60s")
    return cluster


def _assert_nothing_left(state: ClusterState) -> None:
    assert load_state(state.name) is None
    assert not Path(state.folder).exists()
    assert cgroup_folders(state.cgroup) == []
    assert _command_lines_with(state.folder) == []


def test_down_from_another_process_leaves_the_machine_as_it_was(
    name: str, request: pytest.FixtureRequest
):
    before = _machine()
    cluster: LocalCluster = request.getfixturevalue("busy_cluster")
    assert _command_lines_with(cluster.state.folder)
    assert cgroup_folders(cluster.state.cgroup)
    assert _machine() != before

    command = [sys.executable, "-m", "tests.cluster", "down", "--name", name]
    printed = run(command, folder=_ROOT, timeout=120)

    assert printed == f"{name}: removed\n"
    _assert_nothing_left(cluster.state)
    assert _machine() == before


def test_down_works_after_every_process_was_killed(name: str, request: pytest.FixtureRequest):
    before = _machine()
    cluster: LocalCluster = request.getfixturevalue("busy_cluster")
    holder = cluster.state.holder
    assert holder is not None
    os.kill(holder.pid, signal.SIGKILL)
    eventually(lambda: not processes.alive(holder), seconds=30, what="the end of the node")
    assert local.find(name) is None

    assert local.down(name)

    _assert_nothing_left(cluster.state)
    assert _machine() == before


def test_up_replaces_a_cluster_that_was_killed(
    name: str, stages: Stages, busy_cluster: LocalCluster
):
    holder = busy_cluster.state.holder
    assert holder is not None
    os.kill(holder.pid, signal.SIGKILL)

    again = local.up(stages, name, own=True)

    assert again.state.folder != busy_cluster.state.folder
    assert not Path(busy_cluster.state.folder).exists()
    assert again.get("nodes")["items"]


def test_an_up_that_fails_half_way_says_which_program_and_leaves_nothing(
    name: str, stages: Stages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    before = _machine()
    for binary in build_binaries().iterdir():
        (tmp_path / binary.name).symlink_to(binary)
    (tmp_path / "kubelet").unlink()
    (tmp_path / "kubelet").write_text("#!/bin/sh\necho this node is broken\nexit 1\n")
    (tmp_path / "kubelet").chmod(0o755)

    def broken_binaries(on_line: Callable[[str], None] = print) -> Path:
        return tmp_path

    monkeypatch.setattr(local, "build_binaries", broken_binaries)

    with pytest.raises(ProgramEnded, match=r"kubelet has ended:\nthis node is broken"):
        local.up(stages, name)

    assert load_state(name) is None
    assert _machine() == before


def test_a_cluster_whose_owner_was_killed_is_removed_by_the_next_up(
    name: str, stages: Stages, busy_cluster: LocalCluster
):
    state = busy_cluster.state
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as owner:
        state.owner = processes.mark(owner.pid)
        state.save()
        owner.kill()

    other = f"{name}-next"
    try:
        local.up(stages, other, own=True)
        _assert_nothing_left(state)
    finally:
        local.down(other)


def test_a_process_that_got_the_number_of_ours_is_not_killed(name: str, tmp_path: Path):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as stranger:
        seen = processes.mark(stranger.pid)
        earlier = processes.ProcessMark(pid=seen.pid, started=seen.started - 1)

        processes.kill(earlier)

        assert not processes.alive(earlier)
        assert processes.alive(seen)
        assert stranger.poll() is None
        stranger.kill()


def test_what_cannot_be_removed_is_named_and_the_state_is_kept(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    state = ClusterState(
        name=name, folder=str(tmp_path), cgroup="runnerq-none", link="rq-none", subnet=250
    )
    state.save()
    run(["mount", "-t", "tmpfs", "none", tmp_path])
    try:
        with (tmp_path / "held").open("w"), pytest.raises(LeftBehind, match=str(tmp_path)):
            tear_down(state)
        assert load_state(name) == state
    finally:
        if tmp_path.is_mount():
            run(["umount", tmp_path])

    tear_down(state)

    assert load_state(name) is None

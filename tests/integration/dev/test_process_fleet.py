"""ProcessFleet: pods that are processes. With a stub for a worker, so that it can misbehave."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest
from tests.conformance.eventually import eventually

from runnerq_operator.fleet.port import (
    FleetState,
    FleetUnavailable,
    PodPhase,
    PoolKey,
    ReplicasConflict,
    WorkerTemplate,
)
from runnerq_operator.fleet.process import ProcessFleet

STUB = Path(__file__).with_name("stub_worker.py")
KEY = PoolKey("", "shop", "mail")


def template(app: str = "ok", **fields: object) -> WorkerTemplate:
    return WorkerTemplate(
        app=app,
        queue_name="shop",
        activity_types=("send_*",),
        concurrency=2,
        drain_seconds=1,
        schema="runnerq",
        pod_template={
            "spec": {
                "containers": [
                    {
                        "name": "worker",
                        "env": [{"name": k, "value": str(v)} for k, v in fields.items()],
                    }
                ]
            }
        },
    )


class Watched:
    """A fleet with everything it said."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.pids: list[int] = []
        self.told = 0
        self.fleet = ProcessFleet(
            backend_url="sqlite:////nowhere",
            command=lambda app: (sys.executable, str(STUB), app),
            output=lambda pool, worker, line: self.lines.append(f"{worker}: {line}"),
            spawned=self.pids.append,
        )
        self.fleet.subscribe(lambda key: self._tell())

    def _tell(self) -> None:
        self.told += 1

    async def state(self) -> FleetState:
        state = await self.fleet.observe(KEY)
        assert state is not None
        return state

    async def scale(self, replicas: int) -> None:
        await self.fleet.set_replicas(KEY, replicas, version=(await self.state()).version)

    async def replaced(self) -> bool:
        """Whether nobody of an older template is left, and nobody too many."""
        state = await self.state()
        return not state.rolling and len(state.pods) == state.ready == state.replicas

    async def has(self, *phases: PodPhase) -> bool:
        """Whether the pods are in these phases."""
        return sorted(pod.phase for pod in (await self.state()).pods) == sorted(phases)


@asynccontextmanager
async def a_fleet(app: str = "ok", *, replicas: int = 0, **env: object) -> AsyncGenerator[Watched]:
    watched = Watched()
    async with watched.fleet:
        await watched.fleet.ensure(KEY, template(app, **env))
        if replicas:
            await watched.scale(replicas)
        yield watched
    assert not [pid for pid in watched.pids if psutil.pid_exists(pid)]


READY, DRAINING = PodPhase.READY, PodPhase.DRAINING


async def test_a_pool_starts_with_nobody():
    async with a_fleet() as here:
        state = await here.state()
        assert (state.replicas, state.pods) == (0, ())
        assert here.pids == []


async def test_workers_become_ready_and_the_listener_is_told():
    async with a_fleet(replicas=2) as here:
        await eventually(lambda: here.has(READY, READY))
        assert here.told >= 2
        assert here.fleet.working == 2


async def test_the_worker_gets_its_contract_and_what_the_template_sets():
    async with a_fleet(replicas=1, EXTRA="given") as here:
        await eventually(lambda: here.has(READY))
        assert here.lines == ["shop-mail-1: pool=mail extra=given"]


async def test_lowering_drains_those_that_were_named():
    async with a_fleet(replicas=3) as here:
        await eventually(lambda: here.has(READY, READY, READY))
        first = (await here.state()).pods[0].name
        await here.fleet.prefer_victims(KEY, [first])
        await here.scale(2)
        await eventually(lambda: here.has(READY, READY))
        assert first not in [pod.name for pod in (await here.state()).pods]
        assert f"{first}: drained" in here.lines


async def test_lowering_takes_those_that_are_not_ready_before_those_that_are():
    async with a_fleet(replicas=1) as here:
        await eventually(lambda: here.has(READY))
        survivor = (await here.state()).pods[0].name
        await here.scale(3)
        await here.scale(1)
        await eventually(lambda: here.has(READY))
        assert (await here.state()).pods[0].name == survivor


async def test_a_worker_that_dies_is_started_again_under_its_name():
    async with a_fleet(replicas=1) as here:
        await eventually(lambda: here.has(READY))
        name = (await here.state()).pods[0].name
        os.kill(here.pids[0], signal.SIGKILL)
        await eventually(lambda: len(here.pids) == 2)
        await eventually(lambda: here.has(READY))
        (pod,) = (await here.state()).pods
        assert (pod.name, pod.restarts) == (name, 1)


async def test_a_worker_that_keeps_crashing_at_start_is_unschedulable_and_says_why():
    async with a_fleet("crash", replicas=1) as here:
        await eventually(lambda: here.has(PodPhase.UNSCHEDULABLE))
        (pod,) = (await here.state()).pods
        assert pod.detail == "exit code 3; again in 4 s"
        assert pod.restarts == 3


async def test_a_worker_that_ignores_the_request_is_killed_after_its_grace():
    async with a_fleet("stubborn", replicas=1) as here:
        await eventually(lambda: here.has(READY))
        await here.scale(0)
        await eventually(lambda: here.has(DRAINING))
        await eventually(here.has, within=10)
        assert not psutil.pid_exists(here.pids[0])


async def test_hurrying_does_not_wait_for_the_grace():
    async with a_fleet("stubborn", replicas=1) as here:
        await eventually(lambda: here.has(READY))
        here.fleet.stop_all()
        here.fleet.kill_all()
        async with asyncio.timeout(3):
            await here.fleet.gone()


async def test_children_do_not_outlive_their_worker(tmp_path: Path):
    note = tmp_path / "child"
    async with a_fleet("family", replicas=1, CHILD_FILE=note) as here:
        await eventually(lambda: here.has(READY))
        child = psutil.Process(int(note.read_text()))
        os.kill(here.pids[0], signal.SIGKILL)
        await eventually(lambda: not child.is_running() or child.status() == "zombie")


async def test_workers_are_not_in_the_terminals_group():
    """So Ctrl-C reaches only the parent, which then drains."""
    async with a_fleet(replicas=1) as here:
        await eventually(lambda: here.has(READY))
        assert os.getsid(here.pids[0]) == here.pids[0] != os.getsid(0)


async def test_new_code_replaces_the_workers_one_by_one_and_never_leaves_fewer():
    async with a_fleet("late", replicas=2) as here:
        await eventually(lambda: here.has(READY, READY))
        before = {pod.name for pod in (await here.state()).pods}
        fewest = 2
        here.fleet.reload()
        assert (await here.state()).rolling

        async def replaced() -> bool:
            nonlocal fewest
            state = await here.state()
            fewest = min(fewest, state.ready)
            return not state.rolling and await here.has(READY, READY)

        await eventually(replaced)
        assert fewest == 2
        assert before.isdisjoint(pod.name for pod in (await here.state()).pods)


async def test_new_code_that_does_not_start_stops_nobody():
    async with a_fleet(replicas=2) as here:
        await eventually(lambda: here.has(READY, READY))
        await here.fleet.ensure(KEY, template("crash"))
        await eventually(lambda: here.has(READY, READY, PodPhase.UNSCHEDULABLE))
        await here.fleet.ensure(KEY, template("ok", EXTRA="repaired"))
        await eventually(here.replaced)


async def test_lowering_to_nobody_works_in_the_middle_of_a_replacement():
    async with a_fleet("late", replicas=2) as here:
        await eventually(lambda: here.has(READY, READY))
        here.fleet.reload()
        await here.scale(0)
        await eventually(here.has)


async def test_replicas_are_set_only_on_what_was_observed():
    async with a_fleet() as here:
        version = (await here.state()).version
        await here.fleet.set_replicas(KEY, 1, version=version)
        with pytest.raises(ReplicasConflict):
            await here.fleet.set_replicas(KEY, 2, version=version)


async def test_a_removed_pool_is_gone_after_its_last_worker():
    async with a_fleet(replicas=1) as here:
        await eventually(lambda: here.has(READY))
        await here.fleet.remove(KEY)
        await eventually(lambda: gone(here))


async def gone(here: Watched) -> bool:
    return await here.fleet.observe(KEY) is None


async def test_nothing_is_started_once_it_is_closing():
    async with a_fleet(replicas=1) as here:
        await eventually(lambda: here.has(READY))
        here.fleet.stop_all()
        await here.scale(3)
        await here.fleet.gone()
        assert len(here.pids) == 1


async def test_a_closed_fleet_says_so():
    async with a_fleet() as here:
        fleet = here.fleet
    with pytest.raises(FleetUnavailable):
        await fleet.observe(KEY)


async def test_a_fleet_that_is_left_by_an_error_leaves_no_process():
    watched = Watched()
    with contextlib.suppress(LookupError):
        async with watched.fleet:
            await watched.fleet.ensure(KEY, template())
            await watched.scale(2)
            await eventually(lambda: watched.has(READY, READY))
            raise LookupError
    assert not [pid for pid in watched.pids if psutil.pid_exists(pid)]

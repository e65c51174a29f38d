"""`runnerq dev` from outside: pools from nothing to many and back, Ctrl-C, crashes, reload."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conformance.eventually import eventually
from tests.integration.dev.running import APP, Dev, names_in, prepared, queue_file, results

from runnerq.storage.records import ActivityState
from runnerq_operator.local.processes import start_time

STARTED = "console  http://127.0.0.1:"
BACKENDS = ["sqlite", "postgres"]


@pytest.fixture
def folder() -> Iterator[Path]:
    """Not pytest's own, which only its owner may enter: as root, Postgres runs as another account."""
    with tempfile.TemporaryDirectory(prefix="runnerq-dev-") as name:
        Path(name).chmod(0o755)
        yield prepared(Path(name))


async def started(dev: Dev) -> None:
    await eventually(lambda: dev.says(STARTED) and dev.says("shell "), within=40)


@pytest.mark.parametrize("backend", BACKENDS)
async def test_pools_go_from_nothing_to_many_and_back(folder: Path, backend: str):
    with Dev(folder, "--backend", backend) as dev:
        await started(dev)
        assert list(dev.processes())[1:] == []
        async with await dev.executor() as executor:
            answers = await results(executor, 40, 0.3)
        assert {answer.partition(" in ")[0] for answer in answers} == {"version 1"}
        assert len({answer.partition(" in ")[2] for answer in answers}) == 3
        await eventually(lambda: dev.says("at zero"), within=30)
        dev.interrupt()
        await eventually(dev.ended)
        assert dev.code == 0
        assert dev.left_running() == []
        assert "Traceback" not in dev.output
        # One step or several: the first activities may be seen before the last are enqueued.
        assert "-> 3 workers" in dev.output


async def test_ctrl_c_lets_running_activities_finish(folder: Path):
    with Dev(folder, "--backend", "sqlite") as dev:
        await started(dev)
        async with await dev.executor() as executor:
            future = await executor.activity("work").payload(3.0).execute()
            await eventually(lambda: running(dev), within=20)
            dev.interrupt()
            await eventually(lambda: dev.says("draining 1 workers"))
            assert (await future.get_result(timeout=20)).startswith("version 1")
        await eventually(dev.ended)
        assert dev.code == 0
        assert "Traceback" not in dev.output


async def test_a_second_ctrl_c_does_not_wait(folder: Path):
    with Dev(folder, "--backend", "sqlite") as dev:
        await started(dev)
        async with await dev.executor() as executor:
            await executor.activity("work").payload(100.0).execute()
            await eventually(lambda: running(dev), within=20)
            dev.interrupt()
            await eventually(lambda: dev.says("draining"))
            dev.interrupt()
            await eventually(dev.ended, within=5)
        assert dev.left_running() == []
        assert "Traceback" not in dev.output


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
async def test_a_closed_terminal_and_a_service_manager_end_it_in_order(
    folder: Path, number: signal.Signals
):
    with Dev(folder, "--backend", "sqlite") as dev:
        await started(dev)
        async with await dev.executor() as executor:
            future = await executor.activity("work").payload(2.0).execute()
            await eventually(lambda: running(dev), within=20)
            dev.process.send_signal(number)
            assert (await future.get_result(timeout=20)).startswith("version 1")
        await eventually(dev.ended)
        assert dev.code == 0
        assert dev.left_running() == []


async def running(dev: Dev) -> bool:
    executor = await dev.executor()
    try:
        counts = (await executor.backend.stats("shop")).counts
        return counts.get(ActivityState.PROCESSING, 0) > 0
    finally:
        await executor.close()


async def test_the_database_keeps_its_data_over_a_restart(folder: Path):
    with Dev(folder, "--backend", "postgres") as dev:
        await started(dev)
        async with await dev.executor() as executor:
            future = await executor.activity("work").payload(0.0).delay(seconds=3).execute()
        dev.interrupt()
        await eventually(dev.ended)
        assert dev.left_running() == []
    with Dev(folder, "--backend", "postgres") as dev:
        await started(dev)
        async with await dev.executor() as executor:
            again = executor.future(future.id, str)
            assert (await again.get_result(timeout=30)).startswith("version 1")


async def test_a_database_that_is_killed_comes_back_and_nothing_is_lost(folder: Path):
    with Dev(folder, "--backend", "postgres") as dev:
        await started(dev)
        [server] = [one["pid"] for one in dev.processes() if one["kind"] == "database"]
        async with await dev.executor() as executor:
            futures = [await executor.activity("work").payload(0.5).execute() for _ in range(20)]
            await futures[0].get_result(timeout=30)
            os.kill(server, signal.SIGKILL)
            await eventually(lambda: dev.says("Postgres runs again"), within=30)
            answers = await asyncio.gather(*(future.get_result(timeout=60) for future in futures))
        assert len(answers) == 20
        dev.interrupt()
        await eventually(dev.ended, within=40)
        assert dev.code == 0
        assert dev.left_running() == []


async def test_a_running_activity_survives_the_scale_down_around_it(folder: Path):
    with Dev(folder, "--backend", "sqlite") as dev:
        await started(dev)
        async with await dev.executor() as executor:
            long = await executor.activity("work").payload(12.0).execute()
            await results(executor, 40, 0.2)
            await eventually(lambda: dev.says("3 -> 1 worker"), within=30)
            await eventually(lambda: dev.says("1 ready"), within=30)
            snapshot = await executor.backend.get_activity("shop", long.id)
            assert snapshot.status is ActivityState.PROCESSING
            assert (await long.get_result(timeout=30)).startswith("version 1")
            snapshot = await executor.backend.get_activity("shop", long.id)
            assert snapshot.attempt == 1
            await eventually(lambda: dev.says("at zero"), within=30)


async def test_all_is_done_although_a_worker_is_killed_in_the_middle(folder: Path):
    with Dev(folder, "--backend", "sqlite") as dev:
        await started(dev)
        async with await dev.executor() as executor:
            futures = [await executor.activity("work").payload(0.3).execute() for _ in range(60)]
            await eventually(lambda: dev.says("3 ready"), within=30)
            worker = next(one for one in dev.processes() if one["kind"] == "worker")
            os.kill(worker["pid"], signal.SIGKILL)
            answers = await asyncio.gather(*(future.get_result(timeout=60) for future in futures))
            assert len(answers) == 60


@pytest.mark.parametrize("backend", BACKENDS)
async def test_what_a_kill_left_running_is_ended_by_the_next_start(folder: Path, backend: str):
    with Dev(folder, "--backend", backend) as dev:
        await started(dev)
        async with await dev.executor() as executor:
            future = await executor.activity("work").payload(2.0).execute()
            await eventually(lambda: running(dev), within=20)
        dev.process.send_signal(signal.SIGKILL)
        dev.process.wait()
        left = {process.pid for process in dev.left_running()}
        assert left
        with Dev(folder, "--backend", backend) as second:
            await started(second)
            assert f"ended {len(left)} processes left over" in second.output
            assert left.isdisjoint(process.pid for process in second.left_running())
            async with await second.executor() as executor:
                again = executor.future(future.id, str)
                assert (await again.get_result(timeout=60)).startswith("version 1")


async def test_a_process_that_only_has_an_old_id_is_left_alone(folder: Path):
    """Ids are used again: a note of another start time is not about this process."""
    sleeper = await asyncio.create_subprocess_exec("sleep", "60", start_new_session=True)
    try:
        state = folder / ".runnerq"
        state.mkdir()
        (state / "processes").write_text(
            f'{{"kind": "worker", "pid": {sleeper.pid}, "started": "another time"}}\n{{"kind": "wor'
        )
        with Dev(folder, "--backend", "sqlite") as dev:
            await started(dev)
        assert sleeper.returncode is None
        assert start_time(sleeper.pid) is not None
    finally:
        sleeper.kill()
        await sleeper.wait()


async def test_changed_code_is_what_runs_next(folder: Path):
    prepared(folder, minReplicas=1)
    with Dev(folder, "--backend", "sqlite") as dev:
        await started(dev)
        await eventually(lambda: dev.says("1 ready"), within=20)
        async with await dev.executor() as executor:
            (first,) = await results(executor, 1, 0.0)
            assert first.startswith("version 1")
            (folder / "shop_app.py").write_text(APP.replace("VERSION = 1", "VERSION = 2"))
            await eventually(lambda: dev.says("shop_app.py changed"))

            async def answered_anew() -> bool:
                (answer,) = await results(executor, 1, 0.0)
                return answer.startswith("version 2")

            await eventually(answered_anew, within=30)


async def test_a_changed_file_is_followed_and_a_broken_one_is_not(folder: Path):
    with Dev(folder, "--backend", "sqlite") as dev:
        await started(dev)
        (folder / "queue.yaml").write_text(queue_file(minReplicas=9))
        await eventually(lambda: dev.says("minReplicas: 9 is above maxReplicas 3"))
        assert "stays in force" in dev.output
        (folder / "queue.yaml").write_text(queue_file(minReplicas=2))
        await eventually(lambda: dev.says("2 ready"), within=20)


async def test_a_program_runs_beside_the_queue_and_ends_the_run(folder: Path):
    (folder / "driver.py").write_text(
        "import asyncio, runnerq\n"
        "async def main():\n"
        "    async with await runnerq.connect() as executor:\n"
        "        future = await executor.activity('work').payload(0.1).execute()\n"
        "        print('answer:', await future)\n"
        "asyncio.run(main())\n"
    )
    with Dev(folder, "--backend", "sqlite", "--once", "--run", "python driver.py") as dev:
        await eventually(dev.ended, within=60)
        assert dev.code == 0
        assert "run | answer: version 1" in dev.output
        assert dev.output.index("ended with exit code 0") < dev.output.index("at zero")
        assert dev.left_running() == []


async def test_a_program_that_fails_gives_its_exit_code(folder: Path):
    command = "python -c 'raise SystemExit(7)'"
    with Dev(folder, "--backend", "sqlite", "--once", "--run", command) as dev:
        await eventually(dev.ended, within=40)
        assert dev.code == 7


async def test_a_program_that_cannot_start_is_said_in_one_line(folder: Path):
    with Dev(folder, "--backend", "sqlite", "--run", "no-such-program") as dev:
        await eventually(dev.ended, within=40)
        assert dev.code == 2
        assert "--run: 'no-such-program' cannot be started" in dev.output
        assert "Traceback" not in dev.output
        assert dev.left_running() == []


async def test_a_worker_that_does_not_start_is_said(folder: Path):
    (folder / "shop_app.py").write_text("raise RuntimeError('the app is broken')\n")
    prepared_file = queue_file(minReplicas=1)
    (folder / "queue.yaml").write_text(prepared_file)
    with Dev(folder, "--backend", "sqlite") as dev:
        await started(dev)
        await eventually(lambda: dev.says("the app is broken"), within=20)
        await eventually(lambda: dev.says("PodsUnschedulable: shop-mail-1"), within=30)


async def test_a_mistake_in_the_file_is_refused_before_anything_starts(folder: Path):
    (folder / "queue.yaml").write_text(queue_file(minReplicas=5))
    with Dev(folder) as dev:
        await eventually(dev.ended, within=20)
        assert dev.code == 2
        assert "spec.pools[0].scaling.minReplicas: 5 is above maxReplicas 3" in dev.output
        assert not (folder / ".runnerq").exists()


async def test_an_app_that_is_not_there_is_refused_before_anything_starts(folder: Path):
    (folder / "shop_app.py").unlink()
    with Dev(folder) as dev:
        await eventually(dev.ended, within=20)
        assert dev.code == 2
        assert "spec.pools[0].app: there is no module 'shop_app'" in dev.output


async def test_two_runs_in_one_folder_are_refused(folder: Path):
    with Dev(folder, "--backend", "sqlite") as dev:
        await started(dev)
        first_log = dev.log.rename(folder / "first.txt")
        with Dev(folder, "--backend", "sqlite") as second:
            await eventually(second.ended, within=20)
            assert second.code == 2
            assert f"already runs here as process {dev.process.pid}" in second.output
        assert first_log.exists()
        assert dev.process.poll() is None


async def test_it_writes_nothing_outside_its_folder(folder: Path):
    before = names_in(folder)
    with Dev(folder, "--backend", "sqlite") as dev:
        await started(dev)
        async with await dev.executor() as executor:
            await results(executor, 3, 0.0)
        assert names_in(folder) - before == {".runnerq", "output.txt"}
        secret = folder / ".runnerq" / "env"
        assert secret.stat().st_mode & 0o077 == 0

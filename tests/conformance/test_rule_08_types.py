"""Rule 8: an engine gets only types it can run; what nobody can run waits and is seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.conformance.eventually import WITHIN, eventually

from runnerq import ConfigurationError, activity
from runnerq.storage.records import ActivityState

if TYPE_CHECKING:
    from tests.conformance.engines import Engines
    from tests.conformance.station import Station

    from runnerq import ActivityDefinition


def named(name: str) -> ActivityDefinition[None, str]:
    @activity(name)
    async def handler() -> str:
        return f"ran {name}"

    return handler


async def test_a_claim_gets_only_the_types_it_names(station: Station) -> None:
    for name in ("a", "b", "c"):
        await station.enqueue_all(*(station.spec(name) for _ in range(3)))
    claims = await station.claim(10, types=("a", "c"))
    assert sorted(claim.type for claim in claims) == ["a", "a", "a", "c", "c", "c"]


async def test_a_claim_that_names_no_type_gets_nothing(station: Station) -> None:
    await station.enqueue()
    assert await station.claim(types=()) == []


async def test_names_are_exact(station: Station) -> None:
    for name in ("send", "send_email", "Send", "send.email", "send%"):
        await station.enqueue(name)
    [claim] = await station.claim(10, types=("send",))
    assert claim.type == "send"


async def test_a_claim_gets_only_its_queue(station: Station) -> None:
    await station.backend.enqueue(station.queue + "-other", [station.spec()])
    assert await station.claim(10) == []


async def test_naming_a_type_twice_changes_nothing(station: Station) -> None:
    await station.enqueue()
    assert len(await station.claim(10, types=("work", "work"))) == 1


async def test_work_of_a_type_that_nobody_runs_waits_and_is_never_failed(
    station: Station, engines: Engines
) -> None:
    orphan = await engines.executor.activity("nobody.runs.this").execute()
    await engines.start(named("work"))
    for _ in range(3):
        future = await engines.executor.activity("work").execute()
        assert await future.get_result(timeout=WITHIN) == "ran work"
    look = await station.look(orphan.id)
    assert (look.status, look.attempt) == (ActivityState.PENDING, 0)


async def test_work_that_nobody_runs_shows_up_as_uncovered(
    station: Station, engines: Engines
) -> None:
    await engines.executor.activity("nobody.runs.this").execute()
    await engines.start(named("work"))
    [demand] = await station.backend.demand([station.queue], horizon_ms=1_000)
    covered = {name for engine in demand.engines for name in engine.info.types}
    uncovered = {entry.type: entry.claimable for entry in demand.types if entry.type not in covered}
    assert uncovered == {"nobody.runs.this": 1}


async def test_an_engine_without_a_filter_takes_every_type_it_has_a_handler_for(
    engines: Engines,
) -> None:
    engine = await engines.start(named("a"), named("b"))
    assert engine.types == ("a", "b")
    for name in ("a", "b"):
        future = await engines.executor.activity(name).execute()
        assert await future.get_result(timeout=WITHIN) == f"ran {name}"


@pytest.mark.parametrize(
    ("patterns", "taken"),
    [
        (["send_email"], {"send_email"}),
        (["send_*"], {"send_email", "send_sms"}),
        (["report.*"], {"report.daily"}),
        (["*"], {"send_email", "send_sms", "report.daily"}),
        (["send_sms", "report.*"], {"send_sms", "report.daily"}),
    ],
)
async def test_patterns_narrow_what_an_engine_takes(
    station: Station, engines: Engines, patterns: list[str], taken: set[str]
) -> None:
    names = {"send_email", "send_sms", "report.daily"}
    futures = {name: await engines.executor.activity(name).execute() for name in names}
    await engines.start(*map(named, sorted(names)), activity_types=patterns)
    for name in sorted(taken):
        assert await futures[name].get_result(timeout=WITHIN) == f"ran {name}"
    for name in names - taken:
        assert await station.state(futures[name].id) is ActivityState.PENDING


@pytest.mark.parametrize(
    ("patterns", "named_in_message"),
    [
        (["send_emial"], "send_emial"),
        (["send_email", "sms_*"], "sms_*"),
        (["send_*_now"], "send_*_now"),
        (["**"], "**"),
    ],
)
async def test_a_filter_that_cannot_work_is_an_error_at_start_that_names_it(
    engines: Engines, patterns: list[str], named_in_message: str
) -> None:
    engine = engines.make(named("send_email"), activity_types=patterns)
    with pytest.raises(ConfigurationError, match="activity_types") as refused:
        await engine.start()
    assert repr(named_in_message) in str(refused.value)


async def test_an_engine_without_handlers_is_an_error_at_start(engines: Engines) -> None:
    with pytest.raises(ConfigurationError):
        await engines.make().start()


async def test_two_engines_of_different_types_share_a_queue(engines: Engines) -> None:
    await engines.start(named("a"))
    await engines.start(named("b"))
    for name in ("a", "b", "a", "b"):
        future = await engines.executor.activity(name).execute()
        assert await future.get_result(timeout=WITHIN) == f"ran {name}"


async def test_foreign_and_future_work_in_front_is_passed_over(station: Station) -> None:
    await station.enqueue_all(*(station.spec("foreign") for _ in range(500)))
    await station.enqueue_all(*(station.spec(delay_ms=3_600_000) for _ in range(500)))
    mine = await station.enqueue()
    assert [claim.id for claim in await station.claim(100)] == [mine]


async def test_an_engine_tells_others_which_types_it_runs(
    station: Station, engines: Engines
) -> None:
    engine = await engines.start(named("a"), named("b"), activity_types=["a"])

    async def types() -> tuple[str, ...]:
        [demand] = await station.backend.demand([station.queue], horizon_ms=1)
        return next(
            (one.info.types for one in demand.engines if one.info.engine_id == engine.engine_id),
            (),
        )

    assert await eventually(types) == ("a",)

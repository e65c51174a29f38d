"""What the REST routes answer, and how they refuse what they cannot answer."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from tests.conformance.eventually import eventually
from tests.integration.console.served import QUEUE, served

from runnerq.storage.records import ActivityState, DecisionRecord, PodRecord

if TYPE_CHECKING:
    from tests.integration.console.served import Served

NOW = datetime.now(UTC)


async def test_a_state_name_lists_newest_first(console: Served) -> None:
    ids = [str(await console.shop.enqueue()) for _ in range(3)]
    answer = await console.api("/activities/pending")
    assert [item["id"] for item in answer.json["items"]] == ids[::-1]
    assert {item["status"] for item in answer.json["items"]} == {"pending"}


async def test_a_uuid_fetches_one_activity(console: Served) -> None:
    activity_id = await console.shop.enqueue(payload=b'{"to":"ada"}')
    document = (await console.api(f"/activities/{activity_id}")).json
    assert document["id"] == str(activity_id)
    assert document["payload"] == {"to": "ada"}


@pytest.mark.parametrize("key", ["running", "Pending", "all", "123", "dead-letter", "pending%20"])
async def test_anything_else_is_refused_with_what_is_allowed(console: Served, key: str) -> None:
    answer = await console.api(f"/activities/{key}")
    assert answer.status == 400
    assert answer.error["field"] == "status"
    for state in ActivityState:
        assert state.value in answer.error["message"]


async def test_every_state_can_be_listed(console: Served) -> None:
    shop = console.shop
    made = {
        "dead_letter": await shop.dead(),
        "failed": await shop.failed(),
        "completed": await shop.completed(),
        "processing": await shop.processing(),
        "pending": await shop.enqueue(),
        "scheduled": await shop.enqueue(delay_ms=60_000),
    }
    for state, activity_id in made.items():
        items = (await console.api(f"/activities/{state}")).json["items"]
        assert [item["id"] for item in items] == [str(activity_id)], state


async def test_pages_follow_each_other_without_gap_or_overlap(console: Served) -> None:
    ids = [str(await console.shop.enqueue()) for _ in range(7)]
    seen: list[str] = []
    cursor = ""
    while True:
        query = f"?limit=3&cursor={cursor}" if cursor else "?limit=3"
        page = (await console.api(f"/activities/pending{query}")).json
        seen += [item["id"] for item in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == ids[::-1]


async def test_a_list_can_be_narrowed_to_a_type(console: Served) -> None:
    await console.shop.enqueue("send")
    other = await console.shop.enqueue("report.daily")
    items = (await console.api("/activities/pending?type=report.daily")).json["items"]
    assert [item["id"] for item in items] == [str(other)]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("limit=0", "limit"),
        ("limit=201", "limit"),
        ("limit=ten", "limit"),
        ("limit=-1", "limit"),
        ("limit=%D9%A3", "limit"),
        ("limit=1e1", "limit"),
        ("cursor=nonsense", "cursor"),
        ("type=a%20b", "type"),
        ("type=%3Cscript%3E", "type"),
    ],
)
async def test_a_wrong_parameter_is_named(console: Served, query: str, field: str) -> None:
    answer = await console.api(f"/activities/pending?{query}")
    assert answer.status == 400
    assert answer.error["field"] == field
    assert answer.error["message"].startswith(f"{field}: ")


async def test_an_unknown_activity_is_not_found(console: Served) -> None:
    for path in ("", "/events", "/result"):
        answer = await console.api(f"/activities/{uuid4()}{path}")
        assert (answer.status, answer.error["code"]) == (404, "not_found")


@pytest.mark.parametrize("path", ["events", "result"])
async def test_what_is_not_a_uuid_has_no_events_and_no_result(console: Served, path: str) -> None:
    answer = await console.api(f"/activities/pending/{path}")
    assert (answer.status, answer.error["field"]) == (400, "id")


async def test_integers_beyond_the_browsers_precision_survive(console: Served) -> None:
    payload = b'{"order":9007199254740993,"huge":123456789012345678901234567890,"price":1.50}'
    activity_id = await console.shop.completed(result=b"9007199254740993", payload=payload)
    detail = await console.api(f"/activities/{activity_id}")
    assert f'"payload":{payload.decode()}' in detail.text
    assert (
        '"result":9007199254740993' in (await console.api(f"/activities/{activity_id}/result")).text
    )
    assert payload.decode() in (await console.api("/activities/completed")).text


async def test_a_timeline_is_told_oldest_first(console: Served) -> None:
    activity_id = await console.shop.dead()
    events = (await console.api(f"/activities/{activity_id}/events")).json["events"]
    assert [event["kind"] for event in events] == ["enqueued", "claimed", "dead_lettered"]
    assert events[-1]["status"] == "dead_letter"
    assert events[-1]["error"]["traceback"] == "Traceback: it"


async def test_a_result_is_there_with_its_state(console: Served) -> None:
    activity_id = await console.shop.completed(result=b'{"ok":true}')
    document = (await console.api(f"/activities/{activity_id}/result")).json
    assert document["finished"] is True
    assert document["result"] == {"ok": True}


async def test_a_failure_is_its_result(console: Served) -> None:
    activity_id = await console.shop.failed()
    document = (await console.api(f"/activities/{activity_id}/result")).json
    assert (document["status"], document["error"]["type"]) == ("failed", "Boom")


async def test_a_result_that_is_not_there_yet_says_so(console: Served) -> None:
    activity_id = await console.shop.enqueue()
    document = (await console.api(f"/activities/{activity_id}/result")).json
    assert (document["finished"], document["status"], document["result"]) == (
        False,
        "pending",
        None,
    )


async def test_the_dead_letter_lists_dead_letters(console: Served) -> None:
    activity_id = await console.shop.dead()
    await console.shop.enqueue()
    items = (await console.api("/dead-letter")).json["items"]
    assert [item["id"] for item in items] == [str(activity_id)]


async def test_stats_count_every_state(console: Served) -> None:
    await console.shop.dead()
    await console.shop.enqueue()
    document = (await console.api("/stats")).json
    assert document["queue"] == QUEUE
    assert document["counts"]["pending"] == 1
    assert document["counts"]["dead_letter"] == 1
    assert set(document["counts"]) == {state.value for state in ActivityState}
    assert document["demand"]["claimable"] == 1


async def test_requeue_gives_dead_letters_all_their_attempts_again(console: Served) -> None:
    dead = await console.shop.dead()
    alive = await console.shop.enqueue()
    answer = await console.act("/dead-letter/requeue", {"ids": [str(dead), str(alive)]})
    assert answer.status == 200
    assert answer.json["requeued"] == 1
    assert answer.json["results"] == [
        {"id": str(dead), "requeued": True},
        {"id": str(alive), "requeued": False},
    ]
    detail = (await console.api(f"/activities/{dead}")).json
    assert (detail["status"], detail["attempt"]) == ("pending", 0)
    events = (await console.api(f"/activities/{dead}/events")).json["events"]
    assert "requeued" in [event["kind"] for event in events]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"ids": []}, "ids"),
        ({"ids": [str(uuid4()) for _ in range(1_001)]}, "ids"),
        ({"ids": ["x"]}, "body"),
        ({"ids": "x"}, "body"),
        ({}, "body"),
        ({"ids": [], "all": True}, "body"),
        ([], "body"),
    ],
)
async def test_a_wrong_requeue_is_refused_by_name(
    console: Served, body: object, field: str
) -> None:
    answer = await console.act("/dead-letter/requeue", body)
    assert (answer.status, answer.error["field"]) == (400, field)


async def test_a_requeue_that_is_not_json_is_refused(console: Served) -> None:
    answer = await console.ask(
        "POST", "/api/observability/dead-letter/requeue", data={"ids": str(uuid4())}
    )
    assert (answer.status, answer.error["field"]) == (415, "Content-Type")


async def test_pools_join_decisions_pods_and_engines(console: Served) -> None:
    backend = console.shop.backend
    await console.shop.open(pool="bulk", pod="bulk-1")
    await console.shop.enqueue()
    await backend.record_pods(
        QUEUE,
        [
            PodRecord(queue=QUEUE, pool="bulk", name="bulk-1", phase="ready", since=NOW),
            PodRecord(queue=QUEUE, pool="bulk", name="bulk-2", phase="starting", since=NOW),
        ],
    )
    await backend.record_decision(
        DecisionRecord(
            queue=QUEUE,
            pool="bulk",
            at=NOW,
            from_replicas=1,
            to_replicas=2,
            reason="target",
            summary="one more for the backlog",
            detail={"max": 5},
        )
    )
    [pool] = (await console.api("/pools")).json["pools"]
    assert (pool["desired"], pool["ready"], pool["max"], pool["backlog"]) == (2, 1, 5, 1)
    assert pool["decision"]["summary"] == "one more for the backlog"
    [decision] = (await console.api("/decisions?pool=bulk")).json["decisions"]
    assert (decision["from_replicas"], decision["to_replicas"]) == (1, 2)
    assert (await console.api("/decisions?pool=other")).json["decisions"] == []
    [worker] = (await console.api("/workers")).json["workers"]
    assert (worker["pod"], worker["slots"], worker["state"]) == ("bulk-1", 4, "running")


async def test_other_queues_of_the_backend_can_be_looked_at(console: Served) -> None:
    other = type(console.shop)(console.shop.backend, "a/b ?#%")
    await other.enqueue()
    names = [queue["name"] for queue in (await console.api("/queues")).json["queues"]]
    assert names == [QUEUE, "a/b ?#%"]
    answer = await console.api("/activities/pending", params={"queue": "a/b ?#%"})
    assert len(answer.json["items"]) == 1


async def test_a_queue_that_does_not_exist_is_not_an_empty_one(console: Served) -> None:
    for path in ("/stats", "/pools", "/activities/pending", "/stream", "/series"):
        answer = await console.api(f"{path}?queue=nope")
        assert (answer.status, answer.error["field"]) == (404, "queue"), path


async def test_a_console_of_one_queue_shows_no_other() -> None:
    async with served(all_queues=False) as console:
        await type(console.shop)(console.shop.backend, "secret").enqueue()
        assert len((await console.api("/queues")).json["queues"]) == 1
        assert (await console.api("/stats?queue=secret")).status == 404


async def test_the_series_grows_by_itself(console: Served) -> None:
    async def columns() -> bool:
        document = (await console.api("/series")).json
        return len(document["at_ms"]) == len(document["claimable"]) >= 1

    await eventually(columns)


async def test_answers_are_not_cached_and_not_sniffed(console: Served) -> None:
    answer = await console.api("/stats")
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Content-Type"] == "application/json"


async def test_an_unknown_route_and_method_are_errors_of_the_same_shape(console: Served) -> None:
    assert (await console.api("/nope")).error["code"] == "not_found"
    answer = await console.ask("DELETE", "/api/observability/stats")
    assert (answer.status, answer.error["code"]) == (405, "method_not_allowed")


async def test_instants_are_utc_and_say_so(console: Served) -> None:
    await console.shop.enqueue()
    [item] = (await console.api("/activities/pending")).json["items"]
    created = datetime.fromisoformat(item["created_at"])
    assert created.utcoffset() == timedelta(0)
    assert json.dumps(item)

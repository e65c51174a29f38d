"""From RunnerQueues and Secrets to what the loop wants; statuses and events on the way back."""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.virtual_time import run_in_virtual_time

from runnerq.metrics import NoopMetrics
from runnerq_operator.control.desired import BackendAddress, BackendProblem, DesiredQueue
from runnerq_operator.control.report import EventType, QueueEvent, QueueReport
from runnerq_operator.fleet.port import QueueKey, SecretKey
from runnerq_operator.kube.api import Conflict, NotFound, Unreachable
from runnerq_operator.kube.caches import Caches
from runnerq_operator.kube.consoles import Consoles
from runnerq_operator.kube.events import EventRecorder
from runnerq_operator.kube.kinds import DEPLOYMENT, POOL, QUEUE, SECRET, SERVICE, WATCHED, Kind
from runnerq_operator.kube.queue_feed import SECRET_SECONDS, QueueFeed
from runnerq_operator.kube.status import KubernetesStatusSink
from runnerq_operator.model.status import (
    Condition,
    ConditionStatus,
    RunnerQueueStatus,
    RunnerWorkerPoolStatus,
)

KEY = QueueKey("shop", "emails")


@dataclass
class Cluster:
    """The API in memory, as far as feed, sink and recorder use it: objects by kind, name and version,
    and a log of all writes. What is written is put into the caches, as a watch would."""

    caches: Caches
    objects: dict[tuple[Kind, str], dict[str, Any]] = field(
        default_factory=dict[tuple[Kind, str], dict[str, Any]]
    )
    writes: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    down: bool = False
    version: int = 100

    async def get(self, kind: Kind, namespace: str, name: str) -> dict[str, Any]:
        self._answer()
        found = self.objects.get((kind, name))
        if found is None:
            raise NotFound(404, "NotFound", f"no {name}")
        return found

    async def apply(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        body: dict[str, Any],
        *,
        manager: str,
        force: bool = False,
        subresource: str = "",
        dry_run: bool = False,
    ) -> dict[str, Any]:
        self._answer()
        self.writes.append((f"{kind.plural}/{subresource}" if subresource else kind.plural, name))
        known = self.objects.get((kind, name), {})
        if subresource:
            return self.put(kind, {**known, "status": body["status"]})
        return self.put(kind, {**known, **body})

    async def create(
        self, kind: Kind, namespace: str, body: dict[str, Any], *, manager: str
    ) -> dict[str, Any]:
        self._answer()
        self.writes.append((f"{kind.plural}+", body.get("reason", "")))
        return self.put(kind, body)

    async def merge(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        body: dict[str, Any],
        *,
        manager: str,
        subresource: str = "",
    ) -> dict[str, Any]:
        self._answer()
        if (kind, name) not in self.objects:
            raise NotFound(404, "NotFound", name)
        self.writes.append((kind.plural, str(body)))
        return self.put(kind, {**self.objects[kind, name], **body})

    async def delete(self, kind: Kind, namespace: str, name: str, *, uid: str) -> None:
        self._answer()
        self.writes.append((f"{kind.plural}-", name))
        self.drop(kind, name)

    def put(self, kind: Kind, body: dict[str, Any]) -> dict[str, Any]:
        self.version += 1
        metadata = {"namespace": "shop", "uid": f"uid-{body['metadata']['name']}"}
        metadata |= body["metadata"] | {"resourceVersion": str(self.version)}
        stored = {**body, "metadata": metadata}
        self.objects[kind, metadata["name"]] = stored
        if kind in WATCHED:
            self.caches[kind].observe(stored, deleted=False)
        return stored

    def drop(self, kind: Kind, name: str) -> None:
        gone = self.objects.pop((kind, name))
        self.version += 1
        metadata = {**gone["metadata"], "resourceVersion": str(self.version)}
        if kind in WATCHED:
            self.caches[kind].observe({**gone, "metadata": metadata}, deleted=True)

    def secret(self, **data: str) -> None:
        encoded = {key: base64.b64encode(text.encode()).decode() for key, text in data.items()}
        self.put(SECRET, {"metadata": {"name": "database"}, "data": encoded})

    def queue(self, *, generation: int = 1, **spec: Any) -> None:
        base: dict[str, Any] = {
            "backend": {"postgres": {"urlSecretRef": {"name": "database", "key": "url"}}},
            "pools": [{"name": "bulk", "app": "shop", "activityTypes": ["*"]}],
        }
        self.put(
            QUEUE,
            {
                "metadata": {"name": "emails", "generation": generation},
                "spec": {**base, **spec},
            },
        )

    def _answer(self) -> None:
        if self.down:
            raise Unreachable("connection refused")


@dataclass
class Loop:
    applied: list[DesiredQueue] = field(default_factory=list[DesiredQueue])
    known: list[RunnerQueueStatus | None] = field(default_factory=list[RunnerQueueStatus | None])
    forgotten: list[QueueKey] = field(default_factory=list[QueueKey])

    def apply(self, desired: DesiredQueue, *, known: RunnerQueueStatus | None = None) -> None:
        self.applied.append(desired)
        self.known.append(known)

    def forget(self, key: QueueKey) -> None:
        self.forgotten.append(key)


@asynccontextmanager
async def feeding(cluster: Cluster) -> AsyncGenerator[Loop]:
    loop = Loop()
    api: Any = cluster
    consoles = Consoles(api, cluster.caches, image="operator:1")
    feed = QueueFeed(api, cluster.caches, consoles, loop, metrics=NoopMetrics())
    task = asyncio.create_task(feed.run())
    try:
        await asyncio.sleep(0.1)
        yield loop
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def cluster() -> Cluster:
    made = Cluster(Caches(["shop"]))
    made.secret(url="postgresql://db")
    return made


def test_a_queue_is_handed_to_the_loop_with_its_secret_resolved():
    async def scenario() -> None:
        there = cluster()
        there.queue(queueName="mails")
        async with feeding(there) as loop:
            desired = loop.applied[-1]
            assert desired.key == KEY
            assert desired.backend_queue == "mails"
            assert isinstance(desired.backend, BackendAddress)
            assert desired.backend.url == "postgresql://db"
            assert desired.backend.secret == SecretKey("database", "url")
            assert "postgresql" not in desired.backend.fingerprint

    run_in_virtual_time(scenario())


def test_the_pools_template_lies_over_the_queues():
    async def scenario() -> None:
        there = cluster()
        pool: dict[str, Any] = {"name": "bulk", "app": "shop", "activityTypes": ["*"]}
        pool["template"] = {"spec": {"containers": [{"name": "worker", "image": "shop:2"}]}}
        shared = {"name": "worker", "image": "shop:1", "env": [{"name": "A", "value": "1"}]}
        there.queue(pools=[pool], template={"spec": {"containers": [shared]}})
        async with feeding(there) as loop:
            (container,) = loop.applied[-1].pod_templates["bulk"]["spec"]["containers"]
            assert container == {**shared, "image": "shop:2"}

    run_in_virtual_time(scenario())


def test_a_changed_secret_is_noticed_without_any_event():
    async def scenario() -> None:
        there = cluster()
        there.queue()
        async with feeding(there) as loop:
            before = loop.applied[-1].backend
            there.secret(url="postgresql://elsewhere")
            await asyncio.sleep(SECRET_SECONDS + 1)
            after = loop.applied[-1].backend
            assert isinstance(before, BackendAddress)
            assert isinstance(after, BackendAddress)
            assert (before.url, after.url) == ("postgresql://db", "postgresql://elsewhere")
            assert before.fingerprint != after.fingerprint

    run_in_virtual_time(scenario())


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (None, "there is no Secret database in namespace shop"),
        ({"other": "x"}, r"no key 'url'; its keys are: other"),
        ({"url": " \n"}, "is empty"),
    ],
)
def test_a_secret_that_cannot_be_used_is_a_problem_with_words(
    data: dict[str, str] | None, words: str
):
    async def scenario() -> None:
        there = cluster()
        there.queue()
        there.drop(SECRET, "database")
        if data is not None:
            there.secret(**data)
        async with feeding(there) as loop:
            problem = loop.applied[-1].backend
            assert isinstance(problem, BackendProblem)
            assert problem.reason == "SecretNotFound"
            assert re.search(words, problem.message), problem.message

    run_in_virtual_time(scenario())


def test_a_newline_at_the_end_of_a_secret_is_not_part_of_the_address():
    async def scenario() -> None:
        there = cluster()
        there.secret(url="postgresql://db\n")
        there.queue()
        async with feeding(there) as loop:
            assert isinstance(loop.applied[-1].backend, BackendAddress)
            assert loop.applied[-1].backend.url == "postgresql://db"

    run_in_virtual_time(scenario())


def test_an_api_server_that_does_not_answer_is_not_a_missing_secret():
    async def scenario() -> None:
        there = cluster()
        there.queue()
        async with feeding(there) as loop:
            there.down = True
            await asyncio.sleep(120)
            assert all(isinstance(one.backend, BackendAddress) for one in loop.applied)
            there.down = False
            seen = len(loop.applied)
            await asyncio.sleep(70)
            assert len(loop.applied) > seen, "it comes back by itself"

    run_in_virtual_time(scenario())


def test_a_backend_that_this_version_does_not_have_is_said():
    async def scenario() -> None:
        there = cluster()
        there.queue(backend={"redis": {"urlSecretRef": {"name": "database", "key": "url"}}})
        async with feeding(there) as loop:
            problem = loop.applied[-1].backend
            assert isinstance(problem, BackendProblem)
            assert problem.reason == "BackendUnsupported"

    run_in_virtual_time(scenario())


def test_a_spec_that_is_not_understood_is_not_handed_on_and_tried_again():
    async def scenario() -> None:
        there = cluster()
        there.queue(pools="many")
        async with feeding(there) as loop:
            assert loop.applied == []
            there.queue(generation=2)
            await asyncio.sleep(1)
            assert len(loop.applied) == 1

    run_in_virtual_time(scenario())


def test_a_deleted_queue_is_forgotten():
    async def scenario() -> None:
        there = cluster()
        there.queue()
        async with feeding(there) as loop:
            there.drop(QUEUE, "emails")
            await asyncio.sleep(1)
            assert loop.forgotten == [KEY]

    run_in_virtual_time(scenario())


def test_an_own_status_write_does_not_bring_the_queue_round_again():
    async def scenario() -> None:
        there = cluster()
        there.queue()
        async with feeding(there) as loop:
            seen = len(loop.applied)
            stored = there.objects[QUEUE, "emails"]
            there.put(QUEUE, {**stored, "status": {"backlog": 3}})
            await asyncio.sleep(1)
            assert len(loop.applied) == seen

    run_in_virtual_time(scenario())


def test_the_status_that_is_shown_comes_along_for_a_new_leader():
    async def scenario() -> None:
        there = cluster()
        there.queue()
        stored = there.objects[QUEUE, "emails"]
        there.put(QUEUE, {**stored, "status": {"backlog": 3}})
        async with feeding(there) as loop:
            assert loop.known[-1] == RunnerQueueStatus(backlog=3)

    run_in_virtual_time(scenario())


def test_a_console_is_made_once_and_removed_when_it_is_no_longer_asked_for():
    async def scenario() -> None:
        there = cluster()
        there.queue(console={"auth": {"mode": "None"}})
        async with feeding(there):
            assert there.writes == [
                ("deployments", "emails-console"),
                ("services", "emails-console"),
            ]
            await asyncio.sleep(10 * SECRET_SECONDS)
            assert len(there.writes) == 2, "a steady state writes nothing"
            there.queue(generation=2)
            await asyncio.sleep(1)
            assert there.writes[2:] == [
                ("deployments-", "emails-console"),
                ("services-", "emails-console"),
            ]

    run_in_virtual_time(scenario())


def test_a_console_rolls_when_its_token_changes_and_comes_back_when_deleted():
    async def scenario() -> None:
        there = cluster()
        there.secret(url="postgresql://db", token="one")
        auth = {"tokenSecretRef": {"name": "database", "key": "token"}}
        there.queue(console={"auth": auth})
        async with feeding(there):
            there.secret(url="postgresql://db", token="two")
            await asyncio.sleep(SECRET_SECONDS + 1)
            assert there.writes.count(("deployments", "emails-console")) == 2
            there.drop(DEPLOYMENT, "emails-console")
            there.drop(SERVICE, "emails-console")
            await asyncio.sleep(1)
            assert there.writes.count(("deployments", "emails-console")) == 3
            assert there.writes.count(("services", "emails-console")) == 2

    run_in_virtual_time(scenario())


AT = datetime(2030, 1, 1, tzinfo=UTC)


def report(backlog: int, *events: QueueEvent) -> QueueReport:
    ready = Condition(
        type="Ready", status=ConditionStatus.TRUE, reason="AllReady", last_transition_time=AT
    )
    return QueueReport(
        queue=KEY,
        status=RunnerQueueStatus(backlog=backlog, conditions=(ready,)),
        pools={"bulk": RunnerWorkerPoolStatus(backlog=backlog)},
        events=events,
    )


@dataclass
class Reporting:
    cluster: Cluster
    sink: KubernetesStatusSink
    clock: list[float]


def reporting() -> Reporting:
    there = cluster()
    there.queue()
    there.put(POOL, {"metadata": {"name": "emails-bulk"}, "spec": {}})
    api: Any = there
    clock = [0.0]
    events = EventRecorder(api, there.caches, instance="pod_1", clock=lambda: clock[0])
    return Reporting(there, KubernetesStatusSink(api, there.caches, events), clock)


async def test_a_status_is_written_once_and_figures_that_are_zero_are_written_too():
    there = reporting()
    await there.sink.publish(report(0))
    await there.sink.publish(report(0))
    assert there.cluster.writes == [
        ("runnerworkerpools/status", "emails-bulk"),
        ("runnerqueues/status", "emails"),
    ]
    status = there.cluster.objects[POOL, "emails-bulk"]["status"]
    assert status["backlog"] == 0
    assert status["readyReplicas"] == 0
    assert status["selector"] == (
        "runnerq.dev/queue=emails,runnerq.dev/pool=bulk,app.kubernetes.io/component=worker"
    )
    assert "oldestSeconds" not in status


async def test_a_new_leader_does_not_repeat_the_status_that_is_shown():
    there = reporting()
    await there.sink.publish(report(5))
    api: Any = there.cluster
    events = EventRecorder(api, there.cluster.caches, instance="pod_2")
    writes = len(there.cluster.writes)
    await KubernetesStatusSink(api, there.cluster.caches, events).publish(report(5))
    assert len(there.cluster.writes) == writes


async def test_what_the_api_refuses_is_raised_so_that_the_loop_sends_it_again():
    there = reporting()
    there.cluster.down = True
    with pytest.raises(Unreachable):
        await there.sink.publish(report(5))


async def test_a_status_for_what_is_gone_is_dropped():
    there = reporting()
    there.cluster.drop(QUEUE, "emails")
    there.cluster.drop(POOL, "emails-bulk")
    await there.sink.publish(report(5, QueueEvent(reason="ScaledUp", message="0 -> 1")))
    assert there.cluster.writes == []


def event(message: str = "0 -> 1", *, pool: str = "bulk") -> QueueEvent:
    return QueueEvent(reason="ScaledUp", message=message, pool=pool, type=EventType.NORMAL)


async def test_an_event_is_about_the_pool_that_it_names():
    there = reporting()
    await there.sink.publish(report(0, event(), event("all", pool="")))
    made = [
        body
        for (kind, _), body in there.cluster.objects.items()
        if kind.plural == "events" and body["reason"] == "ScaledUp"
    ]
    assert {(body["regarding"]["kind"], body["note"]) for body in made} == {
        ("RunnerWorkerPool", "0 -> 1"),
        ("RunnerQueue", "all"),
    }


async def test_the_same_event_again_counts_up_and_another_does_not():
    there = reporting()
    for _ in range(3):
        await there.sink.publish(report(0, event()))
        there.clock[0] += 60
    await there.sink.publish(report(0, event("1 -> 2")))
    made = [body for (kind, _), body in there.cluster.objects.items() if kind.plural == "events"]
    assert sorted(body.get("series", {}).get("count", 1) for body in made) == [1, 3]


async def test_an_event_of_long_ago_is_not_continued():
    there = reporting()
    await there.sink.publish(report(0, event()))
    there.clock[0] += 1000
    await there.sink.publish(report(0, event()))
    made = [body for (kind, _), body in there.cluster.objects.items() if kind.plural == "events"]
    assert len(made) == 2


async def test_an_event_whose_record_expired_is_made_anew():
    there = reporting()
    await there.sink.publish(report(0, event()))
    for key in [key for key in there.cluster.objects if key[0].plural == "events"]:
        del there.cluster.objects[key]
    await there.sink.publish(report(0, event()))
    made = [body for (kind, _), body in there.cluster.objects.items() if kind.plural == "events"]
    assert len(made) == 1


async def test_an_event_that_cannot_be_written_does_not_hold_up_the_status():
    there = reporting()
    await there.sink.publish(report(0))

    async def refuse(*_: Any, **__: Any) -> dict[str, Any]:
        raise Conflict(409, "Conflict", "no")

    there.cluster.create = refuse
    await there.sink.publish(report(1, event()))
    assert there.cluster.objects[QUEUE, "emails"]["status"]["backlog"] == 1

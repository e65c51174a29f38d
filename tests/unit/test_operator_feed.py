"""From RunnerQueues and Secrets to what the loop wants, and the consoles beside it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.unit.kube_in_memory import Cluster, cluster
from tests.virtual_time import run_in_virtual_time

from runnerq.metrics import NoopMetrics
from runnerq_operator.control.desired import BackendAddress, BackendProblem, DesiredQueue
from runnerq_operator.fleet.port import QueueKey, SecretKey
from runnerq_operator.kube.consoles import Consoles
from runnerq_operator.kube.kinds import DEPLOYMENT, QUEUE, SECRET, SERVICE
from runnerq_operator.kube.queue_feed import SECRET_SECONDS, QueueFeed
from runnerq_operator.model.status import RunnerQueueStatus

KEY = QueueKey("shop", "emails")


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

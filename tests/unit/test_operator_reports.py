"""Statuses and events: written when they say something new, and only then."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.unit.kube_in_memory import Cluster, cluster

from runnerq_operator.control.report import EventType, QueueEvent, QueueReport
from runnerq_operator.fleet.port import FleetUnavailable, QueueKey
from runnerq_operator.kube.api import Conflict
from runnerq_operator.kube.events import EventRecorder
from runnerq_operator.kube.kinds import POOL, QUEUE
from runnerq_operator.kube.status import KubernetesStatusSink
from runnerq_operator.model.status import (
    Condition,
    ConditionStatus,
    RunnerQueueStatus,
    RunnerWorkerPoolStatus,
)

KEY = QueueKey("shop", "emails")
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
    with pytest.raises(FleetUnavailable, match="connection refused"):
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

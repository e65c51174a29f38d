"""Workers that are to go: the busy stay as long as there are idle ones, and nothing is lost or repeated."""

from __future__ import annotations

from collections.abc import Callable, Generator

import pytest
from tests.cluster.e2e.installation import Installation
from tests.cluster.e2e.place import Manifest, Place, pool, queue
from tests.cluster.waiting import eventually


def ended_once(outcome: Manifest) -> bool:
    """Ran to its end in its first counted attempt; a hand-back is not counted."""
    events: list[str] = outcome["events"]
    return outcome["attempt"] == 1 and events.count("completed") == 1


@pytest.fixture
def make(installation: Installation, place: Place) -> Generator[Callable[..., Place]]:
    """Call it with a name and pools: applies such a queue, which goes after the test."""
    made: list[str] = []

    def applied(name: str, *pools: Manifest, **spec: object) -> Place:
        place.apply(queue(name, *pools, image=place.image, **spec))
        made.append(name)
        return place

    yield applied
    for name in set(made):
        place.kubectl("delete", "rq", name, "--ignore-not-found")


def one_by_hand(place: Place, name: str) -> str:
    """Scale a pool of mode Disabled to one worker; the pod's name once it is ready."""
    place.kubectl("wait", "--for=create", f"deployment/{name}-main", "--timeout=30s")
    place.kubectl("scale", f"rwp/{name}-main", "--replicas=1")
    eventually(lambda: place.pods(name, "main"), seconds=30, what="the worker")
    place.kubectl("rollout", "status", f"deployment/{name}-main", "--timeout=60s")
    (worker,) = place.pods(name, "main")
    worker_name: str = worker["metadata"]["name"]
    return worker_name


def test_a_busy_worker_outlives_the_idle_ones_and_finishes(make: Callable[..., Place]):
    name = "busy"
    place = make(name, pool("main", maxReplicas=4), slo={"maxWaitSeconds": 5})
    place.wait_ready(name)
    # Enough short ones for four workers, and one long one that is still running when they are done.
    place.drive("busy-driver", [40.0, *[2.0] * 24], queue=name)
    eventually(
        lambda: place.replicas(f"{name}-main") == 4, seconds=30, what="four workers asked for"
    )
    eventually(
        lambda: place.replicas(f"{name}-main") == 1,
        seconds=60,
        every=0.5,
        what="only the busy worker left",
    )
    outcomes = place.outcomes("busy-driver", seconds=120)
    assert len(outcomes) == 25
    assert all(ended_once(outcome) for outcome in outcomes)
    assert all("released" not in outcome["events"] for outcome in outcomes), outcomes


def test_a_worker_that_is_scaled_in_by_hand_hands_back_what_it_cannot_finish(
    make: Callable[..., Place],
):
    """Mode Disabled: `kubectl scale` on the pool is honoured, drain and all."""
    name = "by-hand"
    place = make(name, pool("main", drain=3, mode="Disabled"))
    first = one_by_hand(place, name)
    place.drive("by-hand-driver", [15.0], queue=name)
    (job,) = place.enqueued("by-hand-driver")["ids"]
    place.wait_running(first, job)
    place.kubectl("scale", f"rwp/{name}-main", "--replicas=0")
    eventually(lambda: not place.pods(name, "main"), seconds=60, every=0.5, what="the worker's end")
    place.kubectl("scale", f"rwp/{name}-main", "--replicas=1")
    (outcome,) = place.outcomes("by-hand-driver", seconds=120)
    assert outcome["pod"] != first
    assert outcome["events"].count("released") == 1, outcome
    assert ended_once(outcome), outcome


def test_a_handler_that_ends_within_the_drain_finishes_where_it_is(make: Callable[..., Place]):
    name = "patient"
    place = make(name, pool("main", drain=60, mode="Disabled"))
    worker = one_by_hand(place, name)
    place.drive("patient-driver", [10.0], queue=name)
    (job,) = place.enqueued("patient-driver")["ids"]
    place.wait_running(worker, job)
    place.kubectl("scale", f"rwp/{name}-main", "--replicas=0")
    (outcome,) = place.outcomes("patient-driver", seconds=60)
    assert outcome["pod"] == worker
    assert "released" not in outcome["events"]
    assert ended_once(outcome), outcome


def test_a_pool_that_the_spec_no_longer_names_goes_with_its_pods(make: Callable[..., Place]):
    name = "two-pools"
    one, two = pool("one", minReplicas=1), pool("two", minReplicas=1)
    one["activityTypes"] = ["jo*"]
    place = make(name, one, two)
    place.wait_ready(name, seconds=90)
    make(name, one)
    place.kubectl("wait", "--for=delete", f"rwp/{name}-two", "--timeout=90s")
    place.kubectl("wait", "--for=delete", f"deployment/{name}-two", "--timeout=60s")
    assert len(place.pods(name, "one")) == 1
    place.kubectl("delete", "rq", name)
    place.kubectl("wait", "--for=delete", f"deployment/{name}-one", "--timeout=60s")

"""Workers that are to go: the busy stay as long as there are idle ones, and nothing is lost or repeated."""

from __future__ import annotations

import pytest
from tests.cluster.e2e.installation import Installation
from tests.cluster.e2e.place import Manifest, Place, pool, queue
from tests.cluster.waiting import eventually


def ended_once(outcome: Manifest) -> bool:
    """Ran to its end in its first counted attempt; a hand-back is not counted."""
    events: list[str] = outcome["events"]
    return outcome["attempt"] == 1 and events.count("completed") == 1


@pytest.fixture
def installed(installation: Installation, place: Place) -> Place:
    return place


def test_a_busy_worker_outlives_the_idle_ones_and_finishes(installed: Place):
    place, name = installed, "busy"
    main = pool("main", minReplicas=0, maxReplicas=4)
    place.apply(queue(name, main, image=place.image, slo={"maxWaitSeconds": 5}))
    place.wait_ready(name)
    # Enough short ones for four workers, and one long one that is still running when they are done.
    place.drive("busy-driver", [30.0, *[2.0] * 24], queue=name)
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


def test_a_worker_that_is_scaled_in_by_hand_hands_back_what_it_cannot_finish(installed: Place):
    """Mode Disabled: `kubectl scale` on the pool is honoured, drain and all."""
    place, name = installed, "by-hand"
    place.apply(queue(name, pool("main", drain=3, mode="Disabled"), image=place.image))
    place.kubectl("wait", "--for=create", f"deployment/{name}-main", "--timeout=30s")
    place.kubectl("scale", f"rwp/{name}-main", "--replicas=1")
    eventually(lambda: place.pods(name, "main"), seconds=30, what="the worker")
    place.wait_ready(name)
    place.drive("by-hand-driver", [12.0], queue=name)
    place.enqueued_at("by-hand-driver")
    eventually(lambda: busy(place, name) == 1, seconds=30, every=0.5, what="the running handler")
    (first,) = place.pods(name, "main")
    place.kubectl("scale", f"rwp/{name}-main", "--replicas=0")
    eventually(lambda: not place.pods(name, "main"), seconds=60, every=0.5, what="the worker's end")
    place.kubectl("scale", f"rwp/{name}-main", "--replicas=1")
    (outcome,) = place.outcomes("by-hand-driver", seconds=120)
    assert outcome["pod"] != first["metadata"]["name"]
    assert outcome["events"].count("released") == 1, outcome
    assert ended_once(outcome), outcome


def test_a_handler_that_ends_within_the_drain_finishes_where_it_is(installed: Place):
    place, name = installed, "by-hand"
    eventually(lambda: place.pods(name, "main"), seconds=30, what="the worker")
    place.apply(queue(name, pool("main", drain=40, mode="Disabled"), image=place.image))
    place.kubectl("rollout", "status", f"deployment/{name}-main", "--timeout=90s")
    place.drive("drain-driver", [12.0], queue=name)
    eventually(lambda: busy(place, name) == 1, seconds=30, every=0.5, what="the running handler")
    (worker,) = place.pods(name, "main")
    place.kubectl("scale", f"rwp/{name}-main", "--replicas=0")
    (outcome,) = place.outcomes("drain-driver", seconds=60)
    assert outcome["pod"] == worker["metadata"]["name"]
    assert "released" not in outcome["events"]
    assert ended_once(outcome), outcome


def test_a_pool_that_the_spec_no_longer_names_goes_with_its_pods(installed: Place):
    place, name = installed, "two-pools"
    both = [pool("one", minReplicas=1), {**pool("two", minReplicas=1), "activityTypes": ["other"]}]
    both[1]["app"] = "e2e_app.work"
    both[1]["activityTypes"] = ["job"]
    both[0]["activityTypes"] = ["jo*"]
    place.apply(queue(name, *both, image=place.image))
    place.wait_ready(name, seconds=90)
    place.apply(queue(name, both[0], image=place.image))
    place.kubectl("wait", "--for=delete", f"rwp/{name}-two", "--timeout=90s")
    place.kubectl("wait", "--for=delete", f"deployment/{name}-two", "--timeout=60s")
    assert len(place.pods(name, "one")) == 1
    place.kubectl("delete", "rq", name)
    place.kubectl("wait", "--for=delete", f"deployment/{name}-one", "--timeout=60s")


def busy(place: Place, name: str) -> int:
    """Slots in use, as the pool's status shows them."""
    pool_object = place.get("rwp", f"{name}-main")
    return pool_object.get("status", {}).get("busySlots", 0)

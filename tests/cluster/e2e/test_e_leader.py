"""The leader is killed: the other takes over, and what ran goes on as it was."""

from __future__ import annotations

import time

from tests.cluster.e2e.installation import Installation
from tests.cluster.e2e.place import Manifest, Place, pool, queue
from tests.cluster.e2e.watching import watched
from tests.cluster.stages import Stages
from tests.cluster.waiting import eventually

QUEUE = "steady"
LEASE_SECONDS = 15


def test_a_killed_leader_is_followed_and_nothing_shrinks(
    installation: Installation, place: Place, stages: Stages
):
    main = pool("main", minReplicas=0, maxReplicas=2)
    main["scaling"]["behavior"]["scaleDownWindowSeconds"] = 20
    place.apply(queue(QUEUE, main, image=place.image, slo={"maxWaitSeconds": 5}))
    place.wait_ready(QUEUE)
    place.drive("steady-driver", [45.0, 45.0], queue=QUEUE)
    jobs = place.enqueued("steady-driver")["ids"]

    def running() -> bool:
        logs = [place.logs(one["metadata"]["name"]) for one in ready(place)]
        return all(any(f"runs {job}" in log for log in logs) for job in jobs)

    eventually(running, seconds=60, every=0.5, what="two busy workers")
    with watched(place) as history:
        killed_at = time.time()
        before = installation.kill_leader()
        after = eventually(
            lambda: (now := installation.holder()) not in ("", before) and now,
            seconds=3 * LEASE_SECONDS,
            every=0.2,
            what="another leader",
        )
        took = time.time() - killed_at
        stages.say(f"kill -9 of {before} -> {after} leads after {took:.1f} s")
        # Not before the lease has run out for whoever may still hold it, and soon after.
        assert LEASE_SECONDS / 3 <= took <= 2 * LEASE_SECONDS
        outcomes = place.outcomes("steady-driver", seconds=90)
        course = history.course(f"{QUEUE}-main")
        assert course == [2], "nothing shrinks while it works, whoever leads"
        # The new leader acts: nothing is left to do, so the workers go.
        eventually(lambda: place.replicas(f"{QUEUE}-main") == 0, seconds=60, every=0.5, what="zero")
    assert all(outcome["attempt"] == 1 for outcome in outcomes)
    assert all("claim_lost" not in outcome["events"] for outcome in outcomes)


def ready(place: Place) -> list[Manifest]:
    """Pods whose log can be read."""
    return [
        one
        for one in place.pods(QUEUE, "main")
        if any(
            condition["type"] == "Ready" and condition["status"] == "True"
            for condition in one["status"].get("conditions", [])
        )
    ]


def test_a_leader_that_is_asked_to_stop_hands_over_at_once(
    installation: Installation, stages: Stages
):
    before = installation.holder()
    asked_at = time.time()
    installation.kubectl("delete", "pod", installation.leader(), "--wait=false")
    after = eventually(
        lambda: (now := installation.holder()) not in ("", before) and now,
        seconds=30,
        every=0.2,
        what="another leader",
    )
    took = time.time() - asked_at
    stages.say(f"SIGTERM of {before} -> {after} leads after {took:.1f} s")
    assert took < LEASE_SECONDS, "a lease that is given up is not waited for"

"""A changed Secret rolls what reads it; a console comes and goes with its part of the spec."""

from __future__ import annotations

from typing import Any

import pytest
from tests.cluster.e2e.installation import Installation
from tests.cluster.e2e.place import Place, pool, queue
from tests.cluster.waiting import eventually

QUEUE = "rolling"


@pytest.fixture(scope="module")
def running(installation: Installation, place: Place) -> Place:
    """A queue with a Secret of its own, one worker and a console."""
    place.write_secret("own", place.url)
    place.apply(wish())
    place.wait_ready(QUEUE, seconds=90)
    place.kubectl("rollout", "status", f"deployment/{QUEUE}-console", "--timeout=90s")
    return place


def wish(**spec: Any) -> dict[str, Any]:
    console = {"console": {"auth": {"mode": "None"}}}
    made = queue(QUEUE, pool("main", minReplicas=1), image=IMAGE, **{**console, **spec})
    made["spec"]["backend"]["postgres"]["urlSecretRef"]["name"] = "own"
    return made


IMAGE = "runnerq-docs-index:dev"


def names(place: Place, component: str) -> set[str]:
    labels = f"runnerq.dev/queue={QUEUE},app.kubernetes.io/component={component}"
    items = place.get("pods", "-l", labels)["items"]
    return {one["metadata"]["name"] for one in items if "deletionTimestamp" not in one["metadata"]}


def test_a_changed_secret_rolls_workers_and_console(running: Place):
    before = names(running, "worker") | names(running, "console")
    assert len(before) == 2
    running.write_secret("own", f"{running.url}?application_name=changed")
    eventually(
        lambda: (
            len(after := names(running, "worker") | names(running, "console")) == 2
            and not after & before
        ),
        seconds=90,
        every=0.5,
        what="a new worker and a new console",
    )
    running.wait_ready(QUEUE)


def test_a_secret_that_goes_leaves_the_workers_alone_and_is_said(running: Place):
    before = names(running, "worker")
    running.kubectl("delete", "secret", "own")
    running.kubectl(
        *("wait", f"rq/{QUEUE}", "--timeout=60s"),
        "--for=jsonpath={.status.conditions[?(@.type=='BackendReachable')].reason}=SecretNotFound",
    )
    assert names(running, "worker") == before
    running.write_secret("own", f"{running.url}?application_name=changed")
    running.wait_ready(QUEUE)
    assert names(running, "worker") == before


def test_a_console_that_is_no_longer_asked_for_goes(running: Place):
    running.apply({**wish(), "spec": {**wish()["spec"], "console": None}})
    for kind in ("deployment", "service"):
        running.kubectl("wait", "--for=delete", f"{kind}/{QUEUE}-console", "--timeout=60s")
    running.kubectl("delete", "rq", QUEUE)

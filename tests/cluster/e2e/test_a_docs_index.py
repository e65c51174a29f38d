"""The example on real input, in pods: from nothing to work to the right answer and back to nothing."""

from __future__ import annotations

import json

import pytest
from tests.cluster.e2e.installation import Installation
from tests.cluster.e2e.place import ROOT, Place
from tests.cluster.e2e.watching import watched
from tests.cluster.stages import Stages
from tests.cluster.waiting import eventually

QUEUE = "docs-index"
FILES = 1500
"""Of those that the image holds; enough for several workers, and the serial check stays short."""

_FETCH = """
import json, sys, time, urllib.request
for _ in range(100):
    try:
        answer = urllib.request.urlopen(sys.argv[1] + "/", timeout=5)
        break
    except OSError:
        time.sleep(0.3)
page = answer.read().decode()
counts = json.load(urllib.request.urlopen(sys.argv[1] + "/api/observability/stats", timeout=5))
print(json.dumps({"type": answer.headers["content-type"], "page": page[:200], "stats": counts}))
"""


@pytest.fixture(scope="module")
def index(installation: Installation, place: Place) -> Place:
    """The place with the example's queue applied and Ready."""
    place.write_secret("docs-index-postgres", place.url)
    place.apply((ROOT / "examples" / "docs_index" / "queue.yaml").read_text())
    place.wait_ready(QUEUE)
    return place


def test_a_queue_at_zero_is_ready_and_has_made_no_pod(index: Place):
    assert index.pods(QUEUE, "light") == []
    assert index.pods(QUEUE, "heavy") == []
    made = index.get("replicasets", "-l", f"runnerq.dev/queue={QUEUE}")["items"]
    events = index.get("events")["items"]
    workers = [one for one in made if "runnerq.dev/pool" in one["metadata"]["labels"]]
    names = {one["metadata"]["name"] for one in workers}
    assert len(names) == 2
    created = [one for one in events if one["involvedObject"]["name"] in names]
    assert [one["spec"]["replicas"] for one in workers] == [0, 0]
    assert not [one for one in created if one["reason"] == "SuccessfulCreate"]


def test_kubectl_shows_the_columns_of_queue_and_pools(index: Place):
    text = index.kubectl("get", "rq,rwp")
    headers = [line.split() for line in text.splitlines() if line.startswith("NAME")]
    assert headers == [
        *[["NAME", "BACKEND", "POOLS", "BACKLOG", "OLDEST", "WORKERS", "COVERAGE", "READY", "AGE"]],
        [
            *("NAME", "QUEUE", "MIN", "MAX", "DESIRED", "READY", "BUSY", "BACKLOG", "OLDEST"),
            *("REASON", "AGE"),
        ],
    ]
    (row,) = [line.split() for line in text.splitlines() if line.startswith("runnerqueue")]
    assert row[:3] == ["runnerqueue.runnerq.dev/docs-index", "Postgres", "2"]


def test_the_index_is_made_right_by_pods_that_come_and_go(index: Place, stages: Stages):
    with watched(index) as history:
        command = ["python", "-m", "docs_index.run", "--check", "--limit", str(FILES)]
        index.start("indexer", [*command, "--output", "/tmp/report.html"], queue=QUEUE)
        said = index.finished("indexer", seconds=240)
        assert "check: the same report was computed serially" in said

        def back_to_zero() -> bool:
            return all(index.replicas(f"{QUEUE}-{pool}") == 0 for pool in ("light", "heavy"))

        eventually(back_to_zero, seconds=60, every=0.5, what="both pools at zero")
        eventually(
            lambda: not index.pods(QUEUE, "light") and not index.pods(QUEUE, "heavy"),
            seconds=60,
            every=0.5,
            what="the last pods gone",
        )
    for pool in ("light", "heavy"):
        course = history.course(f"{QUEUE}-{pool}")
        stages.say(f"{pool}: replicas {' -> '.join(map(str, course))}")
        assert course[0] == 0
        assert course[-1] == 0
        assert max(course) >= 2, course


def test_the_consoles_service_answers_inside_of_the_cluster(index: Place):
    index.kubectl("rollout", "status", f"deployment/{QUEUE}-console", "--timeout=60s")
    index.start("visitor", ["python", "-c", _FETCH, f"http://{QUEUE}-console"], queue=QUEUE)
    answer = json.loads(index.finished("visitor", seconds=60))
    assert answer["type"].startswith("text/html")
    assert "<title>" in answer["page"].lower() or "<!doctype html" in answer["page"].lower()
    counts = json.dumps(answer["stats"])
    assert '"completed"' in counts


def test_every_activity_was_acknowledged_once_and_none_is_left(index: Place):
    source = (
        "import asyncio, json\n"
        "from runnerq import QueueInspector, connect\n"
        "async def main():\n"
        "    async with await connect() as executor:\n"
        "        stats = await QueueInspector(executor.backend, executor.queue).stats()\n"
        "        print(json.dumps({state.value: n for state, n in stats.counts.items()}))\n"
        "asyncio.run(main())\n"
    )
    index.start("counter", ["python", "-c", source], queue=QUEUE)
    counts = json.loads(index.finished("counter", seconds=60))
    completed = counts.pop("completed")
    assert completed > FILES
    assert not any(counts.values()), counts

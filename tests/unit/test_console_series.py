"""Rates from monotone counters, and columns that show a gap as a gap."""

from __future__ import annotations

from datetime import timedelta

from tests.unit.console_records import NOW, decision, demand, engine, stats, wanted

from runnerq.console.problems import Problem
from runnerq.console.series import Point, PoolPoint, Series, Throughput
from runnerq.console.topics import Readings, point, topic_documents

DOWN = Problem(503, "backend_unavailable", "away")


def after(seconds: float) -> timedelta:
    return timedelta(seconds=seconds)


def test_one_read_tells_no_rate() -> None:
    assert Throughput().read(demand(engine(finished=500))) is None


def test_the_rate_is_what_was_finished_over_the_time_between_reads() -> None:
    throughput = Throughput()
    worker = engine(finished=100)
    throughput.read(demand(worker))
    later = engine(finished=150, engine_id=worker.info.engine_id)
    assert throughput.read(demand(later, at=NOW + after(10))) == 5.0


def test_an_engine_born_between_the_reads_did_all_of_its_work_since() -> None:
    throughput = Throughput()
    throughput.read(demand())
    born = engine(finished=20, started=NOW + after(1))
    assert throughput.read(demand(born, at=NOW + after(10))) == 2.0


def test_an_old_engine_seen_for_the_first_time_adds_nothing_unknown() -> None:
    throughput = Throughput()
    throughput.read(demand())
    assert throughput.read(demand(engine(finished=5_000), at=NOW + after(10))) == 0.0


def test_an_engine_that_left_never_makes_the_rate_negative() -> None:
    throughput = Throughput()
    throughput.read(demand(engine(finished=1_000)))
    assert throughput.read(demand(at=NOW + after(10))) == 0.0


def test_the_rate_forgets_what_is_older_than_its_window() -> None:
    throughput = Throughput(window_ms=10_000)
    worker = engine(finished=0)
    for second, finished in ((0, 0), (10, 1_000), (20, 1_000), (30, 1_000)):
        counted = engine(finished=finished, engine_id=worker.info.engine_id)
        rate = throughput.read(demand(counted, at=NOW + after(second)))
    assert rate == 0.0


def test_a_series_keeps_a_bounded_number_of_points() -> None:
    series = Series(points=3)
    for at_ms in range(5):
        series.append(Point(at_ms))
    assert series.document()["at_ms"] == [2, 3, 4]


def test_a_pool_that_was_not_there_yet_has_a_gap() -> None:
    series = Series()
    series.append(Point(1, pools={}))
    series.append(Point(2, pools={"bulk": PoolPoint(2, 1, 0, 9)}))
    assert series.document()["pools"] == {
        "bulk": {"desired": [None, 2], "ready": [None, 1], "busy": [None, 0], "backlog": [None, 9]}
    }


def test_a_failed_read_is_a_gap_and_never_a_zero() -> None:
    gap = point(Readings(stats(), DOWN, [], []), None, now_ms=5)
    assert gap == Point(5, None, None, None, {})


def test_a_part_that_failed_leaves_the_other_topics_alone() -> None:
    documents = topic_documents(
        "q", Readings(DOWN, demand(engine(), types=(wanted(),)), DOWN, [decision()]), 1.0
    )
    assert "error" in documents["stats"]
    assert "error" in documents["pools"]
    assert "workers" in documents["workers"]
    assert "decisions" in documents["decisions"]


def test_the_stats_topic_says_what_can_run_now_beside_the_states() -> None:
    readings = Readings(stats(pending=1, retrying=4), demand(types=(wanted(claimable=3),)), [], [])
    document = topic_documents("q", readings, 2.5)["stats"]
    assert document["counts"] == {"pending": 1, "retrying": 4}
    assert document["finished_per_second"] == 2.5
    assert isinstance(document["demand"], dict)
    assert document["demand"]["claimable"] == 3

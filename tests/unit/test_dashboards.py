"""The dashboard keeps the rules without which one works on its author's machine only."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from dashboards import generate
from prometheus_client import CollectorRegistry

from runnerq import metrics as worker_metrics
from runnerq.console.metrics import ConsoleMetrics
from runnerq_operator.control import measurements
from runnerq_operator.control.leader_metrics import LeaderMetrics

BROUGHT_BY_TARGETS = {
    "job",
    "instance",
    "namespace",
    "pod",
    "container",
    "service",
    "endpoint",
    "node",
    "cluster",
}
DASHBOARD = json.loads(generate.TARGETS[0].read_text("utf-8"))
PANELS: list[dict[str, Any]] = [one for one in DASHBOARD["panels"] if one["type"] != "row"]
VARIABLES: list[dict[str, Any]] = DASHBOARD["templating"]["list"]

each_panel = pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])


def expressions() -> Iterator[str]:
    for panel in PANELS:
        for target in panel["targets"]:
            yield target["expr"]


def metrics_in(expression: str) -> set[str]:
    """Names of the metrics as they are declared: without what a histogram appends."""
    names: set[str] = set(re.findall(r"\brunnerq_\w+", expression))
    return {re.sub(r"_(bucket|sum|count)$", "", name) for name in names}


def measured() -> set[str]:
    """Every metric that the code declares."""
    families = [
        *ConsoleMetrics(CollectorRegistry()).registry.collect(),
        *LeaderMetrics(lambda _: True).registry.collect(),
    ]
    declared = {f"{one.name}_total" if one.type == "counter" else one.name for one in families}
    return declared | worker_metrics.DESCRIPTIONS.keys() | measurements.DESCRIPTIONS.keys()


def test_the_files_are_what_the_generator_makes() -> None:
    made = generate.text()
    assert made == generate.text()
    for path in generate.TARGETS:
        assert path.read_text("utf-8") == made


def test_a_mistake_in_the_panels_is_named(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    source = generate.SOURCE.read_text("utf-8").replace('unit = "ops"', 'unit = "furlongs"', 1)
    wrong = tmp_path / "panels.toml"
    wrong.write_text(source)
    monkeypatch.setattr(generate, "SOURCE", wrong)
    with pytest.raises(msgspec.ValidationError, match=r"furlongs.*unit"):
        generate.text()


@each_panel
def test_a_panel_says_what_it_shows(panel: dict[str, Any]) -> None:
    assert panel["title"]
    assert panel["description"].endswith(".")
    assert panel["fieldConfig"]["defaults"]["unit"]
    assert panel["targets"]


@each_panel
def test_a_panel_asks_the_data_source_that_was_chosen(panel: dict[str, Any]) -> None:
    for asking in (panel, *panel["targets"]):
        assert asking["datasource"] == {"type": "prometheus", "uid": "${datasource}"}


def test_the_variables_ask_the_data_source_that_was_chosen() -> None:
    names = [variable["name"] for variable in VARIABLES]
    assert names == ["datasource", "queue", "resource_namespace", "pool"]
    for variable in VARIABLES[1:]:
        assert variable["datasource"]["uid"] == "${datasource}"
        assert variable["allValue"] == ".*"


def test_titles_ids_and_places_are_unique() -> None:
    titles = Counter(panel["title"] for panel in DASHBOARD["panels"])
    ids = Counter(panel["id"] for panel in DASHBOARD["panels"])
    assert max(titles.values()) == max(ids.values()) == 1
    taken: Counter[tuple[int, int]] = Counter()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        for x in range(place["x"], place["x"] + place["w"]):
            taken.update((x, y) for y in range(place["y"], place["y"] + place["h"]))
    assert max(taken.values()) == 1


def test_links_to_it_last_and_it_does_not_hammer_the_data_source() -> None:
    assert DASHBOARD["uid"] == "runnerq"
    refresh = DASHBOARD["refresh"]
    assert int(refresh[:-1]) * {"s": 1, "m": 60, "h": 3600}[refresh[-1]] >= 30


def test_every_range_follows_the_scrape_interval() -> None:
    ranges = [found for one in expressions() for found in re.findall(r"\[([^]]*)\]", one)]
    assert set(ranges) == {"$__rate_interval"}


def test_rates_are_taken_of_what_only_rises() -> None:
    for expression in expressions():
        for name in re.findall(r"(?:rate|increase)\((\w+)", expression):
            assert re.search(r"_(total|bucket|sum|count)$", name), expression


def test_quantiles_keep_their_buckets() -> None:
    for expression in expressions():
        for by in re.findall(r"histogram_quantile\([\d.]+, sum by \(([^)]*)\)", expression):
            assert "le" in by.split(", "), expression
        assert expression.count("histogram_quantile") == len(
            re.findall(r"histogram_quantile\([\d.]+, sum by \(", expression)
        )


def test_no_query_names_a_label_that_a_scrape_target_brings() -> None:
    for expression in expressions():
        grouped = {
            label
            for group in re.findall(r"\b(?:by|on|without) \(([^)]*)\)", expression)
            for label in group.split(", ")
        }
        matched = set(re.findall(r"(\w+)(?:=~|!~|!=|=)\"", expression))
        assert not (grouped | matched) & BROUGHT_BY_TARGETS, expression


def test_every_metric_of_the_dashboard_is_measured() -> None:
    asked = {name for one in expressions() for name in metrics_in(one)}
    asked |= {name for one in VARIABLES[1:] for name in metrics_in(one["definition"])}
    assert asked
    assert asked <= measured()

"""The tables of docs/metrics.md, and pages of /metrics in the same form, so that they can be compared."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families

_PAGE = Path(__file__).parents[1] / "docs" / "metrics.md"


class Described(NamedTuple):
    type: str
    meaning: str


class Documented(NamedTuple):
    type: str
    meaning: str
    labels: frozenset[str]


def documented(heading: str) -> dict[str, Documented]:
    """The rows of the table below a heading, by name."""
    after = _PAGE.read_text("utf-8").partition(f"# {heading}\n")[2]
    lines = after.partition("\n#")[0].splitlines()
    found: dict[str, Documented] = {}
    for line in lines:
        if line.startswith("| `runnerq_"):
            name, kind, labels, meaning = (cell.strip() for cell in line.strip("|").split("|"))
            assert name.strip("`") not in found, f"{name} stands twice below {heading}"
            known = frozenset[str]() if labels == "-" else frozenset(labels.split(", "))
            found[name.strip("`")] = Documented(kind, meaning, known)
    assert found, f"docs/metrics.md has no table below {heading}"
    return found


def problems(page: str, expected: dict[str, Documented]) -> list[str]:
    """Where a page of /metrics and the documented differ; [] when nowhere."""
    shown: dict[str, Described] = {}
    labels: dict[str, set[frozenset[str]]] = {}
    for family in text_string_to_metric_families(page):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        if name.startswith("runnerq_") and not name.endswith("_created"):
            shown[name] = Described(family.type, family.documentation)
            labels[name] = {frozenset(sample.labels) - {"le"} for sample in family.samples}
    return [
        *(f"{name} is shown but not documented" for name in sorted(shown.keys() - expected.keys())),
        *(f"{name} is documented but not shown" for name in sorted(expected.keys() - shown.keys())),
        *_differences(shown, labels, expected),
    ]


def _differences(
    shown: dict[str, Described],
    labels: dict[str, set[frozenset[str]]],
    expected: dict[str, Documented],
) -> Iterable[str]:
    for name in sorted(shown.keys() & expected.keys()):
        wanted = expected[name]
        if shown[name] != (wanted.type, wanted.meaning):
            yield f"{name} is {shown[name]}, documented as {wanted}"
        for found in labels[name] - {wanted.labels}:
            yield f"{name} has labels {sorted(found)}, documented are {sorted(wanted.labels)}"

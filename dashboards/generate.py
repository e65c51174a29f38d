"""Writes the Grafana dashboard: `python dashboards/generate.py [--check]`.

`runnerq.json` here, for everybody, and a copy in the chart, because Helm reads no file outside of it. What
the panels show stands in panels.toml; this turns it into Grafana's JSON, the same bytes every time.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec

_HERE = Path(__file__).parent
SOURCE = _HERE / "panels.toml"
TARGETS = (
    _HERE / "runnerq.json",
    _HERE.parent / "charts" / "runnerq" / "dashboards" / "runnerq.json",
)

DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
_COLUMNS = 24


class Panel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    title: str
    description: str
    unit: Literal["short", "s", "ops", "percentunit"]
    kind: Literal["stat", "timeseries", "heatmap", "table"] = "timeseries"
    query: str = ""
    queries: tuple[tuple[str, str], ...] = ()
    """(legend, expression); for a single expression without a legend there is `query`."""
    stacked: bool = False
    bad_from: float | None = None
    """Values from here on are red."""

    @property
    def curves(self) -> tuple[tuple[str, str], ...]:
        return self.queries or (("", self.query),)

    @property
    def size(self) -> tuple[int, int]:
        """Width in columns, height."""
        return (4, 4) if self.kind == "stat" else (8, 8)


class Row(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    title: str
    panel: tuple[Panel, ...]


class Content(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    selectors: dict[str, str]
    """What `@name` in an expression stands for."""
    row: tuple[Row, ...]

    def expanded(self, expression: str) -> str:
        for name, selector in self.selectors.items():
            expression = expression.replace(f"@{name}", selector)
        return expression


def content() -> Content:
    """What panels.toml says. Raises msgspec.ValidationError, which names the field."""
    return msgspec.toml.decode(SOURCE.read_bytes(), type=Content)


def dashboard(source: Content) -> dict[str, Any]:
    """The dashboard as Grafana's JSON model."""
    return {
        "uid": "runnerq",
        "title": "RunnerQ",
        "description": "Queues, worker pools with their autoscaling, and workers of RunnerQ.",
        "tags": ["runnerq"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "annotations": {"list": []},
        "links": [],
        "templating": {"list": list(_variables())},
        "panels": list(_placed(source)),
    }


def _variables() -> Iterator[dict[str, Any]]:
    yield {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
        "current": {},
        "hide": 0,
    }
    pools = 'runnerq_pool_replicas_desired{resource_namespace=~"$resource_namespace"}'
    asked = {
        "queue": ("Queue", "label_values(runnerq_queue_oldest_ready_age_seconds, queue)"),
        "resource_namespace": (
            "Namespace",
            "label_values(runnerq_pool_replicas_desired, resource_namespace)",
        ),
        "pool": ("Pool", f"label_values({pools}, pool)"),
    }
    for name, (label, query) in asked.items():
        yield {
            "name": name,
            "label": label,
            "type": "query",
            "datasource": DATASOURCE,
            "query": {"query": query, "refId": name},
            "definition": query,
            "refresh": 2,
            "sort": 1,
            "multi": True,
            "includeAll": True,
            # Outside of a cluster there is no namespace, and the label is not there at all.
            "allValue": ".*",
            "current": {"text": ["All"], "value": ["$__all"]},
            "hide": 0,
        }


def _placed(source: Content) -> Iterator[dict[str, Any]]:
    """Rows and panels with ids and places, from left to right and downwards."""
    number = y = 0
    for row in source.row:
        number += 1
        yield {
            "id": number,
            "type": "row",
            "title": row.title,
            "collapsed": False,
            "gridPos": {"x": 0, "y": y, "w": _COLUMNS, "h": 1},
            "panels": [],
        }
        x, y, height = 0, y + 1, 0
        for panel in row.panel:
            number += 1
            width, tall = panel.size
            if x + width > _COLUMNS or (height and tall != height):
                x, y = 0, y + height
            height = tall
            place = {"x": x, "y": y, "w": width, "h": tall}
            yield {"id": number, "gridPos": place, **_panel(source, panel)}
            x += width
        y += height


def _panel(source: Content, panel: Panel) -> dict[str, Any]:
    return {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": DATASOURCE,
        "targets": [
            _target(panel, chr(ord("A") + number), legend, source.expanded(expression))
            for number, (legend, expression) in enumerate(panel.curves)
        ],
        "fieldConfig": {"defaults": _field(panel), "overrides": []},
        "options": _options(panel),
    }


def _target(panel: Panel, name: str, legend: str, expression: str) -> dict[str, Any]:
    instant = panel.kind in ("stat", "table")
    formats = {"heatmap": "heatmap", "table": "table"}
    return {
        "refId": name,
        "datasource": DATASOURCE,
        "expr": expression,
        "legendFormat": legend or "__auto",
        "format": formats.get(panel.kind, "time_series"),
        "instant": instant,
        "range": not instant,
    }


def _field(panel: Panel) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [{"color": "text", "value": None}]
    if panel.bad_from is not None:
        steps.append({"color": "red", "value": panel.bad_from})
    field: dict[str, Any] = {
        "unit": panel.unit,
        "thresholds": {"mode": "absolute", "steps": steps},
    }
    if panel.kind == "timeseries":
        field["min"] = 0
        field["custom"] = {
            "drawStyle": "line",
            "lineWidth": 1,
            "fillOpacity": 20 if panel.stacked else 0,
            "showPoints": "never",
            "spanNulls": False,
            "stacking": {"mode": "normal" if panel.stacked else "none", "group": "A"},
        }
    return field


def _options(panel: Panel) -> dict[str, Any]:
    match panel.kind:
        case "stat":
            reduced = {"calcs": ["lastNotNull"], "fields": "", "values": False}
            return {"reduceOptions": reduced, "colorMode": "value", "graphMode": "none"}
        case "timeseries":
            legend = {"displayMode": "list", "placement": "bottom", "showLegend": True}
            return {"legend": legend, "tooltip": {"mode": "multi", "sort": "desc"}}
        case "heatmap":
            return {"calculate": False, "yAxis": {"unit": panel.unit}, "cellGap": 1}
        case "table":
            return {"showHeader": True}


def text() -> str:
    """What the files are to contain."""
    return json.dumps(dashboard(content()), indent=1, sort_keys=True) + "\n"


def main(arguments: list[str]) -> int:
    """Write the files; with `--check` only say whether they are up to date."""
    check = arguments == ["--check"]
    if arguments and not check:
        print(__doc__, file=sys.stderr)
        return 2
    made = text()
    stale = [path for path in TARGETS if not path.exists() or path.read_text("utf-8") != made]
    for path in stale:
        if check:
            print(f"{path} is stale; run: python dashboards/generate.py", file=sys.stderr)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(made, encoding="utf-8")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

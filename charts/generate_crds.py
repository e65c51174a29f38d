"""Writes the chart's CRD templates from crds/*.yaml: `python charts/generate_crds.py [--check]`.

CRDs are templates, not the chart's crds/ folder: Helm installs that once and never upgrades it. They are
kept when the release goes, since with them would go every RunnerQueue of the cluster.
"""

from __future__ import annotations

import sys
from pathlib import Path

_CHARTS = Path(__file__).parent
_SOURCE = _CHARTS.parent / "crds"
_TARGET = _CHARTS / "runnerq" / "templates" / "crds"

_METADATA = """metadata:
  labels: {{- include "runnerq.labels" . | nindent 4 }}
  annotations:
    helm.sh/resource-policy: keep
"""


def template_of(crd: str) -> str:
    """The template of one CRD, given as YAML text.

    Raises ValueError for a text that is not laid out as the generator of crds/ does.
    """
    before, found, after = crd.partition("\nmetadata:\n")
    if not found or "\nmetadata:\n" in after:
        raise ValueError("expected exactly one `metadata:` at the top level")
    # Descriptions are prose; double braces in them would be taken for a template.
    escaped = after.replace("{{", '{{ "{{" }}')
    comment = "{{- /* Generated from crds/ by charts/generate_crds.py; edit the models. */ -}}\n"
    body = "\n".join(line for line in before.splitlines() if not line.startswith("#"))
    return (
        f"{comment}{{{{- if .Values.crds.enabled }}}}\n{body}\n{_METADATA}{escaped}{{{{- end }}}}\n"
    )


def main(arguments: list[str]) -> int:
    """Write the templates; with `--check` only say whether they are up to date."""
    check = arguments == ["--check"]
    if arguments and not check:
        print(__doc__, file=sys.stderr)
        return 2
    stale: list[str] = []
    wanted = {path.name: template_of(path.read_text("utf-8")) for path in _SOURCE.glob("*.yaml")}
    for path in _TARGET.glob("*.yaml"):
        if path.name not in wanted:
            stale.append(path.name)
            if not check:
                path.unlink()
    for name, text in sorted(wanted.items()):
        target = _TARGET / name
        if not target.exists() or target.read_text("utf-8") != text:
            stale.append(name)
            if not check:
                _TARGET.mkdir(parents=True, exist_ok=True)
                target.write_text(text, "utf-8")
    if check and stale:
        print(f"out of date, run `python charts/generate_crds.py`: {', '.join(stale)}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

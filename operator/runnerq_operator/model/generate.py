"""Writes crds/*.yaml from the models: `python -m runnerq_operator.model.generate [--check] [--to DIR]`.

With `--check` nothing is written: exit code 1 says that a file differs from what would be.
"""

from __future__ import annotations

from pathlib import Path

import click
import yaml

from runnerq_operator.model.crd import Document, pool_crd, queue_crd

_HEADER = (
    "# Generated from operator/runnerq_operator/model by `python -m runnerq_operator.model.generate`.\n"
    "# Edit the models, not this file.\n"
)


class _Dumper(yaml.SafeDumper):
    """Repeats instead of anchors: people read these files."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def rendered() -> dict[str, str]:
    """File name -> content of every generated file."""
    documents = {"runnerqueues.yaml": queue_crd(), "runnerworkerpools.yaml": pool_crd()}
    return {name: _HEADER + _yaml(document) for name, document in documents.items()}


def _yaml(document: Document) -> str:
    return yaml.dump(  # pyright: ignore[reportUnknownMemberType]
        document, Dumper=_Dumper, sort_keys=False, width=100, allow_unicode=True
    )


@click.command()
@click.option("--check", is_flag=True, help="Only say whether the files are up to date.")
@click.option(
    "--to",
    "folder",
    type=click.Path(path_type=Path),
    default=Path("crds"),
    show_default=True,
    help="Folder of the files.",
)
def main(check: bool, folder: Path) -> None:
    """Generate the CustomResourceDefinitions from the models."""
    stale: list[str] = []
    for name, content in rendered().items():
        path = folder / name
        if path.exists() and path.read_text(encoding="utf-8") == content:
            continue
        stale.append(str(path))
        if not check:
            folder.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
    if stale and check:
        raise click.ClickException(
            f"not up to date: {', '.join(stale)}; run python -m runnerq_operator.model.generate"
        )
    click.echo(f"{'written: ' + ', '.join(stale) if stale else 'up to date'}")


if __name__ == "__main__":
    main()

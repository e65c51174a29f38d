"""`python -m tests.cluster`: the cluster and its images by hand.

up                start a cluster, or find it running; prints its kubeconfig
down              remove it and everything it left on this machine
status            what runs
images            build the images and load them into the running cluster
install-packages  install the Debian packages that a cluster on this machine needs
"""

from __future__ import annotations

import argparse
import sys

from tests.cluster.commands import CommandFailed, MissingProgram
from tests.cluster.images.builder import choose_builder
from tests.cluster.images.recipes import every_image
from tests.cluster.local import cluster as local
from tests.cluster.local.packages import install_packages
from tests.cluster.local.state import known_names
from tests.cluster.local.teardown import LeftBehind
from tests.cluster.provider import ClusterFailed
from tests.cluster.providers import PROVIDERS, close_cluster, open_cluster, running_cluster
from tests.cluster.stages import Stages
from tests.cluster.waiting import DeadlinePassed


def main(arguments: list[str] | None = None) -> int:
    """Run one command; 0 when it did what was asked, 1 with a message when not."""
    options = _parser().parse_args(arguments)
    try:
        return _run(options)
    except (
        ClusterFailed,
        CommandFailed,
        DeadlinePassed,
        LeftBehind,
        MissingProgram,
        PermissionError,
    ) as error:
        print(f"{options.command}: {error}", file=sys.stderr)
        return 1


def _run(options: argparse.Namespace) -> int:
    stages = Stages()
    match options.command:
        case "up":
            cluster = open_cluster(stages, name=options.name, provider=options.provider)
            print(stages.table(), file=sys.stderr)
            print(f"export KUBECONFIG={cluster.kubeconfig}")
        case "down":
            names = _all_names() if options.all else [options.name]
            removed = {name: close_cluster(name) for name in names}
            for name, providers in removed.items():
                print(f"{name}: {'removed' if providers else 'there was none'}")
        case "status":
            for name in _all_names():
                cluster = running_cluster(name)
                print(f"{name}: {_described(name) if cluster is None else cluster.kubeconfig}")
        case "images":
            _images(options.image or every_image(), options.name, stages)
        case _:
            install_packages()
    return 0


def _all_names() -> list[str]:
    return sorted({local.DEFAULT_NAME, *known_names()})


def _described(name: str) -> str:
    return "ended; `down` removes its leftovers" if name in known_names() else "not running"


def _images(images: list[str], name: str, stages: Stages) -> None:
    builder = choose_builder(stages)
    cluster = running_cluster(name)
    for image in images:
        archive = builder.build(image)
        if cluster is not None:
            with stages.stage(f"loading {image}"):
                cluster.load_image(archive, image)
        print(f"{image} {archive}")
    if cluster is None:
        print("no cluster runs: nothing was loaded", file=sys.stderr)
    print(stages.table(), file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.cluster",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("up", "down", "status", "images", "install-packages"):
        command = commands.add_parser(name)
        if name in ("up", "down", "images"):
            command.add_argument(
                "--name", default=local.DEFAULT_NAME, help="which cluster (default: default)"
            )
        if name == "up":
            command.add_argument("--provider", choices=PROVIDERS, help="only this one")
        if name == "down":
            command.add_argument("--all", action="store_true", help="all of this machine")
        if name == "images":
            command.add_argument("image", nargs="*", help=f"of {', '.join(every_image())}")
    return parser


if __name__ == "__main__":
    sys.exit(main())

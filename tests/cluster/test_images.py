"""The images hold what they should, run without rights on a read-only root, and build once."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.cluster.images.archive import archive_identity, archive_layers
from tests.cluster.images.builder import ImageBuilder
from tests.cluster.images.recipes import (
    DOCS_INDEX_IMAGE,
    OPERATOR_IMAGE,
    ROOT,
    WORKER_IMAGE,
    recipes,
)
from tests.cluster.pods import container, pod, pod_spec
from tests.cluster.provider import Cluster

_TELL = """
import importlib.util, json, os, pathlib, sys
missing = [name for name in sys.argv[1:] if importlib.util.find_spec(name) is None]
try:
    pathlib.Path("/app/written").touch()
    root = "writable"
except OSError:
    root = "read-only"
print(json.dumps({"missing": missing, "user": os.getuid(), "root": root, "home": os.environ["HOME"]}))
"""


@pytest.mark.parametrize(
    ("image", "modules"),
    [
        (WORKER_IMAGE, ["runnerq", "asyncpg", "prometheus_client"]),
        (OPERATOR_IMAGE, ["runnerq", "runnerq_operator", "kopf", "kubernetes", "aiohttp"]),
        (DOCS_INDEX_IMAGE, ["runnerq", "docs_index"]),
    ],
)
def test_an_image_runs_its_modules_without_rights(
    cluster: Cluster,
    namespace: str,
    load_image: Callable[[str], str],
    image: str,
    modules: list[str],
):
    main = container(load_image(image), ["python", "-c", _TELL, *modules])
    spec = pod_spec(main, restartPolicy="Never")
    del spec["securityContext"]["runAsUser"]  # the image's own
    cluster.apply(pod("tell", spec), "-n", namespace)
    done = "--for=jsonpath={.status.phase}=Succeeded"
    cluster.kubectl("wait", done, "pod/tell", "-n", namespace, "--timeout=60s")

    told = json.loads(cluster.kubectl("logs", "tell", "-n", namespace))

    assert told == {"missing": [], "user": 65532, "root": "read-only", "home": "/tmp"}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of what the worker image is made from, which nobody else changes."""
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    for name in ("requirements", "worker", "operator"):
        ignored = shutil.ignore_patterns("__pycache__", "node_modules")
        shutil.copytree(ROOT / name, tmp_path / name, ignore=ignored)
    return tmp_path


def test_a_change_of_the_code_makes_only_the_last_layers_anew(
    image_builder: ImageBuilder, project: Path
):
    worker = recipes()[WORKER_IMAGE]
    copy = replace(worker, image="runnerq-worker:copy", context=project)
    first = image_builder.build_recipe(copy)
    try:
        identity, layers = archive_identity(first), archive_layers(first)
        assert archive_identity(image_builder.build_recipe(copy)) == identity

        with (project / "worker" / "runnerq" / "__init__.py").open("a") as module:
            module.write("\n# changed\n")
        changed = image_builder.build_recipe(copy)

        # The wheel, its installation and the folder of the app; all below is what it was.
        assert archive_identity(changed) != identity
        assert archive_layers(changed)[:-3] == layers[:-3]
        assert archive_layers(changed)[-3:] != layers[-3:]
    finally:
        shutil.rmtree(first.parent)

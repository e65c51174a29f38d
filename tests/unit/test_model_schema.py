"""The generated CustomResourceDefinitions: up to date, structural, bounded, explained."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest
import yaml
from click.testing import CliRunner

from runnerq_operator.model.conditions import CONDITIONS, POOL_CONDITIONS
from runnerq_operator.model.crd import Document, pool_crd, queue_crd
from runnerq_operator.model.generate import main, rendered
from runnerq_operator.model.reference import BEGIN, END, with_reference
from runnerq_operator.model.rules import Model, text
from runnerq_operator.model.schema import schema_of

ROOT = Path(__file__).parents[2]
CRDS = [queue_crd(), pool_crd()]


def schema(crd: Document) -> Document:
    return crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


def levels(node: Document, path: str = "") -> Iterator[tuple[str, Document]]:
    """Every schema in a schema, with its path."""
    yield path, node
    for name, inner in node.get("properties", {}).items():
        yield from levels(inner, f"{path}.{name}")
    if "items" in node:
        yield from levels(node["items"], f"{path}[]")


def every_level() -> list[Any]:
    return [
        pytest.param(node, id=f"{crd['spec']['names']['kind']}{path}")
        for crd in CRDS
        for path, node in levels(schema(crd))
    ]


@pytest.mark.parametrize("name", sorted(rendered()))
def test_the_files_in_the_repository_are_what_the_models_say(name: str):
    assert (ROOT / "crds" / name).read_text(encoding="utf-8") == rendered()[name]


def test_check_names_the_file_that_is_not_up_to_date(tmp_path: Path):
    docs = tmp_path / "reference.md"
    docs.write_text(f"# By hand\n{BEGIN}\nold\n{END}\nmore by hand\n")
    arguments = ["--to", str(tmp_path), "--docs", str(docs)]
    runner = CliRunner()
    assert runner.invoke(main, arguments).exit_code == 0
    assert runner.invoke(main, [*arguments, "--check"]).exit_code == 0
    (tmp_path / "runnerqueues.yaml").write_text("kind: Other\n")
    result = runner.invoke(main, [*arguments, "--check"])
    assert result.exit_code == 1
    assert "runnerqueues.yaml" in result.output
    assert (tmp_path / "runnerqueues.yaml").read_text() == "kind: Other\n"
    written = docs.read_text()
    assert written.startswith("# By hand")
    assert written.endswith("more by hand\n")
    assert "`pools[].scaling.minReplicas`" in written


def test_a_document_without_the_marks_is_refused(tmp_path: Path):
    docs = tmp_path / "reference.md"
    docs.write_text("# By hand\n")
    result = CliRunner().invoke(main, ["--to", str(tmp_path), "--docs", str(docs)])
    assert result.exit_code == 1
    assert "must have the lines" in result.output


def test_the_reference_in_the_repository_is_what_the_models_say():
    text = (ROOT / "docs" / "runnerqueue.md").read_text(encoding="utf-8")
    assert with_reference(text) == text


@pytest.mark.parametrize("node", every_level())
def test_every_level_has_a_type_and_an_upper_bound(node: Document):
    bounded = {"string": "maxLength", "array": "maxItems"}
    assert node["type"] in {"object", "array", "string", "integer", "boolean"}
    if "enum" in node or node.get("format") == "date-time":
        return
    if bound := bounded.get(node["type"]):
        assert node[bound] > 0


@pytest.mark.parametrize("crd", CRDS, ids=["queue", "pool"])
def test_every_field_is_explained(crd: Document):
    root = schema(crd)
    silent = [
        path
        for part in ("spec", "status")
        for path, node in levels(root["properties"][part], part)
        if not node.get("description") and not path.endswith("[]")
    ]
    assert silent == []


@pytest.mark.parametrize("crd", CRDS, ids=["queue", "pool"])
def test_a_level_below_a_default_is_reached_by_the_default(crd: Document):
    """The API server fills in defaults only below what is there, so every optional level whose
    fields have defaults must have one itself."""
    unreached = [
        path
        for path, node in levels(schema(crd)["properties"]["spec"], "spec")
        for name, inner in node.get("properties", {}).items()
        if inner["type"] == "object"
        and not inner.get("required")
        and any("default" in field for field in inner.get("properties", {}).values())
        and "default" not in inner
        and name not in node.get("required", [])
    ]
    assert unreached == []


@pytest.mark.parametrize("crd", CRDS, ids=["queue", "pool"])
def test_every_enum_value_is_in_pascal_case(crd: Document):
    for _, node in levels(schema(crd)):
        for value in node.get("enum", []):
            assert value[0].isupper()
            assert value.isalpha()


@pytest.mark.parametrize("crd", CRDS, ids=["queue", "pool"])
def test_every_rule_names_its_field_and_points_below_its_own_level(crd: Document):
    for path, node in levels(schema(crd)):
        for rule in node.get("x-kubernetes-validations", []):
            assert ":" in rule["message"], path
            if "fieldPath" in rule:
                assert rule["fieldPath"].removeprefix(".") in node["properties"]


def test_durations_say_their_unit():
    names = {path.split(".")[-1] for crd in CRDS for path, _ in levels(schema(crd))}
    timed = {
        name for name in names if any(w in name for w in ("timeout", "Delay", "Window", "Wait"))
    }
    assert timed
    assert all(name.endswith("Seconds") for name in timed)


def test_queue_columns_are_those_of_the_documentation():
    columns = queue_crd()["spec"]["versions"][0]["additionalPrinterColumns"]
    assert [column["name"] for column in columns] == [
        "Backend",
        "Pools",
        "Backlog",
        "Oldest",
        "Workers",
        "Coverage",
        "Ready",
        "Age",
    ]


def test_pool_columns_are_those_of_the_documentation():
    columns = pool_crd()["spec"]["versions"][0]["additionalPrinterColumns"]
    narrow = [column["name"] for column in columns if not column.get("priority")]
    wide = [column["name"] for column in columns if column.get("priority")]
    expected = "Queue Min Max Desired Ready Busy Backlog Oldest Reason Age"
    assert narrow == expected.split()
    assert wide == ["Types", "Image", "Clamped By"]


@pytest.mark.parametrize("crd", CRDS, ids=["queue", "pool"])
def test_a_column_shows_a_field_that_exists(crd: Document):
    fields = {path for path, _ in levels(schema(crd))}
    for column in crd["spec"]["versions"][0]["additionalPrinterColumns"]:
        path = column["jsonPath"]
        if not path.startswith(".metadata") and "[?" not in path:
            assert path in fields


def test_the_pool_can_be_scaled_and_its_paths_exist():
    version = pool_crd()["spec"]["versions"][0]
    fields = {path for path, _ in levels(schema(pool_crd()))}
    scale = version["subresources"]["scale"]
    assert set(scale.values()) <= fields
    assert "default" not in schema(pool_crd())["properties"]["spec"]["properties"]["replicas"]


def test_short_names_and_category_are_set():
    names = [crd["spec"]["names"] for crd in CRDS]
    assert [name["shortNames"] for name in names] == [["rq"], ["rwp"]]
    assert all(name["categories"] == ["runnerq"] for name in names)


@pytest.mark.parametrize("crd", CRDS, ids=["queue", "pool"])
def test_conditions_are_a_map_by_type(crd: Document):
    conditions = schema(crd)["properties"]["status"]["properties"]["conditions"]
    assert conditions["x-kubernetes-list-type"] == "map"
    assert conditions["x-kubernetes-list-map-keys"] == ["type"]


def test_the_pod_template_takes_whatever_kubernetes_takes():
    pools = schema(queue_crd())["properties"]["spec"]["properties"]["pools"]
    template = pools["items"]["properties"]["template"]
    assert template["x-kubernetes-preserve-unknown-fields"] is True
    assert "properties" not in template


def test_pool_conditions_are_conditions():
    assert set(POOL_CONDITIONS) <= set(CONDITIONS)


def test_a_string_without_a_bound_is_refused_by_the_generator():
    class Unbounded(Model, frozen=True, kw_only=True):
        name: str

    class Bounded(Model, frozen=True, kw_only=True):
        name: Annotated[str, text("A name.", most=5)]

    with pytest.raises(TypeError, match=r"Unbounded\.name: a string without an upper bound"):
        schema_of(Unbounded)
    assert schema_of(Bounded)["properties"]["name"]["maxLength"] == 5


def test_the_generated_yaml_reads_back_as_the_document():
    documents = [yaml.safe_load(text) for text in rendered().values()]
    assert documents == CRDS

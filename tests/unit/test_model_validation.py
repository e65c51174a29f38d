"""What a RunnerQueue file may say, and what is answered to one that says something else."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.refusals import REFUSALS, Refusal, valid_queue

from runnerq.errors import ConfigurationError
from runnerq.patterns import check_pattern
from runnerq_operator.model.check import problems_in
from runnerq_operator.model.queue import PausedMode, RunnerQueueSpec
from runnerq_operator.model.scaling import ScalingMode
from runnerq_operator.model.schema import schema_of
from runnerq_operator.model.validate import InvalidManifest, load_queue, parse_queue

ROOT = Path(__file__).parents[2]


def refused(document: Mapping[str, Any]) -> str:
    with pytest.raises(InvalidManifest) as caught:
        parse_queue(document, source="queue.yaml")
    return str(caught.value)


def written(*documents: Mapping[str, Any]) -> str:
    """As a file of several documents; JSON is YAML."""
    return "\n---\n".join(json.dumps(document) for document in documents)


def test_the_least_queue_is_accepted_and_gets_every_default():
    queue = parse_queue(valid_queue(), source="queue.yaml")
    (pool,) = queue.spec.pools
    assert queue.backend_queue == "shop"
    assert queue.spec.paused is PausedMode.NONE
    assert queue.spec.slo.max_wait_seconds == 60
    assert pool.scaling.mode is ScalingMode.AUTO
    assert (pool.scaling.min_replicas, pool.scaling.max_replicas) == (0, 10)
    assert pool.scaling.behavior.scale_down_window_seconds == 240
    assert pool.drain.timeout_seconds == 25


def test_the_queue_name_of_the_spec_is_the_one_in_the_backend():
    document = valid_queue()
    document["spec"]["queueName"] = "legacy_shop"
    assert parse_queue(document, source="queue.yaml").backend_queue == "legacy_shop"


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.name)
def test_a_mistake_is_refused_with_the_name_of_its_field(refusal: Refusal):
    assert refusal.names in refused(refusal.document())


def test_the_message_says_where_what_and_what_to_do():
    document = valid_queue()
    document["spec"]["pools"].append(
        {
            "name": "bulk",
            "activityTypes": ["bulk"],
            "app": "shop.bulk",
            "scaling": {"minReplicas": 5, "maxReplicas": 3},
        }
    )
    assert (
        "spec.pools[1].scaling.minReplicas: 5 is above maxReplicas 3; lower it or raise maxReplicas"
        in refused(document)
    )


def test_all_mistakes_are_named_at_once():
    document = valid_queue()
    document["spec"]["pools"][0]["concurrency"] = 0
    document["spec"]["slo"] = {"maxWait": 5}
    message = refused(document)
    assert "spec.pools[0].concurrency: 0 is below the least allowed, 1" in message
    assert "spec.slo.maxWait: there is no such field; did you mean maxWaitSeconds?" in message


def test_a_key_given_twice_is_refused():
    text = written(valid_queue()).replace("{", '{"kind": "RunnerQueue", ', 1)
    with pytest.raises(InvalidManifest, match="given twice"):
        load_queue(text, source="queue.yaml")


def test_documents_of_other_kinds_are_passed_over():
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "shop-postgres"}}
    text = written(secret, valid_queue())
    assert load_queue(text, source="queue.yaml").metadata.name == "shop"


@pytest.mark.parametrize("count", [0, 2])
def test_a_file_without_exactly_one_queue_is_refused(count: int):
    text = written(*[valid_queue()] * count)
    with pytest.raises(InvalidManifest, match="one RunnerQueue is needed"):
        load_queue(text, source="queue.yaml")


def test_text_that_is_not_yaml_is_refused_with_its_line():
    with pytest.raises(InvalidManifest, match="line 2"):
        load_queue("a: 1\n  b: [", source="queue.yaml")


def test_yaml_that_is_nested_without_end_is_refused_in_a_line():
    with pytest.raises(InvalidManifest, match="nested too deep"):
        load_queue("[" * 20_000, source="queue.yaml")


@pytest.mark.parametrize("name", ["Shop", "shop.mail", "", "x" * 41, None, 7])
def test_a_name_that_cannot_name_the_children_is_refused(name: object):
    document = valid_queue()
    document["metadata"]["name"] = name
    assert "metadata.name" in refused(document)


def test_the_example_is_valid():
    path = ROOT / "examples" / "docs_index" / "queue.yaml"
    queue = load_queue(path.read_text(encoding="utf-8"), source=str(path))
    assert [pool.name for pool in queue.spec.pools] == ["light", "heavy"]


@given(st.text(alphabet="ab_*.:/- é", min_size=1, max_size=6))
def test_a_pattern_is_judged_as_the_engine_judges_it(pattern: str):
    document = valid_queue()
    document["spec"]["pools"][0]["activityTypes"] = [pattern]
    try:
        check_pattern(pattern)
    except ConfigurationError:
        assert "activityTypes[0]" in refused(document)
    else:
        parse_queue(document, source="queue.yaml")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(JSON)
def test_whatever_is_written_is_judged_and_nothing_is_let_through_that_cannot_be_read(
    value: object,
):
    document = {**valid_queue(), "spec": value}
    assert list(problems_in(value, schema_of(RunnerQueueSpec), "spec"))
    assert "spec" in refused(document)

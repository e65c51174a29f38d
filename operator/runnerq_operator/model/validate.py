"""Reads a RunnerQueue from YAML and says everything that is wrong with it, by path.

The checks of the CRD for those who have no API server: schema, bounds, and the CEL rules in Python. A
test runs the same table of examples through both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

import msgspec
import yaml

from runnerq.errors import ConfigurationError
from runnerq_operator.model import API_VERSION
from runnerq_operator.model.check import Problem, below, problems_in, unknown
from runnerq_operator.model.pool import NAME_LIMIT, TYPE_PATTERN, PoolEntry
from runnerq_operator.model.queue import RunnerQueue, RunnerQueueSpec
from runnerq_operator.model.schema import schema_of


class InvalidManifest(ConfigurationError):
    """The file cannot be used. `problems` has every mistake found, in the file's order."""

    def __init__(self, source: str, problems: list[Problem]) -> None:
        lines = "\n".join(f"  {problem}" for problem in problems)
        super().__init__(f"{source} is not a valid RunnerQueue:\n{lines}")
        self.problems = problems


def load_queue(text: str, *, source: str) -> RunnerQueue:
    """The one RunnerQueue in a YAML file; documents of other kinds (Secrets, ...) are passed over.

    Raises InvalidManifest with every problem found.
    """
    try:
        documents = list(yaml.load_all(text, Loader=_Loader))
    except yaml.YAMLError as error:
        raise InvalidManifest(source, [Problem("", f"this is not YAML: {error}")]) from error
    except RecursionError:
        problem = Problem("", "it is nested too deep to be a RunnerQueue")
        raise InvalidManifest(source, [problem]) from None
    queues = [document for document in documents if _kind(document) == "RunnerQueue"]
    if len(queues) != 1:
        found = ", ".join(_kind(document) for document in documents if document) or "nothing"
        raise InvalidManifest(
            source, [Problem("kind", f"one RunnerQueue is needed; the file has {found}")]
        )
    return parse_queue(queues[0], source=source)


def parse_queue(document: Mapping[str, Any], *, source: str) -> RunnerQueue:
    """A RunnerQueue from its document. Raises InvalidManifest with every problem found."""
    problems = list(_envelope_problems(document))
    spec = document.get("spec")
    problems += problems_in(spec, schema_of(RunnerQueueSpec), "spec")
    if problems:
        raise InvalidManifest(source, problems)
    known = {name: document[name] for name in ("apiVersion", "kind", "metadata", "spec")}
    queue = msgspec.convert(known, RunnerQueue)
    problems = list(rule_problems(queue.spec))
    if problems:
        raise InvalidManifest(source, problems)
    return queue


def rule_problems(spec: RunnerQueueSpec) -> Iterator[Problem]:
    """What the CEL rules refuse in an object that is new (so not the rules about changes)."""
    backends = [name for name in ("postgres", "redis") if getattr(spec.backend, name) is not None]
    if len(backends) != 1:
        given = " and ".join(backends) or "neither"
        yield Problem("spec.backend", f"give exactly one of postgres and redis; {given} is given")
    if spec.console and (spec.console.auth.token_secret_ref is None) == (
        spec.console.auth.mode is None
    ):
        yield Problem(
            "spec.console.auth",
            "give exactly one of tokenSecretRef and mode; `mode: None` opens the console to whoever "
            "reaches it",
        )
    catch_all: str | None = None
    for index, pool in enumerate(spec.pools):
        path = f"spec.pools[{index}]"
        yield from _pool_problems(pool, path)
        if "*" in pool.activity_types:
            if catch_all is not None:
                yield Problem(
                    f"{path}.activityTypes",
                    f'only one pool may have the catch-all "*", and {catch_all} has it already',
                )
            catch_all = catch_all or path
    least = sum(pool.scaling.min_replicas for pool in spec.pools)
    if spec.max_replicas is not None and least > spec.max_replicas:
        yield Problem(
            "spec.maxReplicas",
            f"{spec.max_replicas} is below {least}, the sum of the pools' minReplicas; raise it or "
            "lower those",
        )


def _pool_problems(pool: PoolEntry, path: str) -> Iterator[Problem]:
    if pool.name == "console":
        yield Problem(
            f"{path}.name", "`console` is taken by the queue's console; choose another name"
        )
    for index, pattern in enumerate(pool.activity_types):
        if not re.search(TYPE_PATTERN, pattern):
            yield Problem(
                f"{path}.activityTypes[{index}]",
                f"{pattern!r} is not a pattern: give an exact type, a prefix with one trailing star, "
                'or "*"; of letters, digits and _ . : / -',
            )
    scaling = pool.scaling
    if scaling.min_replicas > scaling.max_replicas:
        yield Problem(
            f"{path}.scaling.minReplicas",
            f"{scaling.min_replicas} is above maxReplicas {scaling.max_replicas}; lower it or raise "
            "maxReplicas",
        )


def _envelope_problems(document: Mapping[str, Any]) -> Iterator[Problem]:
    if document.get("apiVersion") != API_VERSION:
        yield Problem("apiVersion", f"expected {API_VERSION}, got {document.get('apiVersion')!r}")
    known = ("apiVersion", "kind", "metadata", "spec", "status")
    for name in document:
        if name not in known:
            yield Problem(name, unknown(name, known))
    metadata = document.get("metadata")
    name = cast("Mapping[str, Any]", metadata).get("name") if isinstance(metadata, dict) else None
    path = below("metadata", "name")
    if not isinstance(name, str) or not re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", name):
        yield Problem(path, "give a name of lower case letters, digits and dashes")
    elif len(name) > NAME_LIMIT:
        yield Problem(path, f"is longer than {NAME_LIMIT} characters; choose a shorter one")


def _kind(document: object) -> str:
    if not isinstance(document, dict):
        return "" if document is None else type(document).__name__
    return str(cast("Mapping[str, Any]", document).get("kind", "a document without kind"))


class _Loader(yaml.SafeLoader):
    """Refuses a key that is given twice, of which YAML would silently take the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value != "<<":
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"the key {key.value!r} is given twice", key.start_mark
                    )
                seen.add(key.value)
        return super().construct_mapping(node, deep)

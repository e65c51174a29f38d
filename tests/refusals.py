"""RunnerQueues that must be refused, each with the field that the message has to name.

One table for two judges: the Python checks of `runnerq dev` (tests/unit) and the CRD on a real API
server (tests/cluster). `TRANSITIONS` are changes, which only the API server sees.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, NamedTuple

Document = dict[str, Any]
Edits = Mapping[str, Any]
"""Path below spec -> value, `pools.0.app`; one past the end of a list appends; None removes."""


def valid_queue() -> Document:
    """The least that is accepted."""
    return {
        "apiVersion": "runnerq.dev/v1alpha1",
        "kind": "RunnerQueue",
        "metadata": {"name": "shop"},
        "spec": {
            "backend": {"postgres": {"urlSecretRef": {"name": "shop-postgres"}}},
            "pools": [{"name": "mail", "activityTypes": ["send_*"], "app": "shop.activities"}],
        },
    }


def edited(document: Document, edits: Edits) -> Document:
    """A copy of a queue with its spec changed."""
    result = copy.deepcopy(document)
    for path, value in edits.items():
        node: Any = result["spec"]
        *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
        for part in parents:
            node = node[part]
        if value is None:
            del node[last]
        elif isinstance(last, int) and last == len(node):
            node.append(value)
        else:
            node[last] = value
    return result


class Refusal(NamedTuple):
    name: str
    edits: Edits
    names: str
    """What the message must contain: the field."""

    def document(self) -> Document:
        return edited(valid_queue(), self.edits)


class Transition(NamedTuple):
    name: str
    before: Edits
    after: Edits
    names: str

    def documents(self) -> tuple[Document, Document]:
        old = edited(valid_queue(), self.before)
        return old, edited(old, self.after)


def _pool(name: str, *types: str) -> Document:
    return {"name": name, "activityTypes": list(types), "app": "shop.activities"}


_REDIS = {"urlSecretRef": {"name": "shop-redis"}}
_BOTH_KINDS_OF_AUTH = {"mode": "None", "tokenSecretRef": {"name": "token"}}

REFUSALS = [
    Refusal(
        "min above max", {"pools.0.scaling": {"minReplicas": 5, "maxReplicas": 3}}, "minReplicas"
    ),
    Refusal("min above the default max", {"pools.0.scaling": {"minReplicas": 11}}, "minReplicas"),
    Refusal("two backends", {"backend.redis": _REDIS}, "backend"),
    Refusal("no backend", {"backend.postgres": None}, "backend"),
    Refusal("a star inside", {"pools.0.activityTypes": ["send_*_now"]}, "activityTypes"),
    Refusal("a pattern with a space", {"pools.0.activityTypes": ["send mail"]}, "activityTypes"),
    Refusal("no types", {"pools.0.activityTypes": []}, "activityTypes"),
    Refusal("a type twice", {"pools.0.activityTypes": ["a", "a"]}, "activityTypes"),
    Refusal("two pools of one name", {"pools.1": _pool("mail", "report")}, "pools[1]"),
    Refusal(
        "two catch-alls",
        {"pools.0.activityTypes": ["*"], "pools.1": _pool("other", "*")},
        "pools",
    ),
    Refusal("a pool called console", {"pools.0.name": "console"}, "name"),
    Refusal("a long pool name", {"pools.0.name": "x" * 21}, "pools[0].name"),
    Refusal("no pools", {"pools": []}, "pools"),
    Refusal("an app that is a path", {"pools.0.app": "shop/activities.py"}, "app"),
    Refusal("concurrency zero", {"pools.0.concurrency": 0}, "concurrency"),
    Refusal("a word for a number", {"pools.0.concurrency": "eight"}, "concurrency"),
    Refusal("an unknown mode", {"pools.0.scaling": {"mode": "Automatic"}}, "mode"),
    Refusal("an unknown field", {"pools.0.scaling": {"minReplica": 1}}, "minReplica"),
    Refusal("a console without auth", {"console": {}}, "auth"),
    Refusal("a console with empty auth", {"console": {"auth": {}}}, "console.auth"),
    Refusal(
        "a console with two kinds of auth",
        {"console": {"auth": _BOTH_KINDS_OF_AUTH}},
        "console.auth",
    ),
    Refusal(
        "a budget below the minimums",
        {"maxReplicas": 1, "pools.0.scaling": {"minReplicas": 2}},
        "maxReplicas",
    ),
    Refusal("a queue name with a slash", {"queueName": "a/b"}, "queueName"),
    Refusal("a paused that is no mode", {"paused": "All"}, "paused"),
    Refusal("an SLO of nothing", {"slo": {"maxWaitSeconds": 0}}, "maxWaitSeconds"),
]

TRANSITIONS = [
    Transition("queueName changed", {"queueName": "a"}, {"queueName": "b"}, "queueName"),
    Transition("queueName set later", {}, {"queueName": "b"}, "queueName"),
    Transition("queueName removed", {"queueName": "a"}, {"queueName": None}, "queueName"),
    Transition("another kind of backend", {}, {"backend": {"redis": _REDIS}}, "backend"),
    Transition("another schema", {}, {"backend.postgres.schema": "elsewhere"}, "schema"),
]

"""Lays one partial object over another, as a person expects it of pod templates. Pure.

Maps merge key by key; lists whose items have a name (containers, env, volumes, ...) merge item by item;
any other list is replaced; null removes. Items keep the order of the lower object, new ones follow.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeGuard, cast

_ITEM_KEYS: Final = {
    "containers": ("name",),
    "initContainers": ("name",),
    "volumes": ("name",),
    "env": ("name",),
    "ports": ("containerPort", "protocol"),
    "volumeMounts": ("mountPath",),
    "volumeDevices": ("devicePath",),
    "imagePullSecrets": ("name",),
    "hostAliases": ("ip",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
}
"""Lists in a pod template whose items are told apart by these fields."""
_ITEM_DEFAULTS: Final = {"protocol": "TCP"}

_ALTERNATIVES: Final = (
    frozenset({"value", "valueFrom"}),
    frozenset({"httpGet", "exec", "tcpSocket", "grpc"}),
)
"""Fields of which an object has one: giving one over another replaces it."""


def merged(lower: Mapping[str, Any], upper: Mapping[str, Any]) -> dict[str, Any]:
    """A new object: `upper` laid over `lower`. Neither is changed.

    >>> merged({"a": {"b": 1, "c": 2}}, {"a": {"b": 3, "c": None}})
    {'a': {'b': 3}}
    """
    result: dict[str, Any] = dict(lower)
    for group in _ALTERNATIVES:
        if any(upper.get(name) is not None for name in group):
            for name in group - upper.keys():
                result.pop(name, None)
    for name, value in upper.items():
        if value is None:
            result.pop(name, None)
        elif isinstance(value, Mapping):
            result[name] = merged(_mapping(result.get(name)), cast("Mapping[str, Any]", value))
        elif name in _ITEM_KEYS and _objects(value):
            below = result.get(name)
            result[name] = _items(below if _objects(below) else [], value, _ITEM_KEYS[name])
        else:
            result[name] = value
    return result


def _items(
    lower: list[Mapping[str, Any]], upper: list[Mapping[str, Any]], keys: tuple[str, ...]
) -> list[Any]:
    """Merge two lists of objects that `keys` tell apart."""
    result: dict[tuple[str, ...], dict[str, Any]] = {}
    for item in [*lower, *upper]:
        # A key may be anything a person wrote; what makes no sense is for the API server to say.
        identity = tuple(repr(item.get(key, _ITEM_DEFAULTS.get(key))) for key in keys)
        result[identity] = merged(result.get(identity, {}), item)
    return list(result.values())


def _objects(value: Any) -> TypeGuard[list[Mapping[str, Any]]]:
    """Whether it is a list of objects, as the lists in question are meant to be."""
    return isinstance(value, list) and all(
        isinstance(item, Mapping) for item in cast("list[Any]", value)
    )


def _mapping(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}

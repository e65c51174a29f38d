"""Lays one partial object over another, as a person expects it of pod templates. Pure.

Maps merge key by key; lists whose items have a name (containers, env, volumes, ...) merge item by item;
any other list is replaced; null removes. Items keep the order of the lower object, new ones follow.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

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
        elif isinstance(value, list) and name in _ITEM_KEYS:
            result[name] = _items(
                cast("list[Any]", result.get(name) or []),
                cast("list[Any]", value),
                _ITEM_KEYS[name],
            )
        else:
            result[name] = value
    return result


def _items(lower: list[Any], upper: list[Any], keys: tuple[str, ...]) -> list[Any]:
    """Merge two lists of objects that `keys` tell apart."""
    result: dict[tuple[Any, ...], Any] = {}
    for position, item in enumerate([*lower, *upper]):
        if not isinstance(item, Mapping):
            # Not an object, so not a valid item: the API server is to say so in its own words.
            result[("", position)] = item
            continue
        entry = cast("Mapping[str, Any]", item)
        identity = tuple(entry.get(key, _ITEM_DEFAULTS.get(key)) for key in keys)
        result[identity] = merged(result.get(identity, {}), entry)
    return list(result.values())


def _mapping(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}

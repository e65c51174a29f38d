"""Whether a Deployment was made from what the user wants now: a hash of the user's input.

Never of what is rendered from it: a new version of the operator renders differently, and must not
restart anybody's workers for that. The version of the hash is stored beside it; an operator that hashes
differently still recognises older hashes, so every version's function stays here for good.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from runnerq_operator.kube.kinds import CONTENT_CHECKSUM, HASH_VERSION, TEMPLATE_HASH


def _version_1(inputs: Mapping[str, Any]) -> str:
    text = json.dumps(inputs, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


_HASHES: Final[dict[str, Callable[[Mapping[str, Any]], str]]] = {"1": _version_1}
CURRENT: Final = "1"


def template_hash(inputs: Mapping[str, Any], version: str = CURRENT) -> str:
    """16 hexadecimal digits of what the user asked for (JSON values only).

    >>> template_hash({"b": 1, "a": [2]}) == template_hash({"a": [2], "b": 1})
    True
    """
    return _HASHES[version](inputs)


def marks(inputs: Mapping[str, Any], checksum: str) -> dict[str, str]:
    """The annotations that say what an object was made from."""
    return {
        TEMPLATE_HASH: template_hash(inputs),
        HASH_VERSION: CURRENT,
        CONTENT_CHECKSUM: checksum,
    }


def made_from(annotations: Mapping[str, str], inputs: Mapping[str, Any], checksum: str) -> bool:
    """Whether an object with these annotations was made from these inputs and this Secret.

    A hash of a version that is unknown here (made by a newer operator) counts as different.
    """
    version = annotations.get(HASH_VERSION, "")
    return (
        version in _HASHES
        and annotations.get(TEMPLATE_HASH) == template_hash(inputs, version)
        and annotations.get(CONTENT_CHECKSUM, "") == checksum
    )

"""Secrets, read by name and never listed or watched: what a queue's references stand for now.

A value is only ever held in memory. What others see of it is a fingerprint that changes with it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import TYPE_CHECKING, Protocol

from runnerq_operator.kube.api import NotFound
from runnerq_operator.kube.kinds import SECRET

if TYPE_CHECKING:
    from runnerq_operator.kube.kinds import Kind
    from runnerq_operator.kube.objects import Object


class SecretMissing(Exception):
    """The Secret, or its key, does not exist or is empty; the message says which."""


class SecretApi(Protocol):
    """What of `KubeApi` is needed here."""

    async def get(self, kind: Kind, namespace: str, name: str) -> Object: ...


async def secret_value(api: SecretApi, namespace: str, name: str, key: str) -> str:
    """The value of one key. Raises SecretMissing, and what the API raises when it does not answer."""
    try:
        body = await api.get(SECRET, namespace, name)
    except NotFound as error:
        raise SecretMissing(f"there is no Secret {name} in namespace {namespace}") from error
    data: dict[str, str] = body.get("data") or {}
    if key not in data:
        known = ", ".join(sorted(data)) or "none"
        raise SecretMissing(f"Secret {name} has no key {key!r}; its keys are: {known}")
    try:
        value = base64.b64decode(data[key], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise SecretMissing(f"Secret {name}, key {key!r}: is not text") from error
    # A file made by an editor ends with a newline that nobody means.
    if not value.strip():
        raise SecretMissing(f"Secret {name}, key {key!r}: is empty")
    return value.strip()


def fingerprint(owner_uid: str, *values: str) -> str:
    """16 digits that change with the values and tell nothing about them: keyed by the owner's uid, so
    that two queues with one Secret show different ones."""
    digest = hmac.new(owner_uid.encode(), digestmod=hashlib.sha256)
    for value in values:
        digest.update(len(value).to_bytes(8, "big") + value.encode())
    return digest.hexdigest()[:16]

"""What a pass may do, as data: made by the plan, done by `execute.py`, looked at by tests."""

from __future__ import annotations

from uuid import UUID

import msgspec

from runnerq.storage.records import DecisionRecord, PodRecord
from runnerq_operator.fleet.port import PoolKey


class SetReplicas(msgspec.Struct, frozen=True, kw_only=True):
    pool: PoolKey
    replicas: int
    current: int
    version: str
    """Of the observation it was decided on."""


class PreferVictims(msgspec.Struct, frozen=True, kw_only=True):
    pool: PoolKey
    pods: tuple[str, ...]


class RemovePool(msgspec.Struct, frozen=True, kw_only=True):
    pool: PoolKey


class Cordon(msgspec.Struct, frozen=True, kw_only=True):
    pool: PoolKey
    queue: str
    """Name in the backend."""
    engines: tuple[UUID, ...]
    cordoned: bool
    """False: let them claim again."""


class RecordDecision(msgspec.Struct, frozen=True, kw_only=True):
    record: DecisionRecord


class RecordPods(msgspec.Struct, frozen=True, kw_only=True):
    queue: str
    pods: tuple[PodRecord, ...]


Action = SetReplicas | PreferVictims | RemovePool | Cordon | RecordDecision | RecordPods

"""Does what the plan says. Every action is tried; one that fails does not stop the others.

Nothing is decided here. Repeating an action is harmless: the next pass plans from what then is.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import msgspec

from runnerq.errors import RunnerQError
from runnerq.storage.ports import FleetStorage
from runnerq_operator.control.actions import (
    Action,
    Cordon,
    PreferVictims,
    RecordDecision,
    RecordPods,
    RemovePool,
    SetReplicas,
)
from runnerq_operator.fleet.port import Fleet, FleetError

logger = logging.getLogger(__name__)


class Failure(msgspec.Struct, frozen=True):
    action: Action
    message: str


async def execute(
    actions: Sequence[Action], *, fleet: Fleet, storage: FleetStorage | None
) -> list[Failure]:
    """Do all of it in order; what failed, with why. Lowering a pool is not tried when naming its
    victims failed: others would go."""
    failures: list[Failure] = []
    unnamed: set[str] = set()
    for action in actions:
        if isinstance(action, SetReplicas) and action.pool.pool in unnamed:
            failures.append(Failure(action, "its victims could not be named"))
            continue
        try:
            await _do(action, fleet, storage)
        except (FleetError, RunnerQError, TimeoutError) as error:
            logger.warning("%s failed: %s", type(action).__name__, error)
            failures.append(Failure(action, str(error) or type(error).__name__))
            if isinstance(action, PreferVictims):
                unnamed.add(action.pool.pool)
    return failures


async def _do(action: Action, fleet: Fleet, storage: FleetStorage | None) -> None:
    match action:
        case SetReplicas():
            await fleet.set_replicas(action.pool, action.replicas, version=action.version)
            logger.info("%s: %d -> %d workers", action.pool, action.current, action.replicas)
        case PreferVictims():
            await fleet.prefer_victims(action.pool, action.pods)
        case RemovePool():
            await fleet.remove(action.pool)
            logger.info("%s: removed", action.pool)
        case Cordon() | RecordDecision() | RecordPods():
            if storage is not None:
                await _tell(action, storage)


async def _tell(action: Cordon | RecordDecision | RecordPods, storage: FleetStorage) -> None:
    match action:
        case Cordon():
            await storage.cordon(action.queue, action.engines, cordoned=action.cordoned)
        case RecordDecision():
            await storage.record_decision(action.record)
        case RecordPods():
            await storage.record_pods(action.queue, action.pods)

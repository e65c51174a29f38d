"""The numbers by which states, outcomes and event kinds are stored. Part of the schema: never renumber."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runnerq.storage.records import (
    WAITING_STATES,
    ActivityState,
    EngineState,
    EventKind,
    OutcomeKind,
    Priority,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

STATE_CODE: Mapping[ActivityState, int] = {
    ActivityState.PENDING: 1,
    ActivityState.SCHEDULED: 2,
    ActivityState.RETRYING: 3,
    ActivityState.PROCESSING: 4,
    ActivityState.COMPLETED: 6,
    ActivityState.FAILED: 7,
    ActivityState.DEAD_LETTER: 8,
    ActivityState.CANCELLED: 9,
}
"""5 is left for parked work, so that live states stay below terminal ones."""

OUTCOME_CODE: Mapping[OutcomeKind, int] = {
    OutcomeKind.COMPLETED: 1,
    OutcomeKind.FAILED: 2,
    OutcomeKind.RETRIED: 3,
    OutcomeKind.SNOOZED: 4,
    OutcomeKind.RELEASED: 5,
}

EVENT_CODE: Mapping[EventKind, int] = {
    EventKind.ENQUEUED: 1,
    EventKind.SCHEDULED: 2,
    EventKind.CLAIMED: 3,
    EventKind.COMPLETED: 4,
    EventKind.RETRIED: 5,
    EventKind.FAILED: 6,
    EventKind.DEAD_LETTERED: 7,
    EventKind.SNOOZED: 8,
    EventKind.RELEASED: 9,
    EventKind.CLAIM_LOST: 10,
    EventKind.REQUEUED: 11,
}

ENGINE_CODE: Mapping[EngineState, int] = {
    EngineState.RUNNING: 1,
    EngineState.DRAINING: 2,
    EngineState.STOPPED: 3,
}

STATE_OF = {code: state for state, code in STATE_CODE.items()}
EVENT_OF = {code: kind for kind, code in EVENT_CODE.items()}
ENGINE_OF = {code: state for state, code in ENGINE_CODE.items()}
PRIORITY_OF = {int(priority): priority for priority in Priority}


def words() -> dict[str, str]:
    """What stands for the numbers in .sql files: `{pending}`, `{outcome_retried}`, `{waiting}`."""
    named = {state.value: code for state, code in STATE_CODE.items()}
    named |= {f"outcome_{kind.value}": code for kind, code in OUTCOME_CODE.items()}
    named |= {f"event_{kind.value}": code for kind, code in EVENT_CODE.items()}
    named |= {f"engine_{state.value}": code for state, code in ENGINE_CODE.items()}
    waiting = ", ".join(str(code) for code in sorted(STATE_CODE[state] for state in WAITING_STATES))
    return {name: str(code) for name, code in named.items()} | {"waiting": waiting}

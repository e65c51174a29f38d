"""Acknowledgements: ends attempts, each in one step with what must be stored of it.

Two statements, by what the outcome may lead to: `finish` (completed, failed: into history, the hot path)
and `give_back` (retried, snoozed, released: back in line, or a dead letter). What neither took is
explained by a third: accepted before, conflict, or claim lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from runnerq.errors import BackendUnavailable
from runnerq.storage.postgres.codes import OUTCOME_CODE, STATE_CODE, STATE_OF
from runnerq.storage.postgres.portions import portions
from runnerq.storage.postgres.values import error_bytes, error_of, outcome_digest
from runnerq.storage.records import (
    Acknowledged,
    AckStatus,
    ActivityEvent,
    ActivityState,
    EventKind,
    OutcomeKind,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from uuid import UUID

    from asyncpg import Record

    from runnerq.storage.postgres.connections import Database
    from runnerq.storage.postgres.names import Names
    from runnerq.storage.postgres.signals import Signals
    from runnerq.storage.postgres.stream import Stream
    from runnerq.storage.records import Acknowledgement

_FINAL = {
    OutcomeKind.COMPLETED: ActivityState.COMPLETED,
    OutcomeKind.FAILED: ActivityState.FAILED,
}
_GIVEN_BACK = {
    OutcomeKind.RETRIED: ActivityState.RETRYING,
    OutcomeKind.SNOOZED: ActivityState.SCHEDULED,
    OutcomeKind.RELEASED: ActivityState.PENDING,
}
_KIND = {
    ActivityState.COMPLETED: EventKind.COMPLETED,
    ActivityState.FAILED: EventKind.FAILED,
    ActivityState.DEAD_LETTER: EventKind.DEAD_LETTERED,
    ActivityState.RETRYING: EventKind.RETRIED,
    ActivityState.SCHEDULED: EventKind.SNOOZED,
    ActivityState.PENDING: EventKind.RELEASED,
}
_WITH_ERROR = frozenset({ActivityState.FAILED, ActivityState.DEAD_LETTER, ActivityState.RETRYING})
_AT_ONCE = 2_000
"""Acknowledgements in one statement; each is atomic for itself."""
_LOOKS = 5
"""How often a claim that seems held after all is acknowledged again before we give up."""

_Key = tuple["UUID", "UUID"]


class Acknowledger:
    def __init__(self, database: Database, names: Names, signals: Signals, stream: Stream) -> None:
        self._database = database
        self._names = names
        self._signals = signals
        self._stream = stream

    async def acknowledge(
        self, queue: str, acknowledgements: Sequence[Acknowledgement]
    ) -> list[Acknowledged]:
        if not acknowledgements:
            return []
        self._signals.expect_awaited()
        # The first word about an attempt counts; what else this call says about it is compared with that.
        # Sorted, so that two calls over the same rows wait for each other and never in a circle.
        first: dict[_Key, Acknowledgement] = {}
        for ack in acknowledgements:
            first.setdefault((ack.id, ack.token), ack)
        ordered = sorted(first.values(), key=lambda ack: ack.id.int)
        taken = await self._store(queue, ordered)
        doubtful = [
            ack
            for ack in acknowledgements
            if (ack.id, ack.token) not in taken or first[ack.id, ack.token] is not ack
        ]
        explained = await self._explain(queue, doubtful) if doubtful else {}
        return [
            explained.get(id(ack))
            or Acknowledged(ack.id, AckStatus.ACCEPTED, taken[ack.id, ack.token])
            for ack in acknowledgements
        ]

    async def _store(
        self, queue: str, acks: Sequence[Acknowledgement]
    ) -> dict[_Key, ActivityState]:
        """The new states of those attempts that were held."""
        queue_id = await self._names.queue(queue)
        final = [ack for ack in acks if ack.kind in _FINAL]
        other = [ack for ack in acks if ack.kind not in _FINAL]
        taken: dict[_Key, ActivityState] = {}
        ended: list[UUID] = []
        if final:
            held = {
                (row["id"], row["token"])
                for part in portions(final, _size, most=_AT_ONCE)
                for row in await self._finish(queue_id, part)
            }
            taken = {key: _FINAL[ack.kind] for ack in final if (key := (ack.id, ack.token)) in held}
            ended = [activity_id for activity_id, _ in taken]
        if other:
            back = {
                (row["id"], row["token"]): STATE_OF[row["state"]]
                for part in portions(other, _size, most=_AT_ONCE)
                for row in await self._give_back(queue_id, part)
            }
            taken |= back
            ended += [one for (one, _), state in back.items() if state.terminal]
            if any(not state.terminal for state in back.values()):
                self._signals.work(queue)
        if ended:
            self._signals.ended(ended)
        if taken:

            async def told() -> list[ActivityEvent]:
                return await self._tell(queue_id, {one: state for (one, _), state in taken.items()})

            await self._stream.publish(queue, queue_id, told)
        return taken

    async def _finish(self, queue_id: int, acks: Sequence[Acknowledgement]) -> list[Record]:
        return await self._database.fetch(
            "finish",
            [ack.id for ack in acks],
            [ack.token for ack in acks],
            [OUTCOME_CODE[ack.kind] for ack in acks],
            [STATE_CODE[_FINAL[ack.kind]] for ack in acks],
            [ack.result for ack in acks],
            [ack.codec for ack in acks],
            [error_bytes(ack.error) for ack in acks],
            [ack.run_ms for ack in acks],
            queue_id,
        )

    async def _give_back(self, queue_id: int, acks: Sequence[Acknowledgement]) -> list[Record]:
        return await self._database.fetch(
            "give_back",
            [ack.id for ack in acks],
            [ack.token for ack in acks],
            [OUTCOME_CODE[ack.kind] for ack in acks],
            [max(0, ack.delay_ms) for ack in acks],
            [error_bytes(ack.error) for ack in acks],
            [outcome_digest(ack) for ack in acks],
            [ack.run_ms for ack in acks],
            queue_id,
        )

    async def _explain(
        self, queue: str, acks: Sequence[Acknowledgement]
    ) -> dict[int, Acknowledged]:
        """Why these were not taken, by `id()` of the acknowledgement."""
        queue_id = await self._names.queue(queue)
        answers: dict[int, Acknowledged] = {}
        asked: list[Acknowledgement] = list(acks)
        for _ in range(_LOOKS):
            held: list[Acknowledgement] = []
            for row in await self._database.fetch(
                "explain_refusal",
                [ack.id for ack in asked],
                [ack.token for ack in asked],
                [OUTCOME_CODE[ack.kind] for ack in asked],
                [ack.result for ack in asked],
                [ack.codec for ack in asked],
                [error_bytes(ack.error) for ack in asked],
                [outcome_digest(ack) for ack in asked],
                queue_id,
            ):
                ack = asked[int(row["place"]) - 1]
                match row["answer"]:
                    case 0:
                        held.append(ack)
                    case 1:
                        state = (
                            _GIVEN_BACK[ack.kind]
                            if row["ended"] is None
                            else STATE_OF[row["ended"]]
                        )
                        answers[id(ack)] = Acknowledged(ack.id, AckStatus.ACCEPTED, state)
                    case 2:
                        answers[id(ack)] = Acknowledged(ack.id, AckStatus.CONFLICT)
                    case _:
                        answers[id(ack)] = Acknowledged(ack.id, AckStatus.CLAIM_LOST)
            if not held:
                return answers
            # Its row was being written (a lease moved) when we looked: the same step once more.
            taken = await self._store(queue, held)
            answers |= {
                id(ack): Acknowledged(ack.id, AckStatus.ACCEPTED, taken[ack.id, ack.token])
                for ack in held
                if (ack.id, ack.token) in taken
            }
            asked = [ack for ack in held if id(ack) not in answers]
            if not asked:
                return answers
        raise BackendUnavailable("could not acknowledge: the rows kept changing; try again")

    async def _tell(
        self, queue_id: int, states: Mapping[UUID, ActivityState]
    ) -> list[ActivityEvent]:
        rows = await self._database.fetch("briefly", list(states))
        names = await self._names.names_of(queue_id, [row["type_id"] for row in rows])
        return [
            ActivityEvent(
                activity_id=row["id"],
                kind=_KIND[states[row["id"]]],
                at=row["at"],
                type=names[row["type_id"]],
                state=states[row["id"]],
                attempt=row["attempt"],
                worker_id=row["worker"],
                error=error_of(row["error"]) if states[row["id"]] in _WITH_ERROR else None,
            )
            for row in rows
        ]


def _size(ack: Acknowledgement) -> int:
    return 0 if ack.result is None else len(ack.result)

"""ActivityBuilder: one activity to be enqueued, described step by step. Immutable.

Every setter checks its value and returns a new builder, so a half-configured one can be kept and
reused. The payload is encoded when it is given: later changes to the object have no effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from runnerq.durations import Duration, milliseconds
from runnerq.errors import ConfigurationError, InvalidActivity
from runnerq.patterns import check_type_name
from runnerq.payload import Decoder, encode
from runnerq.storage.records import (
    ActivitySpec,
    Idempotency,
    IdempotencyBehavior,
    Priority,
)

if TYPE_CHECKING:
    from uuid import UUID

    from runnerq.executor import ActivityExecutor
    from runnerq.future import ActivityFuture

R = TypeVar("R")

PriorityLike = Priority | str | int
MAX_KEY = 500
MAX_ATTEMPTS = 1_000_000
MAX_HEADERS_BYTES = 16_384
_NULL = b"null"
_UNTYPED: Decoder[Any] = Decoder(Any)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivityOptions:
    """The limits of an activity; defaults come from its definition."""

    priority: Priority = Priority.NORMAL
    max_attempts: int = 3
    timeout_ms: int = 300_000

    @staticmethod
    def parse_priority(value: PriorityLike) -> Priority:
        """A Priority from itself, its name in any case, or its number."""
        known = {key: one for one in Priority for key in (one.name, int(one))}
        key = value.upper() if isinstance(value, str) else value
        if isinstance(key, bool) or not isinstance(key, str | int) or key not in known:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidActivity(
                "priority", f"{value!r} is none of low (1), normal (2), high (3), critical (4)"
            )
        return known[key]

    @staticmethod
    def check_attempts(value: int) -> int:
        if isinstance(value, bool) or not isinstance(value, int):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidActivity("max_attempts", f"{value!r} is not a whole number")
        if not 0 <= value <= MAX_ATTEMPTS:
            raise InvalidActivity(
                "max_attempts", f"{value} is not within 0 (no limit) to {MAX_ATTEMPTS:,}"
            )
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivityBuilder(Generic[R]):
    """Describe an activity, then `await .execute()` for its future."""

    type: str
    options: ActivityOptions = field(default_factory=ActivityOptions)
    executor: ActivityExecutor | None = None
    decoder: Decoder[Any] = _UNTYPED
    encoded: bytes = _NULL
    delay_ms: int = 0
    due: datetime | None = None
    idempotency: Idempotency | None = None
    header_items: tuple[tuple[str, str], ...] = ()
    parent: tuple[UUID, UUID, int] | None = None
    """(root, parent, depth) when enqueued on behalf of another activity."""

    def __post_init__(self) -> None:
        try:
            check_type_name(self.type, field="type")
        except ConfigurationError as error:
            raise InvalidActivity("type", str(error).removeprefix("type: ")) from error

    def on(self, executor: ActivityExecutor) -> ActivityBuilder[R]:
        """The same, to be enqueued through `executor`."""
        return replace(self, executor=executor)

    def payload(self, value: object) -> ActivityBuilder[R]:
        """Any value JSON can carry. Raises InvalidActivity with the path of what it cannot."""
        return replace(self, encoded=encode(value, field="payload"))

    def priority(self, value: PriorityLike) -> ActivityBuilder[R]:
        """critical > high > normal > low."""
        return self._option(priority=ActivityOptions.parse_priority(value))

    def max_attempts(self, value: int) -> ActivityBuilder[R]:
        """Runs in all: 1 = no retry, 0 = no limit."""
        return self._option(max_attempts=ActivityOptions.check_attempts(value))

    def timeout(self, value: Duration) -> ActivityBuilder[R]:
        """For one attempt; seconds or timedelta, exact to the millisecond."""
        return self._option(timeout_ms=milliseconds(value, field="timeout", at_least_ms=1))

    def delay(
        self,
        value: Duration | None = None,
        *,
        seconds: float = 0,
        minutes: float = 0,
        hours: float = 0,
        days: float = 0,
    ) -> ActivityBuilder[R]:
        """Not before this long from now, on the backend's clock: seconds or a timedelta, or the sum of
        the named parts. Replaces `run_at`."""
        parts = {"seconds": seconds, "minutes": minutes, "hours": hours, "days": days}
        named = {name: part for name, part in parts.items() if part != 0}
        if value is None:
            try:
                value = timedelta(**named)
            except (TypeError, ValueError, OverflowError) as error:
                raise InvalidActivity("delay", f"{named} is not a duration: {error}") from error
        elif named:
            raise InvalidActivity("delay", f"give {value!r} or {named}, not both")
        return replace(self, delay_ms=milliseconds(value, field="delay"), due=None)

    def run_at(self, instant: datetime) -> ActivityBuilder[R]:
        """Not before this instant, which must have a time zone. Replaces `delay`."""
        if not isinstance(instant, datetime):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidActivity("run_at", f"{instant!r} is not a datetime")
        if instant.utcoffset() is None:
            raise InvalidActivity(
                "run_at", f"{instant.isoformat()} has no time zone; use e.g. datetime.now(UTC)"
            )
        return replace(self, due=instant, delay_ms=0)

    def idempotency_key(
        self,
        key: str,
        behavior: IdempotencyBehavior | str = IdempotencyBehavior.RETURN_EXISTING,
        *,
        ttl: Duration | None = None,
    ) -> ActivityBuilder[R]:
        """At most one activity of this queue and type per key.

        `behavior` when the key is held: return_existing, no_reuse (raises DuplicateActivity),
        allow_reuse (a new activity takes the key), allow_reuse_on_failure (only if the holder
        failed, else the existing one). `ttl`: how long the key is held.
        """
        try:
            parsed = IdempotencyBehavior(behavior)
        except ValueError:
            known = ", ".join(IdempotencyBehavior)
            raise InvalidActivity("behavior", f"{behavior!r} is none of {known}") from None
        if not isinstance(key, str) or not 1 <= len(key) <= MAX_KEY:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidActivity("idempotency_key", f"must be text of 1 to {MAX_KEY} characters")
        if "\x00" in key or _has_surrogate(key):
            raise InvalidActivity("idempotency_key", "must be text without NUL or lone surrogates")
        ttl_ms = None if ttl is None else milliseconds(ttl, field="ttl", at_least_ms=1)
        return replace(self, idempotency=Idempotency(key=key, behavior=parsed, ttl_ms=ttl_ms))

    def headers(self, values: Mapping[str, str]) -> ActivityBuilder[R]:
        """Small strings that travel with the activity, e.g. a trace context. Replaces earlier ones."""
        if not isinstance(values, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidActivity("headers", f"{values!r} is not a mapping of names to values")
        for name, value in values.items():
            if not isinstance(name, str) or not isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise InvalidActivity(f"headers[{name!r}]", "names and values must be strings")
        data = encode(dict(values), field="headers")
        if len(data) > MAX_HEADERS_BYTES:
            raise InvalidActivity(
                "headers", f"are {len(data):,} bytes, the limit is {MAX_HEADERS_BYTES:,}"
            )
        return replace(self, header_items=tuple(values.items()))

    async def execute(self) -> ActivityFuture[R]:
        """Enqueue. Returns once the backend holds it.

        Raises DuplicateActivity (no_reuse), BackendUnavailable when the backend did not answer.
        """
        if self.executor is None:
            raise ConfigurationError(
                f"this builder of {self.type!r} has no executor; use `.on(executor).execute()` or "
                "`executor.execute(builder)`"
            )
        return await self.executor.execute(self)

    def spec(self, activity_id: UUID) -> ActivitySpec:
        """The stored form under the given id."""
        root, parent, depth = self.parent or (None, None, 0)
        return ActivitySpec(
            id=activity_id,
            type=self.type,
            payload=self.encoded,
            priority=self.options.priority,
            max_attempts=self.options.max_attempts,
            timeout_ms=self.options.timeout_ms,
            delay_ms=self.delay_ms,
            run_at=self.due,
            idempotency=self.idempotency,
            headers=dict(self.header_items),
            root_id=root,
            parent_id=parent,
            depth=depth,
        )

    def _option(self, **changes: Any) -> ActivityBuilder[R]:
        return replace(self, options=replace(self.options, **changes))


def _has_surrogate(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)

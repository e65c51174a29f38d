"""The lease by which one of several operators leads: a pure value, time comes in as a parameter.

It never reads a clock and never compares clocks of two machines: another holder's lease counts from the
moment *this* process saw it change, on this process's monotonic clock.

    free | expired | released --take--> mine --renew every 2 s--> mine --not renewed for 10 s--> lost
    another's --unchanged for 15 s--> expired          mine --release--> released
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

_MICRO_TIME = "%Y-%m-%dT%H:%M:%S.%fZ"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTimes:
    """The three durations, in seconds, with the relations that make them safe.

    A leader stops writing `lease - renew_deadline` before anyone else may start.
    """

    lease: float = 15.0
    """How long others leave an unchanged lease to its holder."""
    renew_deadline: float = 10.0
    """How long a leader trusts its last renewal."""
    retry: float = 2.0
    """How long between two attempts to take or to renew."""

    def __post_init__(self) -> None:
        if not self.lease > self.renew_deadline > self.retry > 0:
            raise ValueError(
                "lease times: lease > renew_deadline > retry > 0 is needed, got "
                f"{self.lease}, {self.renew_deadline}, {self.retry}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRecord:
    """The content of a Lease object, as far as it matters here. `holder` "" means released."""

    holder: str
    duration: int
    """Whole seconds, as the API has them."""
    acquired_at: datetime | None = None
    renewed_at: datetime | None = None
    transitions: int = 0

    @classmethod
    def from_spec(cls, spec: dict[str, Any]) -> LeaseRecord:
        """From a Lease's `spec`, in which everything may be absent."""
        return cls(
            holder=spec.get("holderIdentity") or "",
            duration=spec.get("leaseDurationSeconds") or 0,
            acquired_at=_instant(spec.get("acquireTime")),
            renewed_at=_instant(spec.get("renewTime")),
            transitions=spec.get("leaseTransitions") or 0,
        )

    def spec(self) -> dict[str, Any]:
        """As a Lease's `spec`."""
        spec: dict[str, Any] = {
            "holderIdentity": self.holder,
            "leaseDurationSeconds": self.duration,
            "leaseTransitions": self.transitions,
        }
        if self.acquired_at is not None:
            spec["acquireTime"] = self.acquired_at.strftime(_MICRO_TIME)
        if self.renewed_at is not None:
            spec["renewTime"] = self.renewed_at.strftime(_MICRO_TIME)
        return spec


@dataclass(frozen=True, slots=True)
class Sighting:
    """A lease as it was last seen to change. `seen_at` is monotonic, of this process."""

    record: LeaseRecord
    seen_at: float

    def after(self, record: LeaseRecord, now: float) -> Sighting:
        """The sighting once `record` was read at `now`: an unchanged record keeps its moment."""
        return self if record == self.record else Sighting(record, now)

    def held_by_another(self, identity: str, now: float, times: LeaseTimes) -> bool:
        """Whether somebody else's lease must still be respected."""
        if self.record.holder in ("", identity):
            return False
        return now < self.ends_at(times)

    def ends_at(self, times: LeaseTimes) -> float:
        """When the lease expires unless it is seen to change before.

        The holder's own duration counts where it is longer than ours: an operator of another version
        may have been configured differently.
        """
        return self.seen_at + max(times.lease, float(self.record.duration))


NOTHING_SEEN: Final = Sighting(LeaseRecord(holder="", duration=0), 0.0)
"""Before the first read."""


def taken(
    previous: LeaseRecord | None, identity: str, wall: datetime, times: LeaseTimes
) -> LeaseRecord:
    """The record to write in order to take or to renew the lease at the wall-clock time `wall`.

    Renewing keeps when it was acquired; taking it from another counts a transition.
    """
    wall = wall.astimezone(UTC)
    duration = int(times.lease)
    if previous is None:
        return LeaseRecord(holder=identity, duration=duration, acquired_at=wall, renewed_at=wall)
    if previous.holder == identity:
        return replace(previous, duration=duration, renewed_at=wall)
    return LeaseRecord(
        holder=identity,
        duration=duration,
        acquired_at=wall,
        renewed_at=wall,
        transitions=previous.transitions + 1,
    )


def released(record: LeaseRecord, wall: datetime) -> LeaseRecord:
    """The record to write so that another may take the lease at once."""
    return replace(record, holder="", duration=1, renewed_at=wall.astimezone(UTC))


def _instant(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)

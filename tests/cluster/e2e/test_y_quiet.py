"""A steady state is quiet: nothing is written to the API server while nothing changes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tests.cluster.audit import AuditEvent
from tests.cluster.e2e.installation import Installation
from tests.cluster.e2e.place import Place
from tests.cluster.waiting import eventually

QUIET_SECONDS = 25


def test_nothing_is_written_while_nothing_changes(installation: Installation, place: Place):
    """Several queues at zero; the Lease alone is renewed."""
    assert len(place.get("rq")["items"]) >= 2

    started = datetime.now(UTC)

    def quiet_for() -> timedelta:
        return datetime.now(UTC) - max([started, *(event.at for event in writes(installation))])

    eventually(
        lambda: quiet_for() > timedelta(seconds=QUIET_SECONDS),
        seconds=90,
        every=1.0,
        what=f"{QUIET_SECONDS} s without a write",
        detail=lambda: "\n".join(
            f"{event.at} {event.verb} {event.resource}/{event.subresource} {event.name}"
            for event in writes(installation)[-20:]
        ),
    )
    # Quiet, not dead: the demand was read and the Lease renewed all the while.
    renewed = [e for e in installation.requests() if e.resource == "leases" and e.writes]
    assert datetime.now(UTC) - renewed[-1].at < timedelta(seconds=5)


def writes(installation: Installation) -> list[AuditEvent]:
    return [e for e in installation.requests() if e.writes and e.resource != "leases"]

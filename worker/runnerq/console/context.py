"""What the handlers of one console share."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from runnerq.console.auth import Auth
    from runnerq.console.hub import Hub
    from runnerq.console.metrics import ConsoleMetrics
    from runnerq.console.reads import Reads


class Console(NamedTuple):
    reads: Reads
    hub: Hub
    metrics: ConsoleMetrics
    auth: Auth
    hosts: frozenset[str] | None
    """Host names that this console answers to; None for any."""

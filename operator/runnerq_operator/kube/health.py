"""/metrics, /healthz and /readyz of the operator.

Served from the event loop on purpose: an operator whose loop hangs must be restarted. Unhealthy is what a
restart may cure: a watch that stays silent although it was opened anew, a loop that no longer passes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from runnerq_operator.kube.kinds import QUEUE

if TYPE_CHECKING:
    from runnerq_operator.kube.caches import Caches
    from runnerq_operator.kube.leadership import Leadership
    from runnerq_operator.kube.watches import WatchAges

WATCH_LIMIT_SECONDS = 180.0
"""A silent watch is opened anew after 70 s; one that has had two chances is not coming back."""
RECONCILE_LIMIT_SECONDS = 600.0
"""Twice the longest tick that a queue may have."""


class Progress:
    """When the leader last finished a pass, and whether it has anything to pass over."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last: float | None = None

    def started(self) -> None:
        """Leading begins: the age counts from now."""
        self._last = self._clock()

    def passed(self) -> None:
        """A pass over some object ended, well or not."""
        self._last = self._clock()

    def ended(self) -> None:
        """Leading ends: there is no age."""
        self._last = None

    def age(self) -> float | None:
        """Seconds since the last pass; None when this replica does not lead."""
        return None if self._last is None else self._clock() - self._last


class Health:
    """Judges the process and serves the verdict."""

    def __init__(
        self,
        registry: CollectorRegistry,
        caches: Caches,
        ages: WatchAges,
        leadership: Leadership,
        progress: Progress,
    ) -> None:
        self._registry = registry
        self._caches = caches
        self._ages = ages
        self._leadership = leadership
        self._progress = progress

    def app(self) -> web.Application:
        """The three routes."""
        app = web.Application()
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        return app

    def problems(self) -> list[str]:
        """What is wrong and a restart may cure; [] = healthy."""
        found = [
            f"the watch of {plural}{' in ' + namespace if namespace else ''} has been silent for "
            f"{age:.0f} s"
            for (plural, namespace), age in self._ages.ages().items()
            if age > WATCH_LIMIT_SECONDS
        ]
        age = self._progress.age()
        if age is not None and age > RECONCILE_LIMIT_SECONDS and len(self._caches[QUEUE]):
            found.append(f"the last pass over a queue ended {age:.0f} s ago")
        return found

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(
            body=generate_latest(self._registry), headers={"Content-Type": CONTENT_TYPE_LATEST}
        )

    async def _healthz(self, _: web.Request) -> web.Response:
        problems = self.problems()
        age = self._progress.age()
        body = {
            "healthy": not problems,
            "problems": problems,
            "leading": self._leadership.leading,
            "watchAgeSeconds": {
                f"{namespace}/{plural}" if namespace else plural: round(seconds, 1)
                for (plural, namespace), seconds in self._ages.ages().items()
            },
            "lastReconcileAgeSeconds": None if age is None else round(age, 1),
        }
        return web.Response(
            status=503 if problems else 200,
            body=msgspec.json.encode(body),
            content_type="application/json",
        )

    async def _readyz(self, _: web.Request) -> web.Response:
        if not self._caches.synced:
            return web.Response(status=503, text="the cluster's objects have not all been listed\n")
        return web.Response(text="ready\n")

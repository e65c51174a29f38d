"""/metrics, /healthz and /readyz of the operator.

Served from the event loop on purpose: an operator whose loop hangs must be restarted. Unhealthy is what a
restart may cure: a watch that stays silent although it was opened anew, a loop that no longer passes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

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


class Term(Protocol):
    """One term of leadership, as far as its health goes."""

    @property
    def registry(self) -> CollectorRegistry:
        """Metrics that end with the term."""
        ...

    def reconcile_age(self) -> float:
        """Seconds since a pass last ended well, or since the term began."""
        ...


class Health:
    """Judges the process and serves the verdict."""

    def __init__(
        self,
        registry: CollectorRegistry,
        caches: Caches,
        ages: WatchAges,
        leadership: Leadership,
    ) -> None:
        self._registry = registry
        self._caches = caches
        self._ages = ages
        self._leadership = leadership
        self.term: Term | None = None
        """Set by whoever leads, for as long as it does."""

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
        age = self._reconcile_age()
        if age is not None and age > RECONCILE_LIMIT_SECONDS and len(self._caches[QUEUE]):
            found.append(f"the last pass over a queue ended {age:.0f} s ago")
        return found

    def _reconcile_age(self) -> float | None:
        return None if self.term is None else self.term.reconcile_age()

    async def _metrics(self, _: web.Request) -> web.Response:
        body = generate_latest(self._registry)
        if self.term is not None:
            body += generate_latest(self.term.registry)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _healthz(self, _: web.Request) -> web.Response:
        problems = self.problems()
        age = self._reconcile_age()
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

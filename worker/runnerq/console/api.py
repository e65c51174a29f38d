"""REST: the routes under /api/observability, read-only but for the requeue of dead letters.

Handlers parse, ask and shape; nothing here decides. Every parameter that is wrong is answered with 400
and its name; a backend that does not answer with 503, never with zeros.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING
from uuid import UUID

import msgspec
from aiohttp import web

from runnerq.console.access import principal_of, require
from runnerq.console.auth import Role
from runnerq.console.metrics import installed_version
from runnerq.console.problems import Problem, bad_request
from runnerq.console.reads import DECISIONS
from runnerq.console.topics import decisions_topic, pools_topic, stats_topic, workers_topic
from runnerq.documents import (
    encode,
    event_document,
    result_document,
    snapshot_document,
    unfinished_document,
)
from runnerq.patterns import TYPE_NAME
from runnerq.storage.records import ActivityState

if TYPE_CHECKING:
    from runnerq.console.context import Console

logger = logging.getLogger(__name__)

DEFAULT_LIMIT = 50
MAX_LIMIT = 200
MAX_REQUEUE = 1_000

_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_STATES = {state.value: state for state in ActivityState}


class RequeueRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Body of POST /dead-letter/requeue."""

    ids: list[UUID]


class ObservabilityApi:
    """The handlers of one console."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._reads = console.reads

    def routes(self, prefix: str = "") -> list[web.RouteDef]:
        return [
            web.get(f"{prefix}/session", self.session),
            web.get(f"{prefix}/queues", self.queues),
            web.get(f"{prefix}/stats", self.stats),
            web.get(f"{prefix}/series", self.series),
            web.get(f"{prefix}/pools", self.pools),
            web.get(f"{prefix}/workers", self.workers),
            web.get(f"{prefix}/decisions", self.decisions),
            web.get(f"{prefix}/activities/{{key}}", self.activities),
            web.get(f"{prefix}/activities/{{id}}/events", self.events),
            web.get(f"{prefix}/activities/{{id}}/result", self.result),
            web.get(f"{prefix}/dead-letter", self.dead_letter),
            web.post(f"{prefix}/dead-letter/requeue", self.requeue),
        ]

    async def session(self, request: web.Request) -> web.Response:
        """Who is asking, and what this console is."""
        principal = principal_of(request)
        return _json(
            {
                "name": principal.name,
                "role": principal.role.name.lower(),
                "login": self._console.auth.login,
                "queue": self._reads.queue,
                "version": installed_version(),
            }
        )

    async def queues(self, request: web.Request) -> web.Response:
        names = await self._reads.queues()
        return _json(
            {"queues": [{"name": name, "default": name == self._reads.queue} for name in names]}
        )

    async def stats(self, request: web.Request) -> web.Response:
        queue = await self._queue(request)
        stats = await self._reads.ask("stats", self._reads.backend.stats(queue))
        demand = await self._reads.demand(queue)
        return _json(stats_topic(stats, demand, self._console.hub.watch(queue).sampler.rate))

    async def series(self, request: web.Request) -> web.Response:
        queue = await self._queue(request)
        return _json({"queue": queue, **self._console.hub.watch(queue).sampler.series.document()})

    async def pools(self, request: web.Request) -> web.Response:
        queue = await self._queue(request)
        backend = self._reads.backend
        demand = await self._reads.demand(queue)
        pods = await self._reads.ask("pods", backend.pods(queue))
        decisions = await self._reads.ask("decisions", backend.decisions(queue, limit=DECISIONS))
        return _json(pools_topic(demand, pods, decisions))

    async def workers(self, request: web.Request) -> web.Response:
        queue = await self._queue(request)
        return _json(workers_topic(await self._reads.demand(queue)))

    async def decisions(self, request: web.Request) -> web.Response:
        queue = await self._queue(request)
        pool = request.query.get("pool")
        answer = self._reads.backend.decisions(queue, pool=pool, limit=_limit(request))
        return _json(decisions_topic(queue, await self._reads.ask("decisions", answer)))

    async def activities(self, request: web.Request) -> web.Response:
        """A state's name lists, a UUID fetches."""
        key = request.match_info["key"]
        if _UUID.fullmatch(key):
            return await self._fetch(request, UUID(key))
        state = _STATES.get(key)
        if state is None:
            raise bad_request(
                "status",
                f"{key!r} is neither an activity's UUID nor one of {', '.join(_STATES)}",
            )
        return await self._list(request, state)

    async def dead_letter(self, request: web.Request) -> web.Response:
        return await self._list(request, ActivityState.DEAD_LETTER)

    async def events(self, request: web.Request) -> web.Response:
        queue, activity_id = await self._queue(request), _id(request)
        answer = self._reads.backend.get_activity_events(queue, activity_id)
        events = await self._reads.ask("events", answer)
        return _json(
            {"id": str(activity_id), "events": [event_document(event) for event in events]}
        )

    async def result(self, request: web.Request) -> web.Response:
        queue, activity_id = await self._queue(request), _id(request)
        backend = self._reads.backend
        result = await self._reads.ask("result", backend.get_result(queue, activity_id))
        if result is not None:
            return _json(result_document(result))
        snapshot = await self._reads.ask("activity", backend.get_activity(queue, activity_id))
        if snapshot.status.terminal:
            # It ended between the two reads.
            result = await self._reads.ask("result", backend.get_result(queue, activity_id))
        if result is not None:
            return _json(result_document(result))
        return _json(unfinished_document(activity_id, snapshot.status))

    async def requeue(self, request: web.Request) -> web.Response:
        """Dead letters back to pending; per id whether it was one."""
        action = "requeue"
        counter = self._console.metrics.actions
        try:
            principal = require(request, Role.OPERATOR)
        except Problem:
            counter.labels(action, principal_of(request).role.name.lower(), "denied").inc()
            raise
        role = principal.role.name.lower()
        queue = await self._queue(request)
        ids = (await _body(request)).ids
        if not 1 <= len(ids) <= MAX_REQUEUE:
            raise bad_request("ids", f"has {len(ids)} entries; give 1 to {MAX_REQUEUE}")
        try:
            answer = self._reads.backend.requeue_dead_letters(queue, ids, actor=principal.name)
            done = await self._reads.ask(action, answer)
        except Problem:
            counter.labels(action, role, "error").inc()
            raise
        counter.labels(action, role, "ok").inc()
        logger.info("%s requeued %d of %d in %r", principal.name, sum(done), len(ids), queue)
        return _json(
            {
                "queue": queue,
                "requeued": sum(done),
                "results": [
                    {"id": str(activity_id), "requeued": moved}
                    for activity_id, moved in zip(ids, done, strict=True)
                ],
            }
        )

    async def _list(self, request: web.Request, state: ActivityState) -> web.Response:
        activity_type = request.query.get("type") or None
        if activity_type is not None and not TYPE_NAME.fullmatch(activity_type):
            raise bad_request("type", f"{activity_type!r} is not the name of an activity type")
        limit = _limit(request)
        queue = await self._queue(request)
        answer = self._reads.backend.list_activities(
            queue,
            state,
            limit=limit,
            cursor=request.query.get("cursor") or None,
            activity_type=activity_type,
        )
        try:
            page = await self._reads.ask("list", answer)
        except ValueError as error:
            raise bad_request("cursor", str(error)) from error
        return _json(
            {
                "queue": queue,
                "status": state.value,
                "items": [snapshot_document(item, whole=False) for item in page.items],
                "next_cursor": page.next_cursor,
            }
        )

    async def _fetch(self, request: web.Request, activity_id: UUID) -> web.Response:
        queue = await self._queue(request)
        answer = self._reads.backend.get_activity(queue, activity_id)
        return _json(snapshot_document(await self._reads.ask("activity", answer)))

    async def _queue(self, request: web.Request) -> str:
        return await self._reads.known_queue(request.query.get("queue"))


def _json(document: object) -> web.Response:
    return web.Response(
        body=encode(document),
        content_type="application/json",
        headers={"Cache-Control": "no-store"},
    )


def _id(request: web.Request) -> UUID:
    text = request.match_info["id"]
    if not _UUID.fullmatch(text):
        raise bad_request("id", f"{text!r} is not a UUID")
    return UUID(text)


def _limit(request: web.Request) -> int:
    text = request.query.get("limit")
    if text is None:
        return DEFAULT_LIMIT
    if not (text.isascii() and text.isdigit() and len(text) < 6 and 1 <= int(text) <= MAX_LIMIT):
        raise bad_request("limit", f"{text!r} is not a whole number from 1 to {MAX_LIMIT}")
    return int(text)


async def _body(request: web.Request) -> RequeueRequest:
    if request.content_type != "application/json":
        raise Problem(
            415,
            "unsupported_media_type",
            f"Content-Type: {request.content_type} is not application/json",
            field="Content-Type",
        )
    try:
        return msgspec.json.decode(await request.read(), type=RequeueRequest)
    except msgspec.DecodeError as error:
        raise bad_request("body", f'{error}; expected {{"ids": ["<uuid>", ...]}}') from error

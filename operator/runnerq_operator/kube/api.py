"""Calls to the API server, on the official client's transport: one method per verb, JSON in and out.

Every write first asks whether this operator may write, and never waits longer than it may. Errors come
out as the few kinds that callers tell apart, in the API server's own words. It retries nothing: the
loops above are level-triggered and come again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import aiohttp
import msgspec

if TYPE_CHECKING:
    from runnerq_operator.kube.kinds import Kind
    from runnerq_operator.kube.objects import Object

CONNECT_SECONDS = 10.0
REQUEST_SECONDS = 15.0


class ApiError(Exception):
    """The API server said no. `code` is the HTTP status, the message its own words."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message or reason or f"HTTP status {code}")
        self.code = code
        self.reason = reason


class NotFound(ApiError):
    """There is no such object (any more), or its kind is not installed."""


class Conflict(ApiError):
    """The object changed since it was read, exists already, or another manager owns a field."""


class Invalid(ApiError):
    """The object cannot be stored as it is (400, 422), or policy forbids it (403 with a reason)."""


class Forbidden(ApiError):
    """The service account lacks the right."""


class Unreachable(Exception):
    """The API server did not answer, or asks to come later; nothing is known about the effect."""


class RequestObserver(Protocol):
    """Told about each call, for the metrics."""

    def request(self, verb: str, resource: str, code: str, seconds: float) -> None: ...


class Answer(Protocol):
    """What the official client's transport gives back."""

    status: int

    async def read(self) -> bytes: ...


class Transport(Protocol):
    """The part of the official client that is used: it adds the credentials and sends."""

    async def param_serialize(
        self,
        *,
        method: str,
        resource_path: str,
        query_params: list[tuple[str, str]],
        header_params: dict[str, str],
        body: Object | None,
        auth_settings: list[str],
    ) -> tuple[str, str, dict[str, str], Any, Any]: ...

    async def call_api(
        self,
        method: str,
        url: str,
        *,
        header_params: dict[str, str],
        body: Any,
        _request_timeout: aiohttp.ClientTimeout,
    ) -> Answer: ...

    async def close(self) -> None: ...


class KubeApi:
    """The API server, for whoever has the right to write by `may_write`.

    `may_write` returns the seconds a write may take and raises when there are none.
    """

    def __init__(
        self, client: Transport, *, may_write: Callable[[], float], observer: RequestObserver
    ) -> None:
        self._client = client
        self._may_write = may_write
        self._observer = observer

    async def get(self, kind: Kind, namespace: str, name: str) -> Object:
        """One object. Raises NotFound."""
        return await self._call("get", kind, namespace, name)

    async def list_all(
        self, kind: Kind, namespace: str | None, *, labels: str = ""
    ) -> tuple[list[Object], str]:
        """All objects of a namespace (None: of all), and the version of the list."""
        query = {"labelSelector": labels} if labels else {}
        answer = await self._call("list", kind, namespace, query=query)
        items: list[Object] = answer.get("items") or []
        return items, answer["metadata"]["resourceVersion"]

    async def create(self, kind: Kind, namespace: str, body: Object, *, manager: str) -> Object:
        """Create an object. Raises Conflict when there is one of that name."""
        query = {"fieldManager": manager}
        return await self._call("create", kind, namespace, body=body, query=query)

    async def apply(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        body: Object,
        *,
        manager: str,
        force: bool = False,
        subresource: str = "",
        dry_run: bool = False,
    ) -> Object:
        """Server-side apply: `body` is all that `manager` wants to own of the object.

        Raises Conflict when another manager owns a field with another value and `force` is off, or
        when `body` carries a resourceVersion that is no longer the current one.
        """
        query = {"fieldManager": manager, "force": "true" if force else "false"}
        if dry_run:
            query["dryRun"] = "All"
        complete = {"apiVersion": kind.api_version, "kind": kind.name, **body}
        return await self._call(
            "patch",
            kind,
            namespace,
            name,
            subresource=subresource,
            body=complete,
            query=query,
            content="application/apply-patch+yaml",
        )

    async def merge(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        body: Object,
        *,
        manager: str,
        subresource: str = "",
    ) -> Object:
        """Merge patch: change what is in `body`, remove what is null in it."""
        return await self._call(
            "patch",
            kind,
            namespace,
            name,
            subresource=subresource,
            body=body,
            query={"fieldManager": manager},
            content="application/merge-patch+json",
        )

    async def replace(
        self, kind: Kind, namespace: str, name: str, body: Object, *, manager: str
    ) -> Object:
        """Replace an object; a resourceVersion in `body` must be the current one."""
        query = {"fieldManager": manager}
        return await self._call("update", kind, namespace, name, body=body, query=query)

    async def delete(self, kind: Kind, namespace: str, name: str, *, uid: str) -> None:
        """Delete exactly the object of this uid, its dependents in the background. Raises NotFound;
        Conflict when another object took the name."""
        body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": uid},
            "propagationPolicy": "Background",
        }
        await self._call("delete", kind, namespace, name, body=body)

    async def _call(
        self,
        verb: str,
        kind: Kind,
        namespace: str | None,
        name: str = "",
        *,
        subresource: str = "",
        query: Mapping[str, str] | None = None,
        body: Object | None = None,
        content: str = "application/json",
    ) -> Object:
        limit = REQUEST_SECONDS
        if verb not in ("get", "list"):
            limit = min(limit, self._may_write())
        resource = f"{kind.plural}/{subresource}" if subresource else kind.plural
        started = time.monotonic()
        code = "none"
        try:
            status, answer = await self._send(
                _METHODS[verb],
                kind.path(namespace, name, subresource),
                query=query,
                body=body,
                content=content,
                limit=limit,
            )
            code = str(status)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise Unreachable(
                f"no answer to {verb} {resource}: {error or type(error).__name__}"
            ) from error
        finally:
            self._observer.request(verb, resource, code, time.monotonic() - started)
        if status >= 300:
            raise _refusal(status, answer)
        return answer

    async def _send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None,
        body: Object | None,
        content: str,
        limit: float,
    ) -> tuple[int, Object]:
        _, url, headers, data, _ = await self._client.param_serialize(
            method=method,
            resource_path=path,
            query_params=list((query or {}).items()),
            header_params={"Accept": "application/json", "Content-Type": content},
            body=body,
            auth_settings=["BearerToken"],
        )
        response = await self._client.call_api(
            method,
            url,
            header_params=headers,
            body=data,
            _request_timeout=aiohttp.ClientTimeout(
                total=limit, sock_connect=min(limit, CONNECT_SECONDS)
            ),
        )
        text = await response.read()
        # Anything but a JSON object (a proxy's page) raises ValidationError, a ValueError.
        answer = msgspec.json.decode(text, type=dict[str, Any]) if text else {}
        return response.status, answer


_METHODS = {
    "get": "GET",
    "list": "GET",
    "create": "POST",
    "patch": "PATCH",
    "update": "PUT",
    "delete": "DELETE",
}


def _refusal(status: int, answer: Object) -> Exception:
    reason = str(answer.get("reason") or "")
    message = str(answer.get("message") or "")
    if status == 500 and "failed to create typed patch object" in message:
        # Server-side apply answers so to a field that the kind does not have.
        return Invalid(status, reason, message)
    if status == 429 or status >= 500:
        return Unreachable(f"the API server answered {status}: {message or reason}")
    if status == 403:
        # A quota, a policy or pod security also answers 403: then it is the object that is refused.
        # A missing right is always worded so by the authorizer.
        missing_right = " cannot " in message
        return (Forbidden if missing_right else Invalid)(status, reason, message)
    kinds = {404: NotFound, 409: Conflict, 400: Invalid, 422: Invalid}
    return kinds.get(status, ApiError)(status, reason, message)

"""Access: the one gate in front of every route, page and API alike.

Order matters: which host was asked for, then who asks, then whether the role is enough and whether
another site caused it. What is not listed as open needs a principal; a new route is closed by itself.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from aiohttp import web

from runnerq.console.auth import Principal, Role, check_origin
from runnerq.console.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Set

    from aiohttp.typedefs import Handler, Middleware

    from runnerq.console.context import Console

logger = logging.getLogger(__name__)

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})

CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        # No sink that makes markup of text works at all, so stored text cannot become script.
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)

HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}

PRINCIPAL: web.RequestKey[Principal] = web.RequestKey("principal", Principal)


def principal_of(request: web.Request) -> Principal:
    """Who sent a request that came through the gate."""
    return request[PRINCIPAL]


def access_middleware(
    console: Console,
    *,
    opened: Set[web.AbstractResource],
    unauthenticated: Callable[[web.Request], web.Response],
) -> Middleware:
    """`opened` are the resources that ask for nobody; `unauthenticated` answers to nobody."""

    @web.middleware
    async def gate(request: web.Request, handler: Handler) -> web.StreamResponse:
        _check_host(console, request)
        resource = request.match_info.route.resource
        if resource in opened:
            return await handler(request)
        principal = identify(console, request)
        if principal is None:
            return unauthenticated(request)
        request[PRINCIPAL] = principal
        if request.method not in SAFE_METHODS:
            check_same_site(request, principal)
        return await handler(request)

    return gate


def identify(console: Console, request: web.Request) -> Principal | None:
    session = request.cookies.get(console.auth.cookie) if console.auth.cookie else None
    return console.auth.identify(request.headers.get("Authorization"), session)


def check_same_site(request: web.Request, principal: Principal) -> None:
    """Refuse what another site's page made a browser send."""
    forwarded = request.headers.get("X-Forwarded-Host", "").split(",")
    hosts = tuple(host.strip() for host in (request.host, *forwarded) if host.strip())
    why = check_origin(request.headers, principal, scheme_hosts=hosts)
    if why is not None:
        logger.warning("refused %s %s: %s", request.method, request.path, why)
        raise Problem(403, "cross_site", f"refused as sent by another site: {why}")


def require(request: web.Request, role: Role) -> Principal:
    """The principal, if its role is enough; a Problem otherwise."""
    principal = principal_of(request)
    if principal.role < role:
        message = (
            f"this needs the role {role.name.lower()}, and {principal.name} has the role "
            f"{principal.role.name.lower()}"
        )
        raise Problem(403, "forbidden", message)
    return principal


def seconds_left(principal: Principal) -> float | None:
    """How long a session still holds; None without an end."""
    return None if principal.expires is None else max(0.0, principal.expires - time.time())


async def add_headers(request: web.Request, response: web.StreamResponse) -> None:
    """On every answer, streams and errors included."""
    response.headers["Server"] = "runnerq"
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)


def _check_host(console: Console, request: web.Request) -> None:
    # Without a login, a page whose name was rebound to 127.0.0.1 would be "same origin"; its Host
    # header still says whose page it is.
    if console.hosts is None:
        return
    host = request.host.rsplit(":", 1)[0] if not request.host.endswith("]") else request.host
    name = host.strip("[]").rstrip(".").lower()
    if name not in console.hosts and not name.endswith(".localhost"):
        message = (
            f"Host: {host!r} is not a name of this console; set auth by token, or allow the name "
            "with --allowed-host"
        )
        raise Problem(421, "wrong_host", message, field="Host")

"""The page and the login: static files, and the exchange of a token for a session.

Every address that leaves here is relative, so one build works under any prefix, behind a proxy that
strips it and behind one that does not. The login works without script.
"""

from __future__ import annotations

import html
import logging
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING

from aiohttp import web

from runnerq.console.access import check_same_site, identify
from runnerq.console.auth import SESSION_SECONDS, Principal, Role
from runnerq.console.problems import Problem

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    from runnerq.console.context import Console

logger = logging.getLogger(__name__)

_TYPES = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
}
_NOBODY = Principal("nobody", Role.VIEWER)


class Page:
    """Serves the files that came with the package; nothing outside of that list can be asked for."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._files = dict(_read_all(files("runnerq.console") / "static"))
        self._tags = {
            name: f'"{sha256(body).hexdigest()[:20]}"' for name, body in self._files.items()
        }

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("", self.index),
            web.get("/", self.index),
            web.get("/static/{name}", self.static),
            web.post("/login", self.login),
            web.post("/logout", self.logout),
        ]

    async def index(self, request: web.Request) -> web.Response:
        """The page, or the login. Relative addresses need a slash at the end: mounted at `/ops/rq`,
        it sends the browser on to `/ops/rq/`."""
        path = request.rel_url.raw_path
        if not path.endswith("/"):
            last = path.rsplit("/", 1)[-1]
            return web.Response(status=308, headers={"Location": f"{last}/"})
        if identify(self._console, request) is None:
            return self.login_form()
        return self._file(request, "index.html")

    async def static(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if name not in self._files or name.endswith(".html"):
            raise web.HTTPNotFound
        return self._file(request, name)

    async def login(self, request: web.Request) -> web.Response:
        """A form field `token` for the session cookie; then back to the page."""
        check_same_site(request, _NOBODY)
        form = await request.post()
        token = form.get("token")
        session = self._console.auth.open_session(token) if isinstance(token, str) else None
        if session is None:
            logger.warning("refused a login from %s", request.remote)
            return self.login_form("This token is not valid.")
        response = web.Response(status=303, headers={"Location": "./"})
        response.set_cookie(
            self._console.auth.cookie,
            session,
            max_age=SESSION_SECONDS,
            # Behind a proxy that strips a prefix the browser's path is not known here.
            path="/",
            httponly=True,
            samesite="Strict",
            secure=request.secure or request.headers.get("X-Forwarded-Proto") == "https",
        )
        return response

    async def logout(self, request: web.Request) -> web.Response:
        check_same_site(request, _NOBODY)
        response = web.Response(status=303, headers={"Location": "./"})
        if self._console.auth.cookie:
            response.del_cookie(self._console.auth.cookie, path="/")
        return response

    def login_form(self, message: str = "") -> web.Response:
        """401 with a form: what somebody without a session gets instead of the page."""
        body = self._files["login.html"].decode()
        body = body.replace("{{message}}", html.escape(message))
        return web.Response(
            status=401,
            text=body,
            content_type="text/html",
            headers={"Cache-Control": "no-store"},
        )

    def _file(self, request: web.Request, name: str) -> web.Response:
        # Asked for at every load, sent only when changed: an upgrade shows at once.
        headers = {"Cache-Control": "no-cache", "ETag": self._tags[name]}
        if request.headers.get("If-None-Match") == self._tags[name]:
            return web.Response(status=304, headers=headers)
        suffix = name[name.rfind(".") :]
        return web.Response(
            body=self._files[name],
            content_type=_TYPES[suffix],
            charset="utf-8",
            headers=headers,
        )


def unauthenticated(request: web.Request) -> web.Response:
    """For whoever asks without a token; says how to send one."""
    message = (
        "send the header Authorization: Bearer <token>; a browser logs in at the console's page"
    )
    return Problem(
        401, "unauthenticated", message, headers={"WWW-Authenticate": 'Bearer realm="runnerq"'}
    ).response()


def _read_all(directory: Traversable) -> list[tuple[str, bytes]]:
    return [
        (entry.name, entry.read_bytes())
        for entry in directory.iterdir()
        if entry.name[entry.name.rfind(".") :] in _TYPES
    ]

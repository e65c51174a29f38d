"""What goes wrong, as the API says it: one JSON shape for every error.

    {"error": {"code": "not_found", "message": "...", "field": null}}

Maps what storage raises to a status: a backend that does not answer is 503, a slow one 504, never an
empty answer. Passwords in connection strings do not leave the process.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING

from aiohttp import web

from runnerq.documents import encode
from runnerq.errors import (
    ActivityNotFound,
    BackendUnavailable,
    CapabilityMissing,
    RunnerQError,
    SchemaMismatch,
    StorageError,
)

if TYPE_CHECKING:
    from aiohttp.typedefs import Handler

    from runnerq.documents import Document

logger = logging.getLogger(__name__)

_CREDENTIALS = re.compile(r"//[^/@\s]*@")


class Problem(Exception):
    """An answer that is an error. `field` names the parameter that was wrong."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        field: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        self.message = _CREDENTIALS.sub("//***@", message)
        super().__init__(self.message)
        self.status = status
        self.code = code
        self.field = field
        self.headers = headers or {}

    def document(self) -> Document:
        return {"error": {"code": self.code, "message": self.message, "field": self.field}}

    def response(self) -> web.Response:
        return web.Response(
            status=self.status,
            body=encode(self.document()),
            content_type="application/json",
            headers={"Cache-Control": "no-store", **self.headers},
        )


def bad_request(field: str, message: str) -> Problem:
    return Problem(400, "bad_request", f"{field}: {message}", field=field)


def from_error(error: RunnerQError | TimeoutError) -> Problem:
    """The answer to what a read or an action raised."""
    match error:
        case ActivityNotFound():
            return Problem(404, "not_found", str(error), field="id")
        case BackendUnavailable():
            message = f"the backend does not answer, so nothing is known right now: {error}"
            return Problem(503, "backend_unavailable", message, headers={"Retry-After": "2"})
        case SchemaMismatch():
            return Problem(503, "schema_mismatch", f"{error}; run `runnerq migrate up`")
        case CapabilityMissing():
            return Problem(501, "not_supported", str(error))
        case StorageError():
            return Problem(502, "backend_error", f"the backend refused: {error}")
        case TimeoutError():
            message = "the backend took too long to answer; nothing is known right now"
            return Problem(504, "backend_timeout", message, headers={"Retry-After": "2"})
        case _:
            return Problem(400, "bad_request", str(error))


@web.middleware
async def problems_middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turns everything raised below into the one error shape."""
    try:
        return await handler(request)
    except Problem as problem:
        return problem.response()
    except web.HTTPException as error:
        if error.status < 400:
            raise
        return _from_http(error, request)
    except (RunnerQError, TimeoutError) as error:
        return from_error(error).response()
    except Exception:
        # The console must answer something; the cause belongs into the log, not to the browser.
        logger.exception("%s %s failed", request.method, request.path)
        message = "the console failed to answer; its log has the reason"
        return Problem(500, "internal", message).response()


def _from_http(error: web.HTTPException, request: web.Request) -> web.Response:
    match error.status:
        case 404:
            return Problem(404, "not_found", f"there is no {request.path}").response()
        case 405:
            allowed = error.headers.get("Allow", "")
            message = f"{request.method} is not allowed here, only {allowed}"
            return Problem(
                405, "method_not_allowed", message, headers={"Allow": allowed}
            ).response()
        case status:
            return Problem(status, "bad_request", error.reason).response()

"""The console: REST, live stream and page over a backend. Needs the extra `runnerq[console]`."""

from __future__ import annotations

from runnerq.console.app import create_app, observability_api, runnerq_ui
from runnerq.console.auth import Auth, HostAuth, OpenAuth, Role, TokenAuth, choose_auth
from runnerq.console.server import ConsoleServer, serve

__all__ = [
    "Auth",
    "ConsoleServer",
    "HostAuth",
    "OpenAuth",
    "Role",
    "TokenAuth",
    "choose_auth",
    "create_app",
    "observability_api",
    "runnerq_ui",
    "serve",
]

"""Who may do what on the console: tokens, sessions, roles, and which binds are allowed at all.

Closed by default: without a token nothing but health answers, and an address that other machines can
reach is refused unless somebody says `none`. Tokens are compared in constant time and are never
written to a log, a URL or an answer.

A browser's EventSource cannot send an Authorization header, so a token is exchanged for a session
cookie. Cookies ignore ports: its name is derived from the tokens, so that two consoles forwarded to
one localhost do not log each other out. A session is signed, not stored: it survives a restart, holds
on every replica, and ends with its token.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
import time
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol

from runnerq.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MIN_TOKEN_LENGTH = 8
SESSION_SECONDS = 12 * 3600


class Role(IntEnum):
    """A larger role may do all that a smaller one may."""

    VIEWER = 1
    """Reads."""
    OPERATOR = 2
    """Reads and acts: requeue."""


class Principal(NamedTuple):
    """Who sent a request."""

    name: str
    """What an action is recorded under."""
    role: Role
    expires: float | None = None
    """Unix seconds at which a session ends; None for a token."""
    by_cookie: bool = False
    """Sent by a browser on its own, so that another site may have caused it."""


class Auth(Protocol):
    @property
    def login(self) -> bool:
        """Whether there is something to log in to."""
        ...

    @property
    def cookie(self) -> str:
        """Name of the session cookie; "" without sessions."""
        ...

    def identify(self, authorization: str | None, session: str | None) -> Principal | None:
        """Who this is, from the Authorization header and the session cookie; None for nobody."""
        ...

    def open_session(self, token: str) -> str | None:
        """The session for a token, None for a wrong one."""
        ...


class OpenAuth:
    """Auth `none`, said on purpose: everybody may do everything."""

    login = False
    cookie = ""

    def identify(self, authorization: str | None, session: str | None) -> Principal | None:
        return Principal("anyone", Role.OPERATOR)

    def open_session(self, token: str) -> str | None:
        return None


class HostAuth:
    """For a console mounted into another app: reading is as open as that app makes it, acting is not
    offered, because nobody said who may."""

    login = False
    cookie = ""

    def identify(self, authorization: str | None, session: str | None) -> Principal | None:
        return Principal("host application", Role.VIEWER)

    def open_session(self, token: str) -> str | None:
        return None


class TokenAuth:
    """Bearer tokens, each with a role, and sessions opened with them."""

    login = True

    def __init__(
        self,
        token: str | None = None,
        *,
        viewer_token: str | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._clock = clock
        self._tokens: dict[Role, bytes] = {}
        for role, field, value in (
            (Role.OPERATOR, "token", token),
            (Role.VIEWER, "viewer_token", viewer_token),
        ):
            if value is not None:
                self._tokens[role] = _checked(value, field)
        if not self._tokens:
            raise ConfigurationError("give a token, or say OpenAuth() for none", field="token")
        if len(set(self._tokens.values())) < len(self._tokens):
            raise ConfigurationError(
                "is the operator's token too; the two roles need different tokens",
                field="viewer_token",
            )
        names = b"".join(_digest(self._tokens[role], b"name") for role in sorted(self._tokens))
        self.cookie = "runnerq_session_" + hashlib.sha256(names).hexdigest()[:8]

    def identify(self, authorization: str | None, session: str | None) -> Principal | None:
        if authorization is not None:
            scheme, _, credentials = authorization.partition(" ")
            role = self._role_of(credentials.strip()) if scheme.lower() == "bearer" else None
            # A wrong token is an error even beside a good session: whoever sends one means it.
            return None if role is None else Principal(_name(role), role)
        return None if session is None else self._session(session)

    def open_session(self, token: str) -> str | None:
        role = self._role_of(token.strip())
        if role is None:
            return None
        expires = int(self._clock()) + SESSION_SECONDS
        claim = f"{role.name.lower()}.{expires}.{secrets.token_hex(8)}"
        return f"{claim}.{self._sign(role, claim)}"

    def _role_of(self, token: str) -> Role | None:
        offered = token.encode("utf-8", "surrogatepass")
        found: Role | None = None
        for role, expected in self._tokens.items():
            # No early exit: the time taken tells nothing about which token was close.
            if hmac.compare_digest(_digest(offered, b"compare"), _digest(expected, b"compare")):
                found = role
        return found

    def _session(self, text: str) -> Principal | None:
        if not text.isascii():
            return None
        claim, _, signature = text.rpartition(".")
        parts = claim.split(".")
        if len(parts) != 3 or not parts[1].isdigit():
            return None
        role = _ROLES.get(parts[0])
        if role is None or role not in self._tokens:
            return None
        if not hmac.compare_digest(self._sign(role, claim).encode(), signature.encode()):
            return None
        expires = float(parts[1])
        if expires <= self._clock():
            return None
        return Principal(_name(role), role, expires=expires, by_cookie=True)

    def _sign(self, role: Role, claim: str) -> str:
        key = _digest(self._tokens[role], b"session")
        return hmac.new(key, claim.encode(), hashlib.sha256).hexdigest()


def choose_auth(
    mode: str | None, *, host: str, token: str | None = None, viewer_token: str | None = None
) -> Auth:
    """The auth that was asked for, or ConfigurationError when what was asked for is not safe.

    `mode` is "token", "none" or None (not said). Not said, a token means token auth, and without one
    only a loopback `host` is served.
    """
    given = token is not None or viewer_token is not None
    if mode not in (None, "token", "none"):
        raise ConfigurationError(f"{mode!r} is not one of token, none", field="auth")
    if mode == "none":
        if given:
            raise ConfigurationError(
                "says none, but a token is set; leave one of them out", field="auth"
            )
        return OpenAuth()
    if given:
        return TokenAuth(token, viewer_token=viewer_token)
    if mode == "token":
        raise ConfigurationError(
            "token auth needs a token; set RUNNERQ_CONSOLE_TOKEN or give --token-file",
            field="token",
        )
    if not is_loopback(host):
        raise ConfigurationError(
            f"{host or 'every address'} can be reached from other machines and no auth is set; set "
            "RUNNERQ_CONSOLE_TOKEN, or say --auth none if everybody may read and act",
            field="host",
        )
    return OpenAuth()


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach `host`; a name we do not know counts as reachable.

    >>> [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "")]
    [True, True, True, False, False]
    """
    if host.rstrip(".").lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def check_origin(
    headers: Mapping[str, str], principal: Principal, *, scheme_hosts: tuple[str, ...]
) -> str | None:
    """Why an unsafe request is refused as another site's, or None when it is not.

    `scheme_hosts` are the hosts this console answers to: Host and, behind a proxy, the forwarded one
    (which a foreign page cannot set without a preflight that we do not answer).
    """
    site = headers.get("Sec-Fetch-Site")
    if site is not None:
        return None if site in ("same-origin", "none") else f"Sec-Fetch-Site is {site}"
    origin = headers.get("Origin")
    if origin is None:
        if principal.by_cookie:
            return "a session needs an Origin header; scripts send the token instead"
        return None
    _, separator, host = origin.partition("://")
    if separator and host.lower() in {name.lower() for name in scheme_hosts}:
        return None
    return f"Origin {origin} is not this console"


_ROLES = {role.name.lower(): role for role in Role}


def _checked(token: str, field: str) -> bytes:
    token = token.strip()
    if len(token) < MIN_TOKEN_LENGTH:
        raise ConfigurationError(
            f"has {len(token)} characters, at least {MIN_TOKEN_LENGTH} are needed; "
            "`python -c 'import secrets; print(secrets.token_urlsafe())'` makes a good one",
            field=field,
        )
    return token.encode("utf-8", "surrogatepass")


def _name(role: Role) -> str:
    return f"{role.name.lower()} token"


def _digest(token: bytes, purpose: bytes) -> bytes:
    return hmac.new(token, b"runnerq console " + purpose, hashlib.sha256).digest()

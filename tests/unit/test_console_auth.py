"""Who is let in, who is not, and which addresses are refused outright."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runnerq.console.auth import (
    HostAuth,
    OpenAuth,
    Principal,
    Role,
    TokenAuth,
    check_origin,
    choose_auth,
    is_loopback,
)
from runnerq.errors import ConfigurationError

TOKEN = "correct-horse"
VIEWER = "only-looking"


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def both(clock: Clock | None = None) -> TokenAuth:
    return TokenAuth(TOKEN, viewer_token=VIEWER, clock=clock or Clock())


def session_of(auth: TokenAuth, token: str) -> str:
    session = auth.open_session(token)
    assert session is not None
    return session


@pytest.mark.parametrize(("token", "role"), [(TOKEN, Role.OPERATOR), (VIEWER, Role.VIEWER)])
def test_each_token_has_its_role(token: str, role: Role) -> None:
    principal = both().identify(f"Bearer {token}", None)
    assert principal is not None
    assert principal.role is role


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Bearer",
        "Bearer ",
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN[:-1]}",
        f"Basic {TOKEN}",
        TOKEN,
        f"Token {TOKEN}",
        "Bearer \udcff",
    ],
)
def test_anything_but_the_token_is_nobody(header: str) -> None:
    assert both().identify(header, None) is None


def test_the_scheme_is_case_insensitive() -> None:
    assert both().identify(f"bearer {TOKEN}", None) is not None


def test_a_wrong_token_is_refused_even_beside_a_good_session() -> None:
    auth = both()
    assert auth.identify("Bearer wrong-token", session_of(auth, TOKEN)) is None


@pytest.mark.parametrize(("token", "role"), [(TOKEN, Role.OPERATOR), (VIEWER, Role.VIEWER)])
def test_a_session_has_the_role_of_the_token_that_opened_it(token: str, role: Role) -> None:
    auth = both()
    principal = auth.identify(None, session_of(auth, token))
    assert principal is not None
    assert principal.role is role
    assert principal.by_cookie


def test_a_wrong_token_opens_no_session() -> None:
    assert both().open_session("wrong-token") is None


def test_a_session_ends_after_twelve_hours() -> None:
    clock = Clock()
    auth = both(clock)
    session = session_of(auth, TOKEN)
    clock.now += 12 * 3600 - 1
    assert auth.identify(None, session) is not None
    clock.now += 1
    assert auth.identify(None, session) is None


def test_a_session_outlives_the_process_that_opened_it() -> None:
    assert both().identify(None, session_of(both(), TOKEN)) is not None


def test_a_session_ends_with_its_token() -> None:
    renewed = TokenAuth("another-token", viewer_token=VIEWER, clock=Clock())
    assert renewed.identify(None, session_of(both(), TOKEN)) is None


def test_a_viewer_cannot_promote_its_session() -> None:
    auth = both()
    forged = session_of(auth, VIEWER).replace("viewer.", "operator.", 1)
    assert auth.identify(None, forged) is None


def test_a_session_cannot_be_prolonged() -> None:
    auth = both()
    role, expires, *rest = session_of(auth, TOKEN).split(".")
    assert auth.identify(None, ".".join([role, str(int(expires) + 1), *rest])) is None


@given(st.text(max_size=120))
def test_no_text_is_a_session(text: str) -> None:
    assert both().identify(None, text) is None


@given(st.integers(0, 200), st.characters())
def test_no_changed_session_is_one(index: int, character: str) -> None:
    auth = both()
    session = session_of(auth, TOKEN)
    index %= len(session)
    changed = session[:index] + character + session[index + 1 :]
    if changed != session:
        assert auth.identify(None, changed) is None


def test_two_consoles_on_one_host_have_cookies_of_their_own() -> None:
    assert TokenAuth("first-token").cookie != TokenAuth("second-token").cookie
    assert TokenAuth("first-token").cookie == TokenAuth("first-token").cookie


def test_the_cookie_name_gives_nothing_of_the_token_away() -> None:
    assert TOKEN not in both().cookie
    assert both().cookie.startswith("runnerq_session_")


@pytest.mark.parametrize("token", ["", "short", "       x       "])
def test_a_token_that_can_be_guessed_is_refused(token: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^token: "):
        TokenAuth(token)


def test_the_two_roles_need_different_tokens() -> None:
    with pytest.raises(ConfigurationError, match=r"^viewer_token: "):
        TokenAuth(TOKEN, viewer_token=TOKEN)


@pytest.mark.parametrize(
    "host",
    ["0.0.0.0", "::", "", "10.0.0.5", "console.example.com"],  # noqa: S104 - refused, not bound
)
def test_an_address_that_others_can_reach_needs_auth_or_none_said(host: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^host: "):
        choose_auth(None, host=host)
    assert isinstance(choose_auth("none", host=host), OpenAuth)
    assert isinstance(choose_auth(None, host=host, token=TOKEN), TokenAuth)


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.8.8.8", "::1", "[::1]", "localhost", "LOCALHOST."]
)
def test_this_machine_alone_needs_no_auth(host: str) -> None:
    assert is_loopback(host)
    assert isinstance(choose_auth(None, host=host), OpenAuth)


@pytest.mark.parametrize("host", ["localhost.example.com", "1270.0.0.1", "127.0.0.1.nip.io", "0"])
def test_a_name_that_looks_like_this_machine_is_not(host: str) -> None:
    assert not is_loopback(host)


def test_none_and_a_token_contradict_each_other() -> None:
    with pytest.raises(ConfigurationError, match=r"^auth: "):
        choose_auth("none", host="127.0.0.1", token=TOKEN)


def test_token_auth_without_a_token_is_refused_also_on_this_machine() -> None:
    with pytest.raises(ConfigurationError, match=r"^token: "):
        choose_auth("token", host="127.0.0.1")


def test_an_unknown_mode_is_refused_by_name() -> None:
    with pytest.raises(ConfigurationError, match="'basic' is not one of"):
        choose_auth("basic", host="127.0.0.1")


def test_a_mounted_console_reads_and_does_not_act() -> None:
    principal = HostAuth().identify(None, None)
    assert principal is not None
    assert principal.role is Role.VIEWER


BROWSER = Principal("operator token", Role.OPERATOR, by_cookie=True)
SCRIPT = Principal("operator token", Role.OPERATOR)
HOSTS = ("console.example.com:8443",)


@pytest.mark.parametrize(
    ("headers", "principal"),
    [
        ({"Sec-Fetch-Site": "same-origin"}, BROWSER),
        ({"Sec-Fetch-Site": "none"}, BROWSER),
        ({"Origin": "https://console.example.com:8443"}, BROWSER),
        ({"Origin": "https://CONSOLE.example.com:8443"}, BROWSER),
        ({}, SCRIPT),
    ],
)
def test_the_console_itself_and_scripts_may_act(
    headers: dict[str, str], principal: Principal
) -> None:
    assert check_origin(headers, principal, scheme_hosts=HOSTS) is None


@pytest.mark.parametrize(
    ("headers", "principal"),
    [
        ({"Sec-Fetch-Site": "cross-site"}, BROWSER),
        ({"Sec-Fetch-Site": "same-site"}, BROWSER),
        ({"Sec-Fetch-Site": "cross-site", "Origin": "https://console.example.com:8443"}, BROWSER),
        ({"Sec-Fetch-Site": "cross-site"}, SCRIPT),
        ({"Origin": "https://evil.example"}, BROWSER),
        ({"Origin": "https://evil.example"}, SCRIPT),
        ({"Origin": "null"}, BROWSER),
        ({"Origin": "https://console.example.com"}, BROWSER),
        ({"Origin": "https://console.example.com:8443.evil.example"}, BROWSER),
        ({"Origin": "console.example.com:8443"}, BROWSER),
        ({}, BROWSER),
    ],
)
def test_another_site_may_not(headers: dict[str, str], principal: Principal) -> None:
    assert check_origin(headers, principal, scheme_hosts=HOSTS) is not None

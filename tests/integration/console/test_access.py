"""Every route under every way of asking: the matrix of auth, role and origin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from tests.integration.console.served import API, Answer, Served, served

from runnerq.console import HostAuth, OpenAuth, TokenAuth

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

TOKEN = "operator-token"
VIEWER = "viewer-token"
SOME = UUID(int=1)

OPEN = (
    "/healthz",
    "/readyz",
    "/metrics",
    "/static/style.css",
    "/static/app.js",
    "/static/mark.svg",
)
CLOSED = (
    "/session",
    "/queues",
    "/stats",
    "/series",
    "/pools",
    "/workers",
    "/decisions",
    "/dead-letter",
    "/activities/pending",
    f"/activities/{SOME}",
    f"/activities/{SOME}/events",
    f"/activities/{SOME}/result",
    "/stream",
    "/a-route-that-does-not-exist",
)
REQUEUE = "/dead-letter/requeue"
BODY = {"ids": [str(SOME)]}


@pytest.fixture
async def closed() -> AsyncGenerator[Served]:
    async with served(auth=TokenAuth(TOKEN, viewer_token=VIEWER)) as made:
        yield made


def bearer(token: str) -> dict[str, Any]:
    return {"headers": {"Authorization": f"Bearer {token}"}}


async def login(console: Served, token: str, **options: Any) -> Answer:
    return await console.ask("POST", "/login", data={"token": token}, **options)


async def status_of(console: Served, path: str, **options: Any) -> int:
    """The status alone: a stream is not read to its end."""
    async with console.client.get(path, allow_redirects=False, **options) as response:
        return response.status


@pytest.mark.parametrize("path", OPEN)
async def test_health_metrics_and_files_ask_for_nobody(closed: Served, path: str) -> None:
    assert (await closed.get(path)).status == 200


@pytest.mark.parametrize("path", CLOSED)
async def test_nobody_gets_nothing_else(closed: Served, path: str) -> None:
    answer = await closed.api(path)
    assert (answer.status, answer.error["code"]) == (401, "unauthenticated")
    assert answer.headers["WWW-Authenticate"].startswith("Bearer")
    assert closed.backend.asked.count("list_activities") == 0


@pytest.mark.parametrize("path", CLOSED)
async def test_a_wrong_token_gets_no_more_than_none(closed: Served, path: str) -> None:
    assert (await closed.api(path, **bearer("wrong-token"))).status == 401


@pytest.mark.parametrize("token", [TOKEN, VIEWER])
@pytest.mark.parametrize("path", CLOSED)
async def test_a_token_gets_past_the_gate(closed: Served, path: str, token: str) -> None:
    assert await status_of(closed, API + path, **bearer(token)) in (200, 404)


@pytest.mark.parametrize(
    ("options", "status"),
    [({}, 401), (bearer("wrong-token"), 401), (bearer(VIEWER), 403), (bearer(TOKEN), 200)],
)
async def test_only_an_operator_may_act(
    closed: Served, options: dict[str, Any], status: int
) -> None:
    answer = await closed.act(REQUEUE, BODY, **options)
    assert answer.status == status
    assert ("requeue_dead_letters" in closed.backend.asked) == (status == 200)


async def test_a_refused_viewer_is_told_which_role_is_needed(closed: Served) -> None:
    answer = await closed.act(REQUEUE, BODY, **bearer(VIEWER))
    assert answer.error["code"] == "forbidden"
    assert "operator" in answer.error["message"]


async def test_without_a_session_the_page_is_the_login(closed: Served) -> None:
    answer = await closed.get("/")
    assert answer.status == 401
    assert 'name="token"' in answer.text
    assert "app.js" not in answer.text


async def test_a_login_opens_a_session_that_browsers_keep_to_themselves(closed: Served) -> None:
    answer = await login(closed, TOKEN)
    assert (answer.status, answer.headers["Location"]) == (303, "./")
    cookie = answer.headers["Set-Cookie"]
    assert cookie.startswith("runnerq_session_")
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert TOKEN not in cookie
    assert (await closed.get("/")).status == 200
    assert (await closed.api("/session")).json["role"] == "operator"


async def test_behind_tls_the_cookie_is_secure(closed: Served) -> None:
    answer = await login(closed, TOKEN, headers={"X-Forwarded-Proto": "https"})
    assert "Secure" in answer.headers["Set-Cookie"]


@pytest.mark.parametrize("token", ["", "wrong-token", TOKEN + "x"])
async def test_a_wrong_login_opens_nothing_and_says_so(closed: Served, token: str) -> None:
    answer = await login(closed, token)
    assert answer.status == 401
    assert "Set-Cookie" not in answer.headers
    assert "not valid" in answer.text


async def test_a_login_without_a_token_field_is_refused(closed: Served) -> None:
    assert (await closed.ask("POST", "/login", data={"user": "x"})).status == 401


async def test_a_viewer_session_reads_and_does_not_act(closed: Served) -> None:
    await login(closed, VIEWER)
    assert (await closed.api("/stats")).status == 200
    same = {"headers": {"Sec-Fetch-Site": "same-origin"}}
    assert (await closed.act(REQUEUE, BODY, **same)).status == 403


async def test_a_logout_ends_the_session(closed: Served) -> None:
    await login(closed, TOKEN)
    await closed.ask("POST", "/logout")
    assert (await closed.api("/stats")).status == 401


async def test_the_session_of_another_console_is_not_ours(closed: Served) -> None:
    async with served(auth=TokenAuth("other-token")) as other:
        theirs = (await login(other, "other-token")).headers["Set-Cookie"].split(";")[0]
        assert (await closed.api("/stats", headers={"Cookie": theirs})).status == 401


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({}, 403),
        ({"Origin": "https://ops.example", "X-Forwarded-Host": "ops.example"}, 200),
    ],
)
async def test_another_site_cannot_use_a_browsers_session(
    closed: Served, headers: dict[str, str], status: int
) -> None:
    await login(closed, TOKEN)
    assert (await closed.act(REQUEUE, BODY, headers=headers)).status == status


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_another_site_cannot_log_a_browser_in_or_out(closed: Served, site: str) -> None:
    headers = {"Sec-Fetch-Site": site}
    assert (await login(closed, TOKEN, headers=headers)).status == 403
    assert (await closed.ask("POST", "/logout", headers=headers)).status == 403


async def test_a_script_with_the_token_needs_no_origin(closed: Served) -> None:
    assert (await closed.act(REQUEUE, BODY, **bearer(TOKEN))).status == 200


async def test_auth_none_lets_everybody_read_and_act_but_no_other_site() -> None:
    async with served(auth=OpenAuth()) as console:
        assert (await console.api("/stats")).status == 200
        assert (await console.act(REQUEUE, BODY)).status == 200
        cross = {"headers": {"Origin": "https://evil.example"}}
        assert (await console.act(REQUEUE, BODY, **cross)).status == 403
        assert (await console.api("/session")).json["login"] is False


async def test_a_host_that_says_nothing_about_auth_gets_a_console_that_only_reads() -> None:
    async with served(auth=HostAuth()) as console:
        assert (await console.api("/stats")).status == 200
        assert (await console.act(REQUEUE, BODY)).status == 403


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8080", 200),
        ("localhost", 200),
        ("LOCALHOST:8080", 200),
        ("shop.localhost:8080", 200),
        ("[::1]:8080", 200),
        ("evil.example", 421),
        ("evil.example:8080", 421),
        ("localhost.evil.example", 421),
        ("127.0.0.1.evil.example", 421),
    ],
)
async def test_a_name_rebound_to_this_machine_is_refused_where_there_is_no_login(
    host: str, status: int
) -> None:
    async with served(hosts={"localhost", "127.0.0.1", "::1"}) as console:
        assert (await console.api("/stats", headers={"Host": host})).status == status


async def test_actions_are_counted_by_role_and_outcome(closed: Served) -> None:
    await closed.act(REQUEUE, BODY, **bearer(TOKEN))
    await closed.act(REQUEUE, BODY, **bearer(VIEWER))
    text = (await closed.get("/metrics")).text
    for role, outcome in (("operator", "ok"), ("viewer", "denied")):
        line = f'runnerq_console_actions_total{{action="requeue",outcome="{outcome}",role="{role}"}} 1.0'
        assert line in text

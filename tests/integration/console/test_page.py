"""The page's delivery: strict headers, relative addresses, any path in front, files that revalidate."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import TYPE_CHECKING

import pytest
from aiohttp import web
from tests.integration.console.served import QUEUE, Served, Shop, answer_of, running, served

from runnerq import QueueInspector
from runnerq.console import OpenAuth, observability_api, runnerq_ui
from runnerq.storage.memory import MemoryBackend

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

STATIC = files("runnerq.console") / "static"


def texts(suffix: str) -> list[Traversable]:
    return [entry for entry in STATIC.iterdir() if entry.name.endswith(suffix)]


@pytest.mark.parametrize("path", ["/", "/static/app.js", "/healthz", "/nope"])
async def test_every_answer_carries_the_strict_policy(console: Served, path: str) -> None:
    headers = (await console.get(path)).headers
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "require-trusted-types-for 'script'" in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Server"] == "runnerq"


@pytest.mark.parametrize("name", ["index.html", "login.html"])
def test_no_page_has_inline_script_or_style(name: str) -> None:
    text = (STATIC / name).read_text()
    assert not re.search(r"<script(?![^>]*\ssrc=)|<style|\son\w+=|\sstyle=|javascript:", text)


@pytest.mark.parametrize(
    "entry", texts(".html") + texts(".js") + texts(".css"), ids=lambda e: e.name
)
def test_no_address_leaves_the_console_or_starts_at_a_root(entry: Traversable) -> None:
    text = entry.read_text().replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?://|[\"'(]//", text)
    assert not re.search(r"(?:src|href|action)=\"/", text)


@pytest.mark.parametrize("entry", texts(".js"), ids=lambda e: e.name)
def test_no_script_turns_text_into_markup(entry: Traversable) -> None:
    sinks = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|srcdoc ="
    assert not re.search(sinks, entry.read_text())


@pytest.mark.parametrize(
    "name", ["../app.py", "..%2fapp.py", "%2e%2e/app.py", "index.html", "x", ""]
)
async def test_only_the_files_of_the_page_can_be_asked_for(console: Served, name: str) -> None:
    answer = await console.get(f"/static/{name}")
    assert answer.status == 404
    assert "import" not in answer.text


async def test_files_are_revalidated_and_sent_only_when_changed(console: Served) -> None:
    first = await console.get("/static/app.js")
    assert first.headers["Cache-Control"] == "no-cache"
    assert first.headers["Content-Type"].startswith("text/javascript")
    again = await console.get("/static/app.js", headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status, again.text) == (304, "")


async def test_without_script_the_page_says_where_the_data_is(console: Served) -> None:
    text = (await console.get("/")).text
    assert "<noscript>" in text
    assert 'href="api/observability/stats"' in text


async def test_a_path_in_front_is_served_unstripped() -> None:
    async with served(base_path="/ops/rq") as console:
        page = await console.get("/ops/rq/")
        assert 'src="static/app.js"' in page.text
        assert (await console.get("/ops/rq/static/app.js")).status == 200
        assert (await console.get("/ops/rq/api/observability/stats")).status == 200
        assert (await console.get("/healthz")).status == 200
        assert (await console.get("/api/observability/stats")).status == 404


async def test_a_missing_slash_is_added_relatively() -> None:
    async with served(base_path="/ops/rq") as console:
        answer = await console.get("/ops/rq")
        assert (answer.status, answer.headers["Location"]) == (308, "rq/")


async def test_the_console_mounts_into_an_app_at_any_path() -> None:
    backend = MemoryBackend(QUEUE)
    await Shop(backend).enqueue()
    app = web.Application()
    app.add_subapp("/internal/jobs", runnerq_ui(QueueInspector(backend, QUEUE)))
    async with running(app) as client:
        async with client.get("/internal/jobs/") as response:
            page = await answer_of(response)
        assert "static/app.js" in page.text
        assert "default-src 'none'" in page.headers["Content-Security-Policy"]
        async with client.get("/internal/jobs/api/observability/stats") as response:
            assert (await answer_of(response)).json["counts"]["pending"] == 1


async def test_a_mounted_console_acts_once_the_auth_is_said() -> None:
    backend = MemoryBackend(QUEUE)
    shop = Shop(backend)
    await shop.open()
    dead = await shop.dead()
    for auth, status in ((None, 403), (OpenAuth(), 200)):
        app = web.Application()
        app.add_subapp("/jobs", observability_api(QueueInspector(backend, QUEUE), auth=auth))
        async with running(app) as client:
            body = {"ids": [str(dead)]}
            async with client.post("/jobs/dead-letter/requeue", json=body) as response:
                assert response.status == status


async def test_the_api_alone_mounts_with_the_original_paths() -> None:
    backend = MemoryBackend(QUEUE)
    shop = Shop(backend)
    await shop.open()
    done = await shop.completed()
    app = web.Application()
    app.add_subapp("/api/observability", observability_api(QueueInspector(backend, QUEUE)))
    paths = (
        "/stats",
        "/activities/completed",
        f"/activities/{done}",
        f"/activities/{done}/events",
        f"/activities/{done}/result",
        "/dead-letter",
        "/stream",
    )
    async with running(app) as client:
        for path in paths:
            async with client.get("/api/observability" + path) as response:
                assert response.status == 200, path
        async with client.get("/api/observability/") as response:
            assert response.status == 404

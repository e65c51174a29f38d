"""A real Chromium on a page, and the console under it. Every page is watched for errors.

The browser is the one of RUNNERQ_TEST_CHROMIUM, or `chromium` on the PATH.
"""

from __future__ import annotations

import os
import shutil
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

from playwright.async_api import async_playwright
from tests.integration.console.served import QUEUE, Interposed, Shop

from runnerq.console import ConsoleServer, OpenAuth
from runnerq.storage.memory import MemoryBackend

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from playwright.async_api import Browser, ConsoleMessage, Page

    from runnerq.storage.ports import Storage

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def chromium() -> str:
    """Path of the browser. Raises when there is none: a test that cannot look has not looked."""
    path = os.environ.get("RUNNERQ_TEST_CHROMIUM") or shutil.which("chromium")
    if path is None:
        raise FileNotFoundError("there is no chromium; `apt-get install chromium`")
    return path


@asynccontextmanager
async def browsing() -> AsyncGenerator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium(), args=list(FLAGS))
        try:
            yield browser
        finally:
            await browser.close()


class Watched:
    """A page and what went wrong on it: script errors, refused policies, requests elsewhere."""

    def __init__(self, page: Page, base: str) -> None:
        self.page = page
        self.problems: list[str] = []
        self.requests: list[str] = []
        self.dialogs: list[str] = []
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("console", self._logged)
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("dialog", lambda dialog: self.dialogs.append(dialog.message))
        self._base = base

    def _logged(self, message: ConsoleMessage) -> None:
        # A refused request is logged by the browser itself; tests that cause one look at the page.
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.problems.append(message.text)

    @property
    def foreign(self) -> list[str]:
        """Requests that went anywhere but to the console."""
        return [url for url in self.requests if not url.startswith((self._base, "data:"))]

    async def says(self, text: str, *, where: str = "body") -> None:
        """Wait until `text` is shown."""
        await self.page.locator(where).get_by_text(text).first.wait_for()


class Stage:
    """A console over a memory backend, and pages on it."""

    def __init__(self, browser: Browser, server: ConsoleServer, backend: Interposed) -> None:
        self.browser = browser
        self.server = server
        self.backend = backend
        self.shop = Shop(cast("Storage", backend))
        self.watched: list[Watched] = []

    async def open(self, fragment: str = "", **context: Any) -> Watched:
        context.setdefault("viewport", {"width": 1300, "height": 900})
        opened = await self.browser.new_context(**context)
        watched = Watched(await opened.new_page(), self.server.url)
        watched.page.set_default_timeout(15_000)
        self.watched.append(watched)
        await watched.page.goto(self.server.url + fragment)
        return watched


@asynccontextmanager
async def staged(browser: Browser, *, down: bool = False, **options: Any) -> AsyncGenerator[Stage]:
    """Ends with the assertion that no page had a script error, a refused policy or a foreign request.
    `down`: the backend is away from the start."""
    backend = Interposed(MemoryBackend(QUEUE))
    options.setdefault("auth", OpenAuth())
    server = ConsoleServer(cast("Storage", backend), port=0, **options)
    stage = Stage(browser, server, backend)
    await stage.shop.open()
    backend.down = down
    await server.start()
    try:
        yield stage
        for watched in stage.watched:
            assert watched.problems == []
            assert watched.foreign == []
            assert watched.dialogs == []
    finally:
        await server.stop()

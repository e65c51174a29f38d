"""One browser for all tests, on one event loop; a console for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest_asyncio
from tests.ui.browser import browsing, staged

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from playwright.async_api import Browser
    from tests.ui.browser import Stage


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncGenerator[Browser]:
    async with browsing() as started:
        yield started


@pytest_asyncio.fixture(loop_scope="session")
async def stage(browser: Browser) -> AsyncGenerator[Stage]:
    async with staged(browser) as made:
        yield made

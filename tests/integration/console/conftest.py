"""The console that most tests here ask."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.integration.console.served import served

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from tests.integration.console.served import Served


@pytest.fixture
async def console() -> AsyncGenerator[Served]:
    async with served() as made:
        yield made

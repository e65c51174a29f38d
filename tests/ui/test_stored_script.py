"""Stored script, the classic of job consoles: hostile text goes through every field and stays text."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec
import pytest
from playwright.async_api import expect
from tests.integration.console.served import QUEUE, Shop

from runnerq.storage.records import (
    DecisionRecord,
    ErrorInfo,
    ErrorKind,
    Idempotency,
    PodRecord,
)

if TYPE_CHECKING:
    from tests.ui.browser import Stage

CORPUS = (
    "<script>window.owned=1</script>",
    "<img src=x onerror=window.owned=1>",
    '"><svg onload=window.owned=1>',
    "'-window.owned=1-'",
    "javascript:window.owned=1",
    "{{constructor.constructor('window.owned=1')()}}",
    "</textarea></title></style></noscript><script>window.owned=1</script>",
    "<iframe srcdoc='<script>parent.owned=1</script>'>",
    "<a href=javascript:window.owned=1>x</a>",
    "<math><mtext></mtext><mglyph><style><img src onerror=window.owned=1>",
    "<base href=//evil.example/>",
    "<link rel=stylesheet href=//evil.example/x.css>",
    "\u2028window.owned=1\u2029",
    "${window.owned=1}",
    "<!--<script>window.owned=1//-->",
)
NOW = datetime.now(UTC)

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.fixture(params=CORPUS, ids=range(len(CORPUS)))
def hostile(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def test_hostile_text_is_shown_as_text_in_every_field(stage: Stage, hostile: str) -> None:
    await fill(stage, hostile)
    other = Shop(stage.shop.backend, hostile)
    await other.enqueue()
    # Types are checked where an SDK enqueues; the console trusts nobody.
    dead = await stage.shop.dead(
        ErrorInfo(
            kind=ErrorKind.HANDLER,
            type=hostile,
            message=hostile,
            traceback=f'Traceback\n  File "{hostile}", line 1\n{hostile}',
            causes=(hostile,),
        ),
        activity_type=hostile,
        payload=json.dumps({hostile: [hostile]}).encode(),
        idempotency=Idempotency(key=hostile),
        headers={hostile: hostile},
    )
    seen = await stage.open(f"#state=dead_letter&id={dead}")
    page = seen.page
    detail = page.locator("#detail")
    visible = hostile.replace("\u2028", "").replace("\u2029", "")
    await expect(detail.locator("h2")).to_contain_text(visible)
    await expect(detail.locator(".failure .message")).to_contain_text(visible)
    await detail.locator(".close").click()
    for where in ("#pools", "#decisions", "#workers", "#activities", "select.queue"):
        await expect(page.locator(where)).to_contain_text(visible)
    await page.locator(".decisions summary").first.click()
    assert await page.evaluate("window.owned") is None
    assert await page.evaluate("document.scripts.length") == 1
    assert await page.locator("iframe, base, math, main img, main a[href^=javascript]").count() == 0


async def fill(stage: Stage, hostile: str) -> None:
    """The text in everything that others report: engines, pods, decisions."""
    storage = stage.shop.backend
    await stage.shop.open(
        pool=hostile,
        pod=hostile,
        host=hostile,
        build_id=hostile,
        version=hostile,
        types=("send", hostile),
    )
    await storage.record_pods(
        QUEUE,
        [
            PodRecord(
                queue=QUEUE, pool=hostile, name=hostile, phase=hostile, detail=hostile, since=NOW
            )
        ],
    )
    await storage.record_decision(
        DecisionRecord(
            queue=QUEUE,
            pool=hostile,
            at=NOW,
            from_replicas=0,
            to_replicas=1,
            reason=hostile,
            summary=hostile,
            detail=msgspec.json.decode(json.dumps({hostile: hostile}), type=dict[str, str]),
        )
    )

"""What a person sees and does on the page, in a real browser under the strict policy."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from playwright.async_api import expect
from tests.conformance.eventually import eventually
from tests.integration.console.served import QUEUE, Shop
from tests.ui.browser import staged

from runnerq.console import TokenAuth
from runnerq.storage.records import DecisionRecord, OutcomeKind, PodRecord

if TYPE_CHECKING:
    from playwright.async_api import Browser
    from tests.ui.browser import Stage

NOW = datetime.now(UTC)

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_it_goes_live_and_shows_what_is_there(stage: Stage) -> None:
    for _ in range(3):
        await stage.shop.enqueue()
    seen = await stage.open()
    await seen.says("Live")
    await expect(seen.page.locator(".tile.pending strong")).to_have_text("3")
    await expect(seen.page.locator("table.activities tbody tr")).to_have_count(3)
    await expect(seen.page).to_have_title("shop · runnerq")


async def test_numbers_and_lists_follow_without_a_reload(stage: Stage) -> None:
    seen = await stage.open("#state=completed")
    await seen.says("Nothing completed.")
    await stage.shop.completed()
    await expect(seen.page.locator(".tile.completed strong")).to_have_text("1")
    await expect(seen.page.locator("table.activities tbody tr")).to_have_count(1)


async def test_an_activity_opens_with_its_timeline_payload_and_traceback(stage: Stage) -> None:
    payload = b'{"order":9007199254740993,"price":1.50,"to":"ada"}'
    activity_id = await stage.shop.dead(payload=payload)
    seen = await stage.open("#state=dead_letter")
    await seen.page.locator("table.activities .type").click()
    detail = seen.page.locator("#detail")
    await expect(detail.locator(".timeline li")).to_have_count(3)
    await expect(detail.locator(".traceback")).to_contain_text("Traceback: it")
    # The digits are those that were stored, not those of a JavaScript number.
    await expect(detail.locator("pre.json").first).to_contain_text("9007199254740993")
    await expect(detail.locator("pre.json").first).to_contain_text("1.50")
    await expect(seen.page).to_have_url(re.compile(str(activity_id)))
    await seen.page.keyboard.press("Escape")
    await expect(detail).to_be_hidden()
    await expect(seen.page).not_to_have_url(re.compile(str(activity_id)))


async def test_an_open_activity_follows_what_happens_to_it(stage: Stage) -> None:
    activity_id = await stage.shop.enqueue()
    seen = await stage.open(f"#state=pending&id={activity_id}")
    badge = seen.page.locator("#detail .badge")
    await expect(badge).to_have_text("Pending")
    claim = await stage.shop.claim()
    await expect(badge).to_have_text("Running")
    await stage.shop.end(claim, OutcomeKind.COMPLETED, result=b'{"ok":true}')
    await expect(badge).to_have_text("Completed")
    await expect(seen.page.locator("#detail")).to_contain_text('"ok": true')


async def test_an_address_shows_to_the_next_person_what_its_sender_saw(stage: Stage) -> None:
    await stage.shop.open(types=("send", "report"))
    dead = await stage.shop.dead(activity_type="report")
    await stage.shop.dead()
    seen = await stage.open(f"#state=dead_letter&type=report&id={dead}")
    await expect(seen.page.locator("#detail h2")).to_have_text("report")
    await expect(seen.page.locator("table.activities tbody tr")).to_have_count(1)
    await expect(seen.page.locator("#type-filter")).to_have_value("report")


async def test_dead_letters_are_requeued_after_a_question(stage: Stage) -> None:
    for _ in range(3):
        await stage.shop.dead()
    seen = await stage.open("#state=dead_letter")
    page = seen.page
    rows = page.locator("table.activities tbody tr")
    await expect(rows).to_have_count(3)
    await rows.nth(0).locator("input").check()
    await page.get_by_role("button", name="Requeue 1").click()
    await page.locator("#confirm").get_by_role("button", name="Not now").click()
    assert "requeue_dead_letters" not in stage.backend.asked
    await page.get_by_label("All on this page").check()
    await page.get_by_role("button", name="Requeue 3").click()
    await page.locator("#confirm").get_by_role("button", name="Requeue 3").click()
    await expect(page.locator(".tile.pending strong")).to_have_text("3")
    await seen.says("Nothing in the dead letter.")


async def test_one_dead_letter_is_requeued_from_its_own_view(stage: Stage) -> None:
    dead = await stage.shop.dead()
    seen = await stage.open(f"#state=dead_letter&id={dead}")
    await seen.page.get_by_role("button", name="Requeue with all attempts").click()
    await seen.page.locator("#confirm").get_by_role("button", name="Requeue 1").click()
    await expect(seen.page.locator("#detail .badge")).to_have_text("Pending")
    await expect(seen.page.locator("#detail .timeline")).to_contain_text("Requeued")


async def test_pages_are_turned_and_come_back(stage: Stage) -> None:
    for _ in range(60):
        await stage.shop.enqueue()
    seen = await stage.open("#state=pending")
    page = seen.page
    rows = page.locator("table.activities tbody tr")
    await expect(rows).to_have_count(25)
    first = await rows.nth(0).inner_text()
    await page.get_by_role("button", name="Older").click()
    await seen.says("Page 2, 25 activities")
    await page.get_by_role("button", name="Older").click()
    await seen.says("Page 3, 10 activities")
    await expect(page.get_by_role("button", name="Older")).to_be_disabled()
    await page.get_by_role("button", name="Newer").click()
    await page.get_by_role("button", name="Newer").click()
    await seen.says("The newest 25 activities")
    assert (await rows.nth(0).inner_text()).split()[0] == first.split()[0]


async def test_a_pool_says_why_it_has_its_size(stage: Stage) -> None:
    storage = stage.shop.backend
    await stage.shop.open(pool="bulk", pod="bulk-1")
    await storage.record_pods(
        QUEUE,
        [
            PodRecord(queue=QUEUE, pool="bulk", name="bulk-1", phase="ready", since=NOW),
            PodRecord(queue=QUEUE, pool="bulk", name="bulk-2", phase="starting", since=NOW),
        ],
    )
    await storage.record_decision(
        DecisionRecord(
            queue=QUEUE,
            pool="bulk",
            at=NOW,
            from_replicas=1,
            to_replicas=2,
            reason="Backlog",
            summary="14 wait, one more drains them in time",
            detail={"min": 0, "max": 5, "slo_seconds": 30},
        )
    )
    seen = await stage.open()
    pool = seen.page.locator(".pool", has_text="bulk")
    await expect(pool.locator(".size")).to_have_text("1 → 2 replicas")
    await expect(pool.locator(".reason")).to_contain_text("14 wait, one more drains them in time")
    await expect(pool.locator(".bar.ready")).to_contain_text("1 starting")
    await expect(seen.page.locator("#workers")).to_contain_text("bulk-1")
    entry = seen.page.locator(".decisions li")
    await expect(entry).to_contain_text("1 → 2")
    await entry.locator("summary").click()
    await expect(entry.locator("pre")).to_contain_text('"slo_seconds": 30')


async def test_an_opened_decision_stays_open_while_the_page_updates(stage: Stage) -> None:
    record = DecisionRecord(
        queue=QUEUE,
        pool="bulk",
        at=NOW,
        from_replicas=0,
        to_replicas=1,
        reason="Backlog",
        summary="first",
        detail={},
    )
    await stage.shop.backend.record_decision(record)
    seen = await stage.open()
    await seen.page.locator(".decisions summary").click()
    before = stage.backend.asked.count("decisions")
    await eventually(lambda: stage.backend.asked.count("decisions") > before + 1)
    await expect(seen.page.locator(".decisions details")).to_have_attribute("open", "")


async def test_a_backend_that_is_away_is_said_and_old_numbers_are_not_zero(stage: Stage) -> None:
    for _ in range(3):
        await stage.shop.enqueue()
    seen = await stage.open()
    page = seen.page
    await expect(page.locator(".tile.pending strong")).to_have_text("3")
    stage.backend.down = True
    await expect(page.locator(".notice")).to_contain_text("does not answer")
    await expect(page.locator(".notice")).to_contain_text("What you see is from")
    await expect(page.locator(".status")).to_have_text("Backend down")
    await expect(page.locator(".tile.pending strong")).to_have_text("3")
    stage.backend.down = False
    await expect(page.locator(".notice")).to_have_count(0)
    await expect(page.locator(".status")).to_have_text("Live")


async def test_a_backend_that_is_away_from_the_start_is_said(browser: Browser) -> None:
    async with staged(browser, down=True) as stage:
        seen = await stage.open()
        await expect(seen.page.locator(".notice")).to_contain_text("does not answer")
        await expect(seen.page.locator(".notice")).to_contain_text("Nothing has been read yet")
        await expect(seen.page.locator(".tile.pending strong")).to_have_text("–")
        stage.backend.down = False
        await expect(seen.page.locator(".tile.pending strong")).to_have_text("0")


async def test_without_a_stream_it_polls_one_question_at_a_time(stage: Stage) -> None:
    context = await stage.browser.new_context()
    page = await context.new_page()
    open_requests = 0
    most = 0

    def asked(url: str) -> None:
        nonlocal open_requests, most
        if "/stats" in url:
            open_requests += 1
            most = max(most, open_requests)

    def answered(url: str) -> None:
        nonlocal open_requests
        if "/stats" in url:
            open_requests -= 1

    page.on("request", lambda request: asked(request.url))
    page.on("requestfinished", lambda request: answered(request.url))
    page.on("requestfailed", lambda request: answered(request.url))
    await page.route("**/stream*", lambda route: route.fulfill(status=503, body=""))
    await stage.shop.enqueue()
    await page.goto(stage.server.url)
    await expect(page.locator(".status")).to_have_text("Polling")
    await expect(page.locator(".tile.pending strong")).to_have_text("1")
    await stage.shop.enqueue()
    await expect(page.locator(".tile.pending strong")).to_have_text("2", timeout=15_000)
    assert most == 1
    await page.unroute("**/stream*")
    await expect(page.locator(".status")).to_have_text("Live", timeout=20_000)


async def test_another_queue_is_a_choice_away(stage: Stage) -> None:
    await stage.shop.enqueue()
    other = Shop(stage.shop.backend, "a/b ?#%")
    for _ in range(2):
        await other.enqueue()
    seen = await stage.open()
    await expect(seen.page.locator(".tile.pending strong")).to_have_text("1")
    await seen.page.locator("select.queue").select_option("a/b ?#%")
    await expect(seen.page.locator(".tile.pending strong")).to_have_text("2")
    await seen.page.reload()
    await expect(seen.page.locator("select.queue")).to_have_value("a/b ?#%")
    await expect(seen.page.locator(".tile.pending strong")).to_have_text("2")


async def test_people_log_in_and_out_without_script_in_the_login(browser: Browser) -> None:
    async with staged(browser, auth=TokenAuth("operator-token")) as stage:
        seen = await stage.open()
        page = seen.page
        await page.get_by_label("Token").fill("wrong-token")
        await page.get_by_role("button", name="Log in").click()
        await seen.says("This token is not valid.")
        await page.get_by_label("Token").fill("operator-token")
        await page.get_by_role("button", name="Log in").click()
        await seen.says("Live")
        await page.get_by_role("button", name="Log out").click()
        await expect(page.get_by_label("Token")).to_be_visible()


async def test_a_viewer_is_not_offered_what_it_may_not_do(browser: Browser) -> None:
    auth = TokenAuth("operator-token", viewer_token="viewer-token")
    async with staged(browser, auth=auth) as stage:
        dead = await stage.shop.dead()
        seen = await stage.open(f"#state=dead_letter&id={dead}")
        await seen.page.get_by_label("Token").fill("viewer-token")
        await seen.page.get_by_role("button", name="Log in").click()
        await expect(seen.page.locator("table.activities tbody tr")).to_have_count(1)
        await expect(seen.page.get_by_role("button", name="Requeue")).to_have_count(0)


async def test_it_works_under_a_path_of_a_proxy(browser: Browser) -> None:
    async with staged(browser, base_path="/ops/rq", auth=TokenAuth("operator-token")) as stage:
        await stage.shop.enqueue()
        seen = await stage.open()
        await seen.page.get_by_label("Token").fill("operator-token")
        await seen.page.get_by_role("button", name="Log in").click()
        await seen.says("Live")
        await expect(seen.page.locator(".tile.pending strong")).to_have_text("1")
        assert seen.page.url.startswith(stage.server.url)
        assert stage.server.url.endswith("/ops/rq/")


async def test_the_keyboard_reaches_an_activity(stage: Stage) -> None:
    for _ in range(2):
        await stage.shop.enqueue()
    seen = await stage.open("#state=pending")
    page = seen.page
    await expect(page.locator("table.activities tbody tr")).to_have_count(2)
    await page.keyboard.press("j")
    await page.keyboard.press("j")
    await page.keyboard.press("Enter")
    await expect(page.locator("#detail")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(page.locator("#detail")).to_be_hidden()
    await page.keyboard.press("/")
    await expect(page.locator("#type-filter")).to_be_focused()


async def test_the_theme_is_chosen_and_remembered(stage: Stage) -> None:
    seen = await stage.open(color_scheme="light")
    page = seen.page
    await seen.says("Live")

    async def background() -> str:
        return await page.evaluate("getComputedStyle(document.body).backgroundColor")

    light = await background()
    await page.get_by_role("button", name="System theme").click()
    await page.get_by_role("button", name="Light theme").click()
    await expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert await background() != light
    await page.reload()
    await expect(page.locator("html")).to_have_attribute("data-theme", "dark")


async def test_a_narrow_screen_is_not_scrolled_sideways(stage: Stage) -> None:
    await stage.shop.dead()
    seen = await stage.open("#state=dead_letter", viewport={"width": 390, "height": 844})
    await expect(seen.page.locator("table.activities tbody tr")).to_have_count(1)
    width = await seen.page.evaluate("document.documentElement.scrollWidth")
    assert width <= 390


async def test_without_script_there_is_a_way_on(stage: Stage) -> None:
    seen = await stage.open(java_script_enabled=False)
    await expect(seen.page.get_by_role("link", name="Counts by state")).to_be_visible()
    await seen.page.get_by_role("link", name="Counts by state").click()
    await expect(seen.page.locator("body")).to_contain_text('"queue":"shop"')


async def test_the_landmarks_and_names_are_there(stage: Stage) -> None:
    await stage.shop.dead()
    seen = await stage.open("#state=dead_letter")
    await expect(seen.page.locator("table.activities tbody tr")).to_have_count(1)
    unnamed = await seen.page.evaluate(
        """() => [...document.querySelectorAll("button, a[href], input, select")]
          .filter((node) => !(node.innerText?.trim() || node.ariaLabel || node.labels?.length || node.title))
          .map((node) => node.outerHTML)"""
    )
    assert unnamed == []
    for landmark in ("header", "main", "footer"):
        await expect(seen.page.locator(f"body > {landmark}")).to_have_count(1)


async def test_a_hidden_tab_gives_its_connection_back(stage: Stage) -> None:
    seen = await stage.open()
    await seen.says("Live")
    await seen.page.evaluate(
        """() => {
          Object.defineProperty(document, "hidden", { value: true, configurable: true });
          document.dispatchEvent(new Event("visibilitychange"));
        }"""
    )
    url = stage.server.url + "metrics"

    async def clients(wanted: str) -> bool:
        response = await seen.page.request.get(url)
        return f"runnerq_console_sse_clients {wanted}" in await response.text()

    await eventually(lambda: clients("0.0"), within=30)
    await seen.page.evaluate(
        """() => {
          Object.defineProperty(document, "hidden", { value: false, configurable: true });
          document.dispatchEvent(new Event("visibilitychange"));
        }"""
    )
    await eventually(lambda: clients("1.0"))


async def test_one_part_that_fails_is_said_in_its_panel_and_leaves_the_others(
    stage: Stage,
) -> None:
    await stage.shop.enqueue()
    stage.backend.failing.add("pods")
    seen = await stage.open()
    await expect(seen.page.locator("#pools .problem")).to_contain_text("does not answer")
    await expect(seen.page.locator(".tile.pending strong")).to_have_text("1")
    await expect(seen.page.locator(".status")).to_have_text("Live")
    await expect(seen.page.locator(".notice")).to_have_count(0)
    stage.backend.failing.clear()
    await expect(seen.page.locator("#pools .problem")).to_have_count(0)

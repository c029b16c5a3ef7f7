"""The pages in a real browser: both colour schemes, three widths, no script, hostile texts."""

import os
import re
import shutil

import pytest
from playwright.sync_api import sync_playwright

from monitor.web.names import metric_path, sample_path

BROWSER = os.environ.get("GROUNDWATCH_TEST_CHROMIUM") or next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
pytestmark = pytest.mark.skipif(
    BROWSER is None, reason="no Chromium on this machine; apt-get install chromium"
)


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def paths(world, get):
    incident = re.search(r"/incidents/\w+", get("/incidents").text)[0]
    hostile = next(app for app in world.samples if app.startswith("bots/"))
    return [
        "/", metric_path("shop", "groundedness"), metric_path(hostile, "groundedness"),
        *(sample_path(sample_id) for sample_id in world.samples.values()),
        "/incidents", incident, "/channels", "/config",
    ]  # fmt: skip


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 768, 1280])
def test_pages_fit_are_quiet_and_ask_nobody_else(browser, server, paths, scheme, width):
    context = browser.new_context(
        viewport={"width": width, "height": 800}, color_scheme=scheme, reduced_motion="reduce"
    )
    page, said, asked = context.new_page(), [], []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
    page.on("request", lambda request: asked.append(request.url))
    for path in paths:
        page.goto(server.url + path)
        beyond = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert beyond <= 0, path
        assert page.title().endswith(" · groundwatch"), path
    context.close()
    assert said == []
    assert [url for url in asked if not url.startswith(server.url)] == []


def test_key_facts_are_there_without_javascript(browser, server):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(server.url)
    assert "CRITICAL" in page.inner_text("h1")
    assert "shop" in page.inner_text("table tbody tr:first-child, table tbody tr:nth-child(2)")
    assert page.locator("svg.spark").count() > 3
    context.close()


def test_page_says_that_it_is_out_of_date_when_the_server_is_silent(browser, server):
    context = browser.new_context()
    page = context.new_page()
    page.clock.install()
    page.goto(server.url)
    assert not page.locator("#stale").is_visible()
    context.set_offline(True)
    page.clock.run_for(120_000)
    assert page.locator("#stale").is_visible()
    context.close()


def test_keyboard_reaches_the_content_first_and_shows_where_it_is(browser, server):
    context = browser.new_context()
    page = context.new_page()
    page.goto(server.url)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    context.close()


def test_judge_was_wrong_works_in_the_browser(browser, server, world):
    context = browser.new_context()
    page = context.new_page()
    page.goto(server.url + sample_path(world.samples["support-bot"]))
    page.get_by_role("button", name="The judge was wrong").first.click()
    page.wait_for_url("**/sample/*")
    assert "the judge was wrong" in page.inner_text("main")
    context.close()

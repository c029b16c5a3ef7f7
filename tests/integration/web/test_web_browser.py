"""The pages in a real browser: colours, widths, zoom, no script, forms, hostile texts."""

import re
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe

from monitor.settings import Settings
from monitor.store.samples import note_act
from monitor.web.charts import ChartThresholds
from monitor.web.templating import render_html
from monitor.web.time_range import app_path, metric_path, releases_path, sample_path
from workers.reports import read_report

WCAG = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
#: The rules that depend on colour scheme and width.
OF_LOOKS = ["color-contrast", "target-size"]
BROKEN = metric_path("shop", "groundedness")


@pytest.fixture
def paths(world, get):
    incident = re.search(r"/incidents/\w+", get("/incidents").text)[0]
    hostile = next(app for app in world.samples if app.startswith("bots/"))
    return [
        "/", "/?status=healthy", app_path("shop"), releases_path("shop"),
        f"{BROKEN}?span=1h", metric_path(hostile, "groundedness"),
        *(sample_path(sample_id) for sample_id in world.samples.values()),
        "/incidents", incident, "/silences?matchers=app%3Dshop", "/noise", "/channels", "/config",
        "/audit", "/nothing",
    ]  # fmt: skip


def _watched(page):
    """Note what a page says on its console and whom it asks."""
    said, asked = [], []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
    page.on("request", lambda request: asked.append(request.url))
    return said, asked


def test_pages_fit_the_window_log_no_errors_and_load_nothing_external(open_page, server, paths):
    page = open_page(reduced_motion="reduce")
    said, asked = _watched(page)
    too_wide = []
    for path in paths:
        page.goto(server.url + path)
        assert page.title().endswith(" · groundwatch"), path
        for scheme, width in product(("light", "dark"), (390, 768, 1280)):
            page.emulate_media(color_scheme=scheme)
            page.set_viewport_size({"width": width, "height": 800})
            if page.evaluate("document.documentElement.scrollWidth > window.innerWidth"):
                too_wide.append((path, scheme, width))
    assert too_wide == []
    # A browser says itself that a page is not there.
    assert [text for text in said if "404" not in text] == []
    assert [url for url in asked if not url.startswith(server.url)] == []


def test_long_words_do_not_widen_any_page(open_page, client_with, wide_world):
    client = client_with(world=wide_world)
    ((wide, sample_id),) = wide_world.samples.items()
    incident = re.search(r"/incidents/\w+", client.get("/incidents").text)[0]
    with wide_world.store.write() as connection:
        note_act(connection, who=wide, act="saw sample", target=wide, at=datetime.now(UTC))
    file = Path(wide_world.home) / "report.html"
    file.write_text(_report(wide_world), encoding="utf-8")
    page = open_page()
    page.route("http://127.0.0.1/**", lambda route: _pass_on(route, client))
    too_wide = []
    for path in (
        "/", app_path(wide), metric_path(wide, "groundedness"), sample_path(sample_id),
        "/incidents", incident, f"/silences?matchers=app%3D{wide}", "/noise", "/audit",
        app_path(f"{wide}x"), file.as_uri(),
    ):  # fmt: skip
        page.goto(path if "://" in path else f"http://127.0.0.1{path}")
        assert wide[:50] in page.content(), path
        for width in (390, 768, 1280):
            page.set_viewport_size({"width": width, "height": 800})
            if page.evaluate("document.documentElement.scrollWidth > window.innerWidth"):
                too_wide.append((path.replace(wide, "WIDE"), width))
    assert too_wide == []

    page.goto("http://127.0.0.1/")
    column, name = (page.locator(found).first.bounding_box() for found in ("td.name", "td.name a"))
    assert name["x"] + name["width"] <= column["x"] + column["width"]  # covers no other column


def _pass_on(route, client):
    answer = client.get(route.request.url)
    route.fulfill(status=answer.status_code, headers=dict(answer.headers), body=answer.content)


def _report(world):
    settings = Settings(home=world.home, evaluate_every_s=600)
    report = read_report(world.store, settings, now=datetime.now(UTC), window_s=3600)
    return render_html(report, ChartThresholds(warning=0.85, critical=0.7))


@pytest.mark.parametrize("width", [800, 1000, 1280])
def test_names_of_metrics_are_whole_words(open_page, server, width):
    page = open_page(viewport={"width": width, "height": 800})
    page.goto(server.url)
    lines = page.locator("td.name a", has_text="groundedness").evaluate_all(
        "found => found.map(each => each.getClientRects().length)"
    )
    assert set(lines) == {1}


def test_no_page_breaks_a_rule_of_wcag(open_page, server, paths, world):
    page = open_page(color_scheme="light", viewport={"width": 1280, "height": 800})
    axe, found = Axe(), {}

    def check(path, rules):
        for broken in axe.run(page, options={"runOnly": rules}).response["violations"]:
            where = [node["html"][:120] for node in broken["nodes"][:3]]
            found.setdefault(path, []).append((broken["id"], where))

    like_another = [sample_path(sample_id) for sample_id in list(world.samples.values())[1:]]
    for path in [path for path in paths if path not in like_another]:
        page.goto(server.url + path)
        check(path, WCAG)
        page.emulate_media(color_scheme="dark")
        page.set_viewport_size({"width": 390, "height": 800})
        check(path, OF_LOOKS)
        page.emulate_media(color_scheme="light")
        page.set_viewport_size({"width": 1280, "height": 800})
    assert found == {}


def test_nothing_is_cut_off_at_double_zoom(open_page, server, paths):
    page = open_page(viewport={"width": 640, "height": 400}, device_scale_factor=2)
    for path in paths:
        page.goto(server.url + path)
        beyond = page.evaluate(
            "[...document.querySelectorAll('main *')].filter(e => !e.closest('svg, thead') &&"
            " e.getBoundingClientRect().right > window.innerWidth + 1).length"
        )
        assert beyond == 0, path


def test_key_facts_are_there_without_javascript(open_page, server):
    page = open_page(java_script_enabled=False)
    page.goto(server.url)
    assert "CRITICAL" in page.inner_text("h1")
    first = page.inner_text("table tbody tr:first-child, table tbody tr:nth-child(2)")
    assert "shop" in first
    assert "CRITICAL" in first
    assert page.locator("svg.spark").count() > 3
    assert "critical incident" in first
    page.goto(server.url + BROKEN)
    for fact in ("Why this status", "Segments", "Drift", "Worst samples", "lighthouse", "90 %"):
        assert fact in page.inner_text("main"), fact
    assert page.locator("svg.series .band").count() == 1


def test_time_range_is_chosen_and_moved_without_javascript(open_page, server):
    page = open_page(java_script_enabled=False)
    page.goto(f"{server.url}{BROKEN}?span=6h")
    page.get_by_role("link", name="Zoom in").click()
    page.get_by_role("link", name="earlier").click()
    page.get_by_label("From", exact=True).fill("2026-01-01 10:00")
    page.get_by_label("to", exact=True).fill("2026-01-01 16:00")
    page.get_by_role("button", name="Show").click()
    assert "2026-01-01 10:00:00 UTC to 2026-01-01 16:00:00 UTC" in page.text_content(".readout")


def test_dragging_over_the_chart_puts_the_range_into_the_address(open_page, server):
    page = open_page(viewport={"width": 1280, "height": 900})
    said, _ = _watched(page)
    day = [f"{datetime.now(UTC) - timedelta(hours=n):%Y-%m-%dT%H:%M}" for n in (24, 0)]
    page.goto(f"{server.url}{BROKEN}?from={day[0]}&to={day[1]}")
    box = page.locator("svg.series").bounding_box()
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * 0.5, y)
    assert ", n " in page.text_content(".readout")
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.75, y, steps=4)
    with page.expect_navigation():
        page.mouse.up()
    asked = parse_qs(urlsplit(page.url).query)
    assert set(asked) == {"from", "to"}
    length_s = page.evaluate("(d => d.to - d.from)(document.querySelector('svg.series').dataset)")
    assert 6 * 3600 < length_s < 7.5 * 3600
    assert said == []


def test_page_says_it_is_out_of_date_when_the_server_stops_answering(open_page, server):
    page = open_page()
    page.clock.install()
    page.goto(server.url)
    assert not page.locator("#stale").is_visible()
    page.context.set_offline(True)
    page.clock.run_for(120_000)
    assert page.locator("#stale").is_visible()


def test_keyboard_focus_reaches_the_content_first_and_is_visible(open_page, server):
    page = open_page()
    page.goto(server.url)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"


def test_label_works_in_the_browser(open_page, server, world):
    page = open_page()
    page.goto(server.url + sample_path(world.samples["support-bot"]))
    page.get_by_role("button", name="Fail").first.click()
    page.wait_for_url("**/sample/*")
    assert "labelled it fail" in page.inner_text("main")


def test_silence_is_previewed_created_and_ended_in_the_browser(open_page, server):
    page = open_page()
    page.goto(f"{server.url}/silences")
    page.get_by_label("Matchers (one per line").fill("app=nobody")
    page.get_by_label("Comment").fill("looked at in a browser")
    page.get_by_role("button", name="Preview").click()
    assert "no app or metric matches: check the names" in page.inner_text("main")
    assert "token" not in parse_qs(urlsplit(page.url).query)
    page.get_by_role("button", name="Silence", exact=True).click()
    row = page.get_by_role("row").filter(has_text="looked at in a browser")
    row.get_by_role("button", name="End silence").click()
    page.wait_for_url("**/silences")
    assert "looked at in a browser" not in page.locator("table").all_inner_texts().__str__()


def test_form_on_another_site_changes_nothing(open_page, server, browser):
    page = open_page()
    action = f"{server.url}/silences"
    page.route(
        "https://elsewhere.example/*",
        lambda route: route.fulfill(
            content_type="text/html",
            body=f'<form method="post" action="{action}"><input name="matchers" value="app=shop">'
            '<input name="comment" value="planted"><input name="lasts" value="7 d">'
            "<button>Win</button></form>",
        ),
    )
    page.goto("https://elsewhere.example/")
    with page.expect_response(action) as answer:
        page.get_by_role("button").click()
    assert answer.value.status == 403
    page.goto(action)
    assert "planted" not in page.inner_text("main")

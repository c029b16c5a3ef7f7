"""The pages over HTTP: key facts without a script, hostile texts inert, nothing from elsewhere."""

import re
from datetime import UTC, datetime, timedelta
from html import unescape
from html.parser import HTMLParser
from urllib.parse import urlencode, urlsplit

import pytest

from monitor.rolling.faults import Exchange, Faults, blame
from monitor.store.engine import Store
from monitor.store.schema import migrate
from monitor.store.verdicts import ReleaseMark, add_mark
from monitor.testsets import TestSet
from monitor.web.templating import environment
from monitor.web.time_range import app_path, metric_path, releases_path, sample_path
from support.waiting import wait_until

SENT_APP = (
    "bots/<script>document.title='owned'</script><img src=x onerror=alert(1)>\"'{{7*7}}\u202e"
)
#: As it is stored: a character that turns a line round is made visible.
HOSTILE_APP = SENT_APP.replace("\u202e", "\ufffd")
BROKEN = metric_path("shop", "groundedness")


class Tags(HTMLParser):
    """The tags of a page with their attributes."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


def strangers(text):
    """Find what is inline, and what is fetched or sent elsewhere."""
    tags = Tags()
    tags.feed(text)
    for tag, attributes in tags.found:
        targets = [attributes.get(name) or "" for name in ("src", "href", "action", "formaction")]
        if (
            tag == "style"
            or (tag == "script" and "src" not in attributes)
            or any(name == "style" or name.startswith("on") for name in attributes)
            or any(urlsplit(target).scheme or urlsplit(target).netloc for target in targets)
        ):
            yield tag, attributes


@pytest.fixture
def pages(world, get):
    incident = re.search(r"/incidents/\w+", get("/incidents").text)[0]
    return [
        "/", "/?status=critical&q=shop", app_path("shop"), app_path(HOSTILE_APP), BROKEN,
        releases_path("shop"), releases_path(HOSTILE_APP, before=HOSTILE_APP, after="v12"),
        metric_path(HOSTILE_APP, "groundedness"),
        *(sample_path(sample_id) for sample_id in world.samples.values()),
        "/samples", "/samples?text=refund", f"/samples?{urlencode({'app': HOSTILE_APP})}",
        "/incidents", incident, f"{incident}.md", "/labels",
        "/labels?app=shop&metric=groundedness", "/silences", "/noise", "/channels",
        "/config", "/audit",
    ]  # fmt: skip


def test_sample_can_be_downloaded_as_a_test_case(world, get, tmp_path):
    path = sample_path(world.samples["shop"])
    assert f'href="{path}/case.jsonl"' in get(path).text
    answer = get(f"{path}/case.jsonl")
    assert answer.headers["content-disposition"] == 'attachment; filename="case.jsonl"'
    (tmp_path / "golden.jsonl").write_text(answer.text)
    (case,) = TestSet.read(tmp_path / "golden.jsonl")
    assert case.id == world.samples["shop"]
    assert "production" in case.tags
    assert get("/sample/nope/case.jsonl").status_code == 404


def test_headline_title_and_icon_show_the_worst_app(get):
    page = get("/").text
    assert re.search(r"<h1[^>]*>.*\bshop\b.*CRITICAL.*</h1>", page)
    assert "<title>■" in page
    assert 'href="/favicon/critical.svg"' in page


def test_worst_row_comes_first_with_value_interval_and_n(get):
    body = get("/").text.split("<tbody>")[1]
    first = re.sub(r"<[^>]+>", " ", body.split("</tr>")[0])
    assert re.search(r"(?s)shop\s+critical incident\s.*\s+groundedness\s+■\s+CRITICAL", first)
    assert "0.0 %" in first
    assert re.search(r"0\.0–18\.4", first)
    assert re.search(r"\b12\b", first)


def test_open_incident_is_on_the_first_page(get):
    row = get("/").text.split(f'<a href="{app_path("shop")}"')[1].split("</tr>")[0]
    assert re.search(r'<a href="/incidents/\w+">critical incident</a>', row)


def test_overview_is_filtered_by_status_and_name(get):
    def apps(query):
        return set(re.findall(r'<td class="name[^"]*"><a href="(/app/[^"/]+)"', get(query).text))

    assert apps("/?status=critical") == {app_path("shop"), app_path("support-bot")}
    assert apps("/?q=SHOP") == {app_path("shop")}
    assert apps("/?status=healthy&q=nobody") == set()
    assert "No app matches" in get("/?q=nobody").text


def test_app_page_has_charts_volume_releases_segments_and_worst_samples(get):
    text = get(app_path("shop")).text
    assert len(re.findall(r'<svg class="series"', text)) == 2
    assert 'href="/incidents/' in text
    assert re.search(r"<dt>sampled</dt><dd><a [^>]*>12</a>", text)
    assert re.search(r'<a href="/releases/shop\?after=v12">v12</a>', text)
    assert "language <b>fr</b>" in text
    assert "; there are no earlier scores to compare with." in text
    assert "How long does a refund take?" in text.split("Worst samples")[1]


def test_steps_without_scores_are_drawn_as_gaps(get):
    assert '<rect class="gap"' in get("/").text


def test_no_hostile_text_reaches_a_page_as_markup(pages, get):
    for path in pages:
        page = get(path)
        assert page.status_code == 200, path
        assert "<script>document" not in page.text, path
        assert "<img" not in page.text, path


def test_template_syntax_is_shown_unevaluated(world, get):
    assert "{{7*7}}" in get(sample_path(world.samples[SENT_APP])).text


def test_pages_contain_no_inline_style_script_or_external_address(pages, get):
    for path in pages:
        assert not list(strangers(get(path).text)), path


@pytest.mark.parametrize(
    "planted",
    ["<script>x</script>", "<script src='//x.example/x.js'></script>", "<p onclick='x()'>",
     "<a href='javascript:x()'>", '<img src="https://x.example/">', "<style>", "<i style=a>"],
)  # fmt: skip
def test_forbidden_page_content_is_detected(planted):
    assert list(strangers(planted))


def test_every_response_has_security_headers(get):
    for path in ("/", "/static/style.css", "/healthz", "/api/v1/status", "/nothing"):
        headers = get(path).headers
        assert headers["content-security-policy"].startswith("default-src 'none'")
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"


def test_unchanged_page_is_answered_with_304(get):
    first = get("/config")
    again = get("/config", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_style_sheet_is_cached_under_its_content_hash(get):
    path = re.search(r'href="(/static/style\.css\?\w+)"', get("/").text)[1]
    answer = get(path)
    assert "immutable" in answer.headers["cache-control"]
    assert "prefers-color-scheme: dark" in answer.text


def test_metric_page_explains_the_status_and_shows_the_worst_samples(get):
    text = get(BROKEN).text
    for said in (
        "Why this status",
        "point_min_n",
        "critical threshold",
        "lighthouse",
        "/sample/",
    ):
        assert said in text


def test_metric_page_says_why_evaluations_have_no_score(get):
    why = '<span class="soft">(The sample has no question)</span>'
    said = f"<dd>failed 0, skipped no_query 1 {why}</dd>"

    def without_links(path):
        return re.sub(r"</?a\b[^>]*>", "", get(path).text)

    assert said in without_links("/app/support-bot/relevance")
    assert said not in without_links("/app/support-bot/groundedness")
    assert f"<dt>relevance skipped</dt><dd>no_query 1 {why}</dd>" in without_links(
        "/app/support-bot"
    )


def test_metric_page_shows_the_explanation_and_marks_the_release(get):
    text = get(BROKEN).text
    explained = text.split('<section aria-label="Likely cause"')[1].split("</section>")[0]
    assert re.search(r"<li>deploy v12 at .*: not decided</li>", explained)
    assert re.search(r'<g class="mark"><line [^>]*/><text [^>]*>v12</text></g>', text)


def test_release_recorded_after_the_explanation_is_marked_at_once(world, get):
    at = datetime.now(UTC)
    with world.store.write() as connection:
        add_mark(connection, ReleaseMark("support-bot", "v13", at, "", at))
    assert ">v13</text>" in get(metric_path("support-bot", "groundedness")).text


def test_series_covers_the_span_of_the_address(get):
    days = [f"{datetime.now(UTC) - timedelta(days=n):%Y-%m-%dT%H:%M}" for n in (7, 0)]
    week = urlencode({"from": days[0], "to": days[1]})
    tables = [get(f"{BROKEN}?{query}").text.count("<tr data-at=") for query in ("span=15m", week)]
    assert tables[0] > tables[1] >= 1


def test_span_reaches_no_further_back_than_the_first_score(get):
    text = get(f"{BROKEN}?span=30d").text
    found = re.search(r'<svg class="series"[^>]* data-from="(\d+)" data-to="(\d+)"', text)
    assert int(found[2]) - int(found[1]) < 3600


def test_series_covers_the_range_of_the_address(get):
    text = get(f"{BROKEN}?from=2026-01-01T10:00&to=2026-01-01T16:00").text
    assert "2026-01-01 10:00:00 UTC to 2026-01-01 16:00:00 UTC" in text
    assert "No scores in this time range." in text
    earlier = re.search(r'href="\?([^"]+)">← earlier', text)[1]
    assert earlier == "from=2026-01-01T07%3A00&amp;to=2026-01-01T13%3A00"


def test_invalid_address_shows_the_default_time_range(get):
    for query in ("from=x&to=y", "span=never", "from=9999-12-31&to=0001-01-01", "from=&to="):
        assert get(f"{BROKEN}?{query}").status_code == 200, query


def test_end_before_the_start_is_said_beside_the_form(get):
    said = (
        "Invalid time range: expected an end after its start; the chart shows another time range."
    )
    assert said in get(f"{BROKEN}?from=2026-01-01T08:30&to=2026-01-01T08:10").text
    assert said not in get(f"{BROKEN}?from=2026-01-01T08:10&to=2026-01-01T08:30").text
    assert "Invalid time &#39;&lt;x&gt;&#39;" in get(f"{BROKEN}?from=<x>").text


def test_empty_page_shows_the_lines_to_add_and_how_to_check_them(client_with, sqlite_url):
    store = Store(sqlite_url)
    migrate(store)
    text = client_with(GROUNDWATCH_DATABASE_URL=sqlite_url).get("/").text
    store.close()
    snippet = unescape(text.split('<pre class="code">')[1].split("</pre>")[0])
    assert "groundwatch.init(app=" in snippet
    assert "groundwatch.sample(query=" in snippet
    compile(snippet, "page", "exec")
    assert "groundwatch doctor hook" in text


def test_metric_without_earlier_scores_shows_no_comparison(get):
    table = get(BROKEN).text.split("<h2>Segments</h2>")[1].split("</table>")[0]
    assert "there are no earlier scores to compare with" in table
    assert " before</span>" not in table


def test_open_incident_page_begins_with_rate_start_and_reason(get):
    text = get(re.search(r'(/incidents/\w+)">shop', get("/incidents").text)[1]).text
    first = text.split("<h1>")[1].split("<form")[0]
    assert re.search(r"now 0\.0 % \(0\.0–[^)]*\).*, n <a[^>]*>12</a> since <time", first)
    assert "below" in first


def test_metric_page_shows_the_alert_phase_and_next_reminder(get):
    why = get(BROKEN).text.split("Why this status")[1].split("</dl>")[0]
    assert re.search(r"<dt>alert</dt><dd>firing since 20", why)
    assert "<dt>next reminder</dt>" in why


def test_segments_are_shown_with_share_rate_and_contribution(get):
    table = get(BROKEN).text.split("<h2>Segments</h2>")[1].split("</table>")[0]
    rows = [re.sub(r"<[^>]+>", " ", row).split() for row in table.split("<tr>")[2:]]
    english = next(row for row in rows if row[:2] == ["language", "en"])
    assert english[2:4] == ["33.3", "%"]
    assert len(rows) == 3


def test_sample_page_marks_each_claim_and_its_evidence(world, get):
    good = get(sample_path(world.samples["support-bot"])).text
    assert good.count('<mark class="supported"') >= 2  # in the answer, and in the passage
    assert re.search(r"<summary>\d claims?(?:, \d without one)?</summary>", good)
    bad = get(sample_path(world.samples["shop"])).text
    assert re.search(r'<mark class="not-found"[^>]*>Wire four ducats', bad)


def test_sample_page_says_where_a_passage_comes_from(world, get):
    page = get(sample_path(world.samples["shop"])).text
    contexts = page.split("<h2>Contexts")[1].split("</section>")[0]
    assert '<p class="soft small">1 · source terms.pdf</p>' in contexts


def test_incidents_are_listed_with_times_that_follow_the_readers_zone(get):
    fired = re.findall(r'<td data-label="fired">(<[^>]*>)', get("/incidents").text)
    assert fired
    assert all(tag.startswith('<time class="at" datetime="2') for tag in fired)


def test_incident_page_shows_the_timeline_and_who_was_notified(get):
    path = re.search(r"/incidents/\w+", get("/incidents").text)[0]
    text = get(path).text
    assert "fired" in text
    assert "slack" in text


def test_incident_page_has_chart_cause_and_each_sample_once(get):
    text = get(re.search(r'(/incidents/\w+)">shop', get("/incidents").text)[1]).text
    assert re.search(r'<svg class="series"[^>]*>.*<rect class="span critical"', text)
    cause = text.split("<h2>Likely cause</h2>")[1].split("</dl>")[0]
    # Nothing is said of what was not compared, here the segments.
    assert re.findall(r"<dt>([^<]*)</dt>", cause) == [
        "release",
        "retrieval or generation",
        "evaluator",
    ]
    assert "v12 went live" in cause
    samples = re.findall(r'href="/sample/([^?"]+)\?([^"]+)"', text)
    assert len({sample for sample, _ in samples}) == len(samples) >= 1
    assert all("outcome=failed" in query for _, query in samples)


def test_incident_page_leads_to_the_failed_samples_on_which_it_fired(get):
    text = get(re.search(r'(/incidents/\w+)">shop', get("/incidents").text)[1]).text
    address = re.search(r'<a href="([^"]+)">All samples that failed groundedness<', text)[1]
    assert len(re.findall(r'href="/sample/[^"]+"', get(unescape(address)).text)) == 12


def test_incident_segments_cover_samples_since_its_start(get):
    text = get(re.search(r'(/incidents/\w+)">shop', get("/incidents").text)[1]).text
    table = text.split("<h2>Segments</h2>")[1].split("</table>")[0]
    said = r"Pass rate of groundedness since <time[^>]*>[^<]+</time>; there are no earlier scores"
    assert re.search(said, table)
    counts = re.findall(r'data-label="n"><a href="([^"]+)">(\d+)</a>', table)
    assert counts
    for address, n in counts:
        found = get(unescape(address)).text
        assert len(re.findall(r'href="/sample/[^"]+"', found)) >= int(n)


def test_app_charts_cover_the_time_with_scores(get):
    steps = re.findall(r"last ([^,<]+), steps of ([^<]+)</p>", get(app_path("shop")).text)
    assert len(steps) == 2
    assert "30 min" not in {step for _, step in steps}


def test_incident_is_exported_as_markdown_for_a_ticket(get):
    path = re.search(r'(/incidents/\w+)">shop', get("/incidents").text)[1]
    answer = get(f"{path}.md")
    assert answer.headers["content-type"].startswith("text/markdown")
    assert answer.text.startswith("# shop, groundedness, relevance: critical\n")
    for part in ("## Likely cause", "## Samples", "## Timeline", "## Notifications"):
        assert part in answer.text
    assert f"]({answer.url.copy_with(path=path)})" in answer.text
    assert get("/incidents/nope.md").status_code == 404


def test_slow_page_parts_are_computed_in_the_background(get):
    path = re.search(r'(/incidents/\w+)">shop', get("/incidents").text)[1]
    get(f"{path}.md")  # a ticket waits for it
    assert "Too few samples to compare by their words" in get(path).text
    get(app_path("shop"))
    get(BROKEN)
    get(f"{path}.md")  # one thread computes them in turn
    wait_until(lambda: "Still computing" not in get(BROKEN).text)
    assert "None beyond chance in the last 24 h" in get(app_path("shop")).text
    assert "has no scores of the last day to plan from" in get(BROKEN).text
    assert 'class="volume"' in get(app_path("shop")).text


def test_blame_table_gives_each_cause_its_share_of_the_fall():
    before = [
        Exchange("How are refunds paid?", ["Refunds go to the card."], i > 1) for i in range(40)
    ]
    after = [
        Exchange("How are refunds paid?", ["Tickets open at noon."], i > 20) for i in range(40)
    ]
    faults = Faults(40, 40, 21, blame(before, after), (), ())
    card = environment().get_template("macros.html").module.blame_card(faults)
    shares = re.findall(r'data-label="share of the fall">([^<]*)<', card)
    assert len(shares) == 3
    assert "21 of the newest 40 samples since it began fail" in card


def test_links_lead_from_the_first_page_to_every_page_about_all_apps(get):
    reached, to_read = set(), ["/"]
    while to_read:
        reached.add(path := to_read.pop())
        links = re.findall(r'href="(/[a-z]+)"', get(path).text)
        to_read += [link for link in dict.fromkeys(links) if link not in {*reached, *to_read}]
    assert reached >= {"/samples", "/incidents", "/labels", "/silences", "/noise", "/channels"}
    assert reached >= {"/config", "/audit"}


def test_settings_page_shows_no_secret(get, slack):
    text = get("/config").text.replace("<wbr>", "")
    assert "GROUNDWATCH_WARNING_RATE" in text
    assert "<b>GROUNDWATCH_MIN_N</b>" in text
    assert "<b>GROUNDWATCH_SCORER</b>" not in text  # `auto`, which stands for another one
    assert slack.url not in text


def test_missing_page_is_answered_with_404(get):
    for path in ("/nothing", "/sample/x", "/incidents/x", "/app/x", "/app/x/y"):
        assert get(path).status_code == 404, path


def test_health_and_readiness_endpoints_answer_200(get):
    assert (get("/healthz").status_code, get("/readyz").status_code) == (200, 200)


def test_pages_with_transcripts_are_not_cached(world, get):
    incident, sample = (
        re.search(r"/incidents/\w+", get("/incidents").text)[0],
        world.samples["shop"],
    )
    for path in (
        BROKEN, app_path("shop"), releases_path("shop"), incident, f"{incident}.md", "/samples",
        "/labels?app=shop&metric=groundedness", sample_path(sample), "/samples.csv",
        f"{sample_path(sample)}/case.jsonl", "/api/v1/samples",
    ):  # fmt: skip
        assert get(path).headers["cache-control"] == "no-store", path
    assert get("/incidents").headers["cache-control"] == "private, no-cache"

"""The list of samples: what it shows, where numbers lead, what is exported, who may see it."""

import csv
import html
import io
import json
import re
from html.parser import HTMLParser

import pytest

from monitor.web.auth import Role, new_token
from monitor.web.time_range import app_path, metric_path, releases_path, sample_path

LISTED = re.compile(r'<td class="wide"><a href="(/sample/[^"]+)"')
PASSING = metric_path("support-bot", "groundedness")
BROKEN = metric_path("shop", "groundedness")


def listed(text):
    return [html.unescape(path) for path in LISTED.findall(text)]


def links(text, part):
    """Return the addresses on a page that lead to lists of samples, and hold *part*."""
    found = map(html.unescape, re.findall(r'href="(/samples\?[^"]+)"', text))
    return [path for path in found if part in path]


def test_list_shows_question_answer_and_scores(get):
    text = get("/samples?app=shop").text
    assert len(listed(text)) == 12
    assert "How long does a refund take?" in text
    assert "lighthouse keeper" in text
    assert re.search(r"fail</span> groundedness <span class=\"num\">0\.\d\d", text)


@pytest.mark.parametrize(
    ("query", "n"),
    [
        ("app=shop&metric=groundedness&outcome=failed", 12),
        ("app=shop&metric=groundedness&outcome=passed", 0),
        ("app=shop&segment=language%3Dfr", 4),
        ("text=ducats+lighthouse", 12),
        ("app=support-bot&metric=relevance&reason=no_query", 1),
        ("app=nobody", 0),
    ],
)
def test_filters_of_an_address_narrow_the_list(get, query, n):
    assert len(listed(get(f"/samples?{query}").text)) == n


def test_pagination_links_cover_the_whole_list(get):
    path, seen = "/samples?app=shop&limit=5", []
    while path:
        text = get(path).text
        seen += listed(text)
        following = re.search(r'<a href="([^"]+)" rel="next">Next page', text)
        path = f"{html.unescape(following[1])}&limit=5" if following else ""
    assert len(seen) == len(set(seen)) == 12


@pytest.mark.parametrize("query", ["min_score=1", "sort=lowest", "limit=0", "since=x", "cursor=x"])
def test_wrong_filter_says_what_is_wrong(get, query):
    page = get(f"/samples?{query}")
    assert page.status_code == 400
    assert 'role="alert"' in page.text


def test_sample_leads_to_its_neighbours_in_the_filtered_list(get):
    first, second, third = listed(get("/samples?app=shop&outcome=failed").text)[:3]
    text = get(second).text
    assert html.unescape(re.search(r'<a href="([^"]+)" rel="prev"', text)[1]) == first
    assert html.unescape(re.search(r'<a href="([^"]+)" rel="next"', text)[1]) == third


def test_segment_count_links_to_exactly_its_samples(get):
    text = get(BROKEN).text
    row = re.search(r"language <b>fr</b>.*?data-label=\"n\"><a href=\"([^\"]+)\">(\d+)</a>", text)
    assert len(listed(get(html.unescape(row[1])).text)) == int(row[2]) == 4


def test_histogram_bars_link_to_all_scores_of_the_window(get):
    text = get(PASSING).text
    bars = links(text.split("<h2>Scores now")[1].split("</svg>")[0], "min_score")
    whole = links(text.split("<h2>Scores now")[1].split("</section>")[0], "scored")[-1]
    found = [path for bar in bars for path in listed(get(bar).text)]
    ids = sorted(path.split("?")[0] for path in found)
    assert ids == sorted(path.split("?")[0] for path in listed(get(whole).text))


def test_reason_for_a_missing_score_links_to_its_sample(get):
    page = get(metric_path("support-bot", "relevance")).text
    (path,) = set(links(page, "reason=no_query"))
    assert "(The sample has no question)" in page
    (sample,) = listed(list_page := get(path).text)
    assert '<span class="soft">The sample has no question.</span>' in list_page
    assert "The sample has no question." in get(sample).text


@pytest.mark.parametrize(
    ("app", "failed", "said"), [("shop", 3, "not resolved"), ("support-bot", 0, "resolved")]
)
def test_sample_has_the_scores_of_its_session(world, get, app, failed, said):
    sample = get(f"/api/v1/samples/{world.samples[app]}").json()
    [session] = [each for each in sample["session"] if each["metric"] == "groundedness"]
    assert (session["turns"], session["failed"], session["resolved"]) == (3, failed, failed == 0)
    assert session["worst_sample_id"]
    page = re.sub(r"<[^>]+>", "", get(f"/sample/{world.samples[app]}").text)
    assert re.search(rf"groundedness: 3 turns, {failed} failed, worst 0\.\d\d, {said}", page)


def test_every_sample_link_on_a_metric_page_works(get):
    found = set(links(get(BROKEN).text, ""))
    assert len(found) > 8
    for path in found:
        assert get(path).status_code == 200, path


def test_export_contains_what_the_list_shows(get):
    lines = get("/samples.jsonl?app=shop&outcome=failed").text.splitlines()
    assert {json.loads(line)["app"] for line in lines} == {"shop"}
    assert len(lines) == 12
    answer = get("/samples.csv?app=shop&metric=groundedness&outcome=failed")
    assert 'filename="samples.csv"' in answer.headers["content-disposition"]
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert len(rows) == 24  # two metrics each
    assert rows[0]["output"].startswith("Wire four ducats")


def test_api_returns_the_same_list_page_by_page(get):
    first = get("/api/v1/samples?app=shop&limit=7").json()
    second = get(f"/api/v1/samples?app=shop&limit=7&cursor={first['next']}").json()
    assert [len(first["items"]), len(second["items"]), second["next"]] == [7, 5, None]
    assert get("/api/v1/samples?sort=lowest").status_code == 400


def test_expired_sample_is_shown_as_not_scored(get, world):
    assert "No evaluations yet" not in get(sample_path(world.samples["shop"])).text


def test_viewer_token_cannot_list_samples(client_with):
    token, entry = new_token(Role.VIEWER, "screen")
    client = client_with(GROUNDWATCH_WEB_TOKENS=entry)
    for path in ("/samples", "/samples.jsonl", "/samples.csv", "/api/v1/samples"):
        answer = client.get(path, headers={"Authorization": f"Bearer {token}"})
        assert answer.status_code == 403, path


def test_sample_export_as_test_case_needs_the_reader_role(world, client_with):
    made = {role: new_token(role, role.name.lower()) for role in Role}
    client = client_with(GROUNDWATCH_WEB_TOKENS=",".join(entry for _, entry in made.values()))
    path = f"{sample_path(world.samples['shop'])}/case.jsonl"
    codes = {
        role: client.get(path, headers={"Authorization": f"Bearer {token}"}).status_code
        for role, (token, _) in made.items()
    }
    assert codes == {Role.VIEWER: 403, Role.READER: 200, Role.OPERATOR: 200}


#: What a page says of a number when it counts samples: a word before or after it, or a column.
COUNT = re.compile(r"\bn \d|\d (?:of the newest|samples|scores|answers|failures|turns?|failed)\b")
CELLS = {"n", "failures", "not scored", "sampled", "scored", "labels"}
#: Counts without a link, and why.
WITHOUT_LINK = {
    r"needs \d+ scores": "how many a status needs",
    r"decides?\b|30 each are needed": "samples that are still to come",
    r"reference|before": "of times that need not adjoin",
    r"\(n [\d,]+|^n: ": "of a finding, when it was made",
    r" %, n [\d,]+$": "of a status that is over",
    r"answers were sampled": "of what users said, whose answers are listed below it",
}


class Numbers(HTMLParser):
    """The numbers of samples on a page: those with a link to a list, and those without one."""

    def __init__(self, page):
        super().__init__()
        self.linked, self.bare = [], []
        self.link = self.cell = ""
        self.is_name = False
        self.name = ""  # of a fact: what stands in its <dt>
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        if tag == "a":
            self.link = attributes.get("href") or ""
        elif tag in {"td", "dt", "li", "p"}:
            self.cell = attributes.get("data-label") or ""
        elif tag == "dd":
            self.cell = self.name
        self.is_name = tag == "dt"

    def handle_endtag(self, tag):
        self.link = "" if tag == "a" else self.link
        self.cell = "" if tag in {"td", "dd"} else self.cell

    def handle_data(self, data):
        data = " ".join(data.split())
        if self.is_name:
            self.name, self.is_name = data, False
        elif self.link.startswith("/samples?") and re.fullmatch(r"\d[\d,]*", data):
            self.linked.append((self.link, int(data.replace(",", ""))))
        elif not self.link and (
            COUNT.search(data) or (self.cell in CELLS and re.fullmatch(r"[1-9][\d,]*", data))
        ):
            self.bare.append(f"{self.cell}: {data}")


def test_every_sample_count_links_to_exactly_those_samples(world, get):
    incident = re.search(r"/incidents/\w+", get("/incidents").text)[0]
    pages = [
        "/", app_path("shop"), app_path("support-bot"), BROKEN, PASSING, releases_path("shop"),
        metric_path("support-bot", "relevance"), incident, "/labels", "/noise",
        sample_path(world.samples["shop"]),
    ]  # fmt: skip
    followed = 0
    for path in pages:
        # The first look of this world is five seconds older than its newest sample.
        numbers = Numbers(get(path).text.split("<h2>Timeline</h2>")[0])
        bare = [n for n in numbers.bare if not any(re.search(why, n) for why in WITHOUT_LINK)]
        assert not bare, path
        for link, n in numbers.linked:
            lines = get(link.replace("/samples?", "/samples.jsonl?", 1)).text.splitlines()
            assert len(lines) == n, (path, link)
            followed += 1
    assert followed > 20

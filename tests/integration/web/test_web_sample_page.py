"""The page of a sample says what the app sent, and what of it could not be kept."""

import re
from datetime import UTC, datetime
from html import unescape
from types import SimpleNamespace

import pytest

from monitor.hook.capture import capture
from monitor.hook.encoding import encode
from monitor.hook.masks import build
from monitor.hook.options import Options
from monitor.queue import wire
from monitor.settings import Settings
from monitor.store.engine import Store
from monitor.store.retention import blank
from monitor.store.schema import migrate
from monitor.store.write import record
from monitor.web.time_range import sample_path
from workers.scoring_run import ScoringRules, result_of

OPTIONS = Options(app="bot")
RULES = ScoringRules(pass_score=0.7, bucket_s=60)


@pytest.fixture
def show(client_with, tmp_path):
    """Store what an app hands to its hook; return the text of the sample's page."""
    store = Store(Settings.from_env({"GROUNDWATCH_HOME": str(tmp_path)}).sql_url)
    migrate(store)

    def show(path=None, options=OPTIONS, why=None, **given):
        now = datetime.now(UTC)
        draft = capture({"output": "a", **given}, 10_000, int(now.timestamp() * 1e9), 1)
        entry = encode(draft, options, hook_id="h", sample_rate=1.0, randomness=7).entry
        sample = wire.decode(entry)
        with store.write() as connection:
            record(connection, [result_of(sample, [], RULES, now=now)], now=now, bucket_s=60)
            if why is not None:
                blank(connection, [sample.sample_id], why=why)
        client = client_with(world=SimpleNamespace(home=str(tmp_path)))
        page = client.get(path or sample_path(sample.sample_id)).text
        return " ".join(unescape(re.sub(r"<[^>]+>", " ", page)).split())

    yield show
    store.close()


def test_page_says_which_fields_could_not_be_read(show):
    page = show(query=object(), contexts=[{"txt": "a"}])
    expected = 'Contexts could not be read: expected text or {"text": ...}, got <dict>.'
    assert expected in page
    assert "Query could not be read: expected text, got <object>." in page
    assert "Contexts (0) None could be read." in page
    assert "Some contexts could not be read" in show(contexts=[{"txt": "a"}, "b"])


@pytest.mark.parametrize("noted", [{"contexts": 1}, "contexts", {"other": "x"}, ["contexts"]])
def test_metadata_of_the_apps_own_is_no_error_of_the_page(show, noted):
    assert "Contexts (1)" in show(contexts=["c"], metadata={"unreadable": noted})


def test_page_has_the_samples_id_and_the_apps_own(show):
    page = show(id="req-3")
    assert re.search(r"\bid [\w-]{36} the app's id req-3\b", page)
    assert "the app's id" not in show()


@pytest.mark.parametrize(
    ("output", "capture", "said"),
    [("", "full", "(empty answer)"), ("a", "metadata", "(text not captured)"), ("a", "full", "")],
)
def test_answer_without_text_says_why(show, output, capture, said):
    options = Options(app="bot", capture=capture)
    for page in (show(output=output, options=options), show("/samples", options=options)):
        shown = re.findall(r"\((?:empty answer|text [a-z ]+)\)", page)
        assert set(shown) == ({said} if said else set())


def test_answer_that_was_deleted_is_called_removed(show):
    assert "(text removed)" in show(why="forgotten")
    assert "(text removed)" in show("/samples", why="too old")


CALLS = [
    {"name": "search<b>", "arguments": {"q": "<i>refund</i>"}, "result": "3 pages of a@b.example"},
    {"name": "fetch", "result": "x" * 601, "error": "late", "duration_ms": 12.5},
]


def test_tool_calls_are_shown_as_they_are_stored(show):
    page = show(tool_calls=CALLS, options=Options(app="bot", mask=build("email")))
    assert "Tool calls (2)" in page
    assert 'search<b> arguments {"q":"<i>refund</i>"} result 3 pages of [EMAIL]' in page
    assert f"fetch 12.5 ms ■ error late result (601 characters) {'x' * 601}" in page
    assert "2 tool calls" in show("/samples")

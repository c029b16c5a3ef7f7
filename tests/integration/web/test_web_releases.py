"""Two releases side by side: figures with intervals, and the questions on which they differ."""

import re
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from monitor.models import CustomEvaluation, Interaction
from monitor.settings import Settings
from monitor.store.engine import Store
from monitor.store.schema import migrate
from monitor.store.write import record
from monitor.testing import make_sample
from monitor.web.auth import Role, new_token
from workers.scoring_run import ScoringRules, result_of

RULES = ScoringRules(pass_score=0.7, bucket_s=60, dimensions=("release",))


@pytest.fixture(scope="module")
def two_releases(tmp_path_factory):
    home, now = tmp_path_factory.mktemp("releases"), datetime.now(UTC)
    store = Store(Settings.from_env({"GROUNDWATCH_HOME": str(home)}).sql_url)
    migrate(store)
    results = []
    for release, score, begun_h in (("v1", 0.9, 5), ("v2", 0.2, 2)):
        for number in range(120):
            interaction = Interaction(
                id=uuid4().hex, app="shop", output="yes", release=release,
                query=f"Question {number}?" if number else "Only in one?" if begun_h == 5 else "x?",
            )  # fmt: skip
            at = now - timedelta(hours=begun_h) + timedelta(seconds=30 * number)
            found = CustomEvaluation(
                evaluator_name="groundedness", evaluator_version="t pass 0.7",
                target_event_id=interaction.id, score=score if number % 4 else 0.9,
                criteria={"pass_score": 0.7, "direction": "higher"},
            )  # fmt: skip
            # All pass, and the mean falls a little: worse at one look, and no fall of the rate.
            mean = CustomEvaluation(
                evaluator_name="relevance", evaluator_version="t pass 0.7",
                target_event_id=interaction.id,
                score=(0.99 if release == "v1" else 0.93) - 0.01 * (number % 3),
                criteria={"pass_score": 0.7, "direction": "higher"},
            )  # fmt: skip
            sample = make_sample(interaction, sampled_at=at)
            results.append(result_of(sample, [found, mean], RULES, now=at))
    with store.write() as connection:
        record(connection, results, now=now, bucket_s=60)
    store.close()
    return type("Home", (), {"home": str(home)})


@pytest.fixture
def get(two_releases, client_with):
    return client_with(world=two_releases).get


def words(text):
    return " ".join(re.sub(r"<[^>]+>", " ", text).split())


def test_newest_release_is_compared_with_the_one_before(get):
    text = get("/releases/shop").text
    assert "Keep v1: v2 is worse in groundedness." in words(text)
    row = words(text.split("<tbody>")[1].split("</tr>")[0])
    assert re.match(r"groundedness 100\.0 % \d+\.\d–100\.0, n 120 25\.0 % \d+\.\d–", row)
    assert "−75.0 pts" in row
    assert "■ worse" in row


def test_headline_names_only_what_the_verdicts_call_worse(get):
    text = get("/releases/shop").text
    row = words(text.split("<tbody>")[1].split("</tr>")[1])
    assert row.startswith("relevance 100.0 %")
    assert row.endswith("0.98 to 0.92 v1")
    assert "worse" not in row
    assert "relevance" not in words(text.split("<table")[0])
    assert "Not decided yet: groundedness, relevance." in words(
        get("/releases/shop?before=v2&after=v1").text
    )


def test_questions_are_listed_that_only_one_release_answered_well(get):
    table = get("/releases/shop?before=v1&after=v2").text.split("different results</h2>")[1]
    rows = [words(row) for row in table.split("<tr>")[2:]]
    assert len(rows) == 20
    assert all(re.match(r"Question \d+\? groundedness ● pass ■ fail", row) for row in rows)
    back = get("/releases/shop?before=v2&after=v1").text.split("different results</h2>")[1]
    assert words(back.split("<tr>")[2]).endswith("■ fail ● pass")


def test_single_release_says_what_a_comparison_needs(get):
    assert "Two releases are needed" in get("/releases/nobody").text
    assert "No metric has scores of both v1 and v9" in get("/releases/shop?before=v1&after=v9").text


def test_idle_app_is_not_reported_as_without_segments(get):
    text = words(get("/app/shop").text)
    assert "Segments None with scores in the last 1 h. For segments, tag samples" in text


def test_viewer_sees_figures_and_no_questions(two_releases, client_with):
    token, entry = new_token(Role.VIEWER, "tv")
    client = client_with(world=two_releases, GROUNDWATCH_WEB_TOKENS=entry)
    text = client.get("/releases/shop", headers={"Authorization": f"Bearer {token}"}).text
    assert "■ worse" in text
    assert "Question 1?" not in text

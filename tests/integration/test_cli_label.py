"""``groundwatch label`` in the terminal, its files, and its mistakes."""

import json
from datetime import UTC, datetime

import pytest
from typer.testing import CliRunner

from monitor.cli.app import app
from monitor.models import Status
from monitor.rolling.tallies import stream_key
from monitor.store.engine import Store
from monitor.store.feedback import Feedback, save_feedback
from monitor.store.labels import all_labels
from monitor.store.samples import read_sample
from monitor.store.verdicts import save_verdicts
from monitor.store.write import record
from monitor.testing import make_evaluation, make_interaction, make_sample, make_verdict
from workers.scoring_run import ScoringRules, result_of

VERSION = stream_key("bot", make_evaluation(), pass_score=0.7).evaluator_version


@pytest.fixture
def bot(sqlite_url, monkeypatch):
    """The ids of four samples of one app; the last two failed."""
    monkeypatch.setenv("GROUNDWATCH_DATABASE_URL", sqlite_url)
    store, now, ids = Store(sqlite_url), datetime.now(UTC), []
    with store.write() as connection:
        for score in (0.9, 0.9, 0.1, 0.1):
            it = make_interaction(
                app="bot", output="A refund takes \x1b[31mfive days.", trace_id=f"t{len(ids)}"
            )
            sample = make_sample(it, sampled_at=now)
            rules = ScoringRules(pass_score=0.7, bucket_s=60)
            found = [make_evaluation(target_event_id=it.id, score=score)]
            record(connection, [result_of(sample, found, rules, now=now)], now=now, bucket_s=60)
            ids.append(sample.sample_id)
        save_verdicts(connection, [make_verdict(Status.HEALTHY, now, app="bot")], {})
    store.close()
    return ids


def run(*words, keys=None):
    return CliRunner().invoke(app, ["label", *words], input=keys)


def stored(sqlite_url):
    store = Store(sqlite_url)
    with store.read() as connection:
        found = list(all_labels(connection))
    store.close()
    return found


def test_label_keys_work_for_pass_fail_skip_and_quit(bot, sqlite_url):
    done = run("--annotator", "ann", keys="pfsq")
    assert done.exit_code == 0, done.output
    assert "labelled 2, skipped 1" in done.stdout
    found = stored(sqlite_url)
    assert [(item.labelled_by, item.human_passed, item.drawn) for item in found] == [
        ("ann", True, True), ("ann", False, True),
    ]  # fmt: skip
    assert {item.judge_passed for item in found} == {True, False}


def test_evaluators_verdict_is_hidden_until_the_label_is_given(bot):
    shown, _, after = run(keys="pq").stdout.partition("the evaluator said")
    assert "refund" in shown
    assert "0.9" not in shown
    assert "0.1" not in shown
    assert "as you did" in after or "unlike you" in after


def test_texts_cannot_send_terminal_control_codes(bot):
    assert "\x1b[31m" not in run(keys="q").stdout


def test_export_can_be_imported_again_and_changes_nothing(bot, sqlite_url, tmp_path):
    run("--annotator", "ann", keys="pfpfq")
    file = tmp_path / "labels.jsonl"
    assert run("export", "-o", str(file)).exit_code == 0
    before = stored(sqlite_url)
    done = run("import", str(file))
    assert "stored 0, changed 0, duplicate 4, refused" in done.stdout
    assert stored(sqlite_url) == before


def test_import_reports_refused_labels_and_keeps_them(bot, sqlite_url, tmp_path):
    file, kept = tmp_path / "in.jsonl", tmp_path / "refused.jsonl"
    lines = [
        {"sample_id": bot[0], "label": 1, "annotator": "vendor"},
        {"sample_id": "gone", "label": 1},
    ]
    file.write_text("\n".join(json.dumps(line) for line in lines) + "\nnot json\n")
    done = run("import", str(file), "--refused", str(kept))
    assert done.exit_code == 1
    assert "line 2: unknown_sample: no sample gone" in done.output
    assert "line 3: unreadable: not JSON" in done.output
    assert "stored 1" in done.stdout
    assert [item.labelled_by for item in stored(sqlite_url)] == ["vendor"]
    assert kept.read_text().splitlines() == [json.dumps(lines[1]), "not json"]


def test_stats_show_agreement_and_confusion(bot):
    assert "no labels yet" in run("stats").stdout
    run(keys="pppp")
    (found,) = json.loads(run("stats", "--json").stdout)
    assert (found["n"], found["agreement"], found["kappa"]) == (4, 0.5, 0.0)
    assert found["confusion"]["failed_good"] == 2
    assert "2 of 4 agree" in " ".join(run("stats").stdout.split())


def test_complaints_are_offered_with_the_users_words_and_are_not_drawn(bot, sqlite_url):
    store, now = Store(sqlite_url), datetime.now(UTC)
    with store.write() as connection:
        trace_id = read_sample(connection, bot[2]).sample.interaction.trace_id
        said = Feedback(
            feedback_id="f", app="bot", trace_id=trace_id, good=False, comment="not true",
            given_at=now,
        )  # fmt: skip
        save_feedback(connection, [said], source="hook", now=now, bucket_s=60)
    store.close()
    shown = run("--complaints", keys="f").stdout
    assert "a user said: not true" in shown
    (label,) = stored(sqlite_url)
    assert (label.sample_id, label.human_passed, label.drawn) == (bot[2], False, False)
    assert "labelled 0" in run("--complaints", keys="f").stdout


def test_unknown_app_is_named(bot):
    done = run("--app", "shop", keys="q")
    assert done.exit_code != 0
    assert "shop" in str(done.exception)


def test_report_shows_how_the_evaluator_and_people_agree(bot, sqlite_url):
    store = Store(sqlite_url)
    with store.write() as connection:
        verdict = make_verdict(
            Status.HEALTHY, datetime.now(UTC), app="bot", evaluator_version=VERSION
        )
        save_verdicts(connection, [verdict], {})
    store.close()
    run(keys="pppp")
    for form in ("text", "md"):
        said = CliRunner().invoke(app, ["report", "--format", form]).stdout
        assert "people: 2 of 4 agree (50.0 %, 15.0–85.0), kappa 0.00" in " ".join(said.split())

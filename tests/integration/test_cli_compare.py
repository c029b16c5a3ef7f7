"""``groundwatch compare`` and the gate on live releases, on a store with scored samples."""

import json
from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from typer.testing import CliRunner

from monitor.cli.app import app
from monitor.errors import SettingsError
from monitor.models import Evaluation
from monitor.store.drift import save_states
from monitor.store.engine import Store
from monitor.store.query import active_streams
from monitor.store.write import record
from monitor.testing import make_evaluation, make_interaction, make_sample
from monitor.testsets.releases import read_parts
from workers.scoring_run import ScoringRules, result_of

NOW = datetime.now(UTC)
pytestmark = pytest.mark.usefixtures("fresh_now")
RULES = ScoringRules(pass_score=0.7, bucket_s=60, dimensions=("release", "variant"))
RANDOM = Random(7)


def scored(at, rate, version="local-1", **interaction):
    sample = make_sample(make_interaction(app="shop", **interaction), sampled_at=at)
    named = {"target_event_id": "i", "evaluator_name": "groundedness", "evaluator_version": version}
    if rate is None:
        skipped = Evaluation.skipped(reason="no_context", **named)
        return result_of(sample, [skipped], RULES, now=NOW)
    score = RANDOM.choice((0.8, 0.9, 1.0)) if RANDOM.random() < rate else RANDOM.choice((0.1, 0.5))
    return result_of(
        sample, [make_evaluation(score=score, evaluator_version=version)], RULES, now=NOW
    )


def fill(store, rates, n, **more):
    """Write *n* samples for each (field, value, rate), spread over the last two hours."""
    results = [
        scored(NOW - timedelta(minutes=2 + k * 100 / n), rate, **{**more, **fields})
        for fields, rate in rates
        for k in range(n)
    ]
    with store.write() as connection:
        record(connection, results, now=NOW, bucket_s=60)


@pytest.fixture
def shop(sqlite_url, monkeypatch):
    monkeypatch.setenv("GROUNDWATCH_DATABASE_URL", sqlite_url)
    store = Store(sqlite_url)
    yield store
    store.close()


def run(*words):
    return CliRunner().invoke(app, list(words))


def test_variants_in_production_are_compared(shop):
    fill(shop, [({"tags": {"variant": v}}, rate) for v, rate in (("A", 0.95), ("B", 0.7))], 300)
    found = run("compare", "--app", "shop", "--by", "variant")
    assert found.exit_code == 0
    assert "keep A: B is worse in groundedness" in found.stdout
    told = json.loads(run("compare", "--json").stdout)
    (one,) = told["comparisons"]
    assert (one["winner"], one["sequential_winner"], one["a"]["n"], one["b"]["n"]) == (
        "A", "A", 300, 300,
    )  # fmt: skip
    assert told["ab_tests"][0]["comparison_data"]["statistical_significance"]


def test_any_tag_can_be_compared_from_the_samples(store):
    fill(store, [({"tags": {"theme": v}}, rate) for v, rate in (("x", 0.9), ("y", 0.5))], 60)
    given = {"app": "shop", "since": NOW - timedelta(days=1), "now": NOW, "bucket_s": 60}
    with store.read() as connection:
        parts = read_parts(connection, by="theme", **given)
        assert {v: part.tally.n for v, part in parts.of["groundedness"].items()} == {
            "x": 60, "y": 60,
        }  # fmt: skip
        assert parts.of["groundedness"]["x"].counts.n.sum() == 60
        assert not parts.cut
        assert not read_parts(connection, by="nothing", **given).of


def test_segment_sums_equal_the_sums_of_single_samples(store):
    fill(store, [({"tags": {"variant": "A"}, "release": "v1"}, 0.8)], 60)
    given = {"app": "shop", "since": NOW - timedelta(days=1), "now": NOW, "bucket_s": 60}
    with store.read() as connection:
        part = read_parts(connection, by="variant", **given).of["groundedness"]["A"]
        other = read_parts(connection, by="release", **given).of["groundedness"]["v1"]
    assert part.tally == other.tally
    assert part.counts.passed.tolist() == other.counts.passed.tolist()


def test_single_variant_is_refused_with_what_to_do(shop):
    fill(shop, [({"tags": {"variant": "A"}}, 0.9)], 20)
    found = run("compare")
    assert found.exit_code == 2
    assert "two values of 'variant' are needed" in found.stderr


def test_release_that_fell_is_worse(shop):
    fill(shop, [({"release": "v11"}, 0.97), ({"release": "v12"}, 0.7)], 300)
    found = run("gate", "--release", "v12", "--against", "v11", "--max-drop", "3%")
    assert found.exit_code == 1
    assert "groundedness  worse: pass rate 9" in found.stdout


def test_release_of_dependent_samples_is_shown_with_the_scores_that_can_be_counted(shop):
    fill(shop, [({"release": "v11"}, 0.9), ({"release": "v12"}, 0.9)], 30)
    command = ("gate", "--release", "v12", "--against", "v11")
    plain = json.loads(run(*command, "--json").stdout)["verdicts"][0]
    with shop.write() as connection:
        streams = active_streams(connection, since_s=0, segment="*", app="shop")
        save_states(connection, {one.stream_id: {"design_effect": 1.5} for one in streams})
    assert "(n 30) to " in run(*command).stdout
    found = json.loads(run(*command, "--json").stdout)["verdicts"][0]
    assert (found["n_before"], found["n_after"]) == (30, 30)
    assert found["effective_n_before"] == pytest.approx(20)
    assert plain["effective_n_after"] == pytest.approx(30)
    assert found["more_n"] > plain["more_n"]


def test_release_with_few_samples_is_undecided(shop):
    fill(shop, [({"release": "v11"}, 0.9), ({"release": "v12"}, 0.9)], 25)
    found = run("gate", "--release", "v12", "--against", "v11")
    assert found.exit_code == 2
    assert "more samples decide" in found.stdout


def test_release_whose_samples_are_skipped_says_how_many_and_where_to_look(shop):
    fill(shop, [({"release": "v11"}, 0.9), ({"release": "v12"}, None)], 25)
    found = run("gate", "--release", "v12", "--against", "v11")
    assert found.exit_code == 2
    assert "groundwatch samples --metric groundedness --unscored says why" in found.stdout
    assert "skipped or failed: 0 under v11, 25 under v12" in found.stdout


def test_unknown_release_is_not_comparable(shop):
    fill(shop, [({"release": "v11"}, 0.9)], 25)
    found = run("gate", "--release", "v99", "--against", "v98")
    assert found.exit_code == 3
    assert "shop has no scores of release 'v99'" in found.stdout


@pytest.mark.parametrize(
    "command", [("gate", "--release", "v12", "--against", "v11"), ("compare", "--by", "release")]
)
def test_unknown_metric_is_refused_with_those_of_the_app(shop, command):
    fill(shop, [({"release": "v11"}, 0.9), ({"release": "v12"}, 0.9)], 25)
    found = run(*command, "--metric", "groundednes")
    assert isinstance(found.exception, SettingsError)  # which the command ends with 3
    assert str(found.exception) == "unknown metric 'groundednes'; expected one of groundedness"


def test_several_apps_are_named_in_the_plural(shop):
    fill(shop, [({}, 0.9)], 1)
    sample = make_sample(make_interaction(app="bot"), sampled_at=NOW)
    with shop.write() as connection:
        record(connection, [result_of(sample, [make_evaluation()], RULES, now=NOW)],
               now=NOW, bucket_s=60)  # fmt: skip
    found = run("gate", "--release", "v12", "--against", "v11")
    assert str(found.exception) == "name the app with --app; there are bot, shop"


def test_releases_scored_by_different_evaluators_are_not_comparable(shop):
    fill(shop, [({"release": "v11"}, 0.9)], 25)
    fill(shop, [({"release": "v12"}, 0.9)], 25, version="local-2")
    found = run("gate", "--release", "v12", "--against", "v11")
    assert found.exit_code == 3
    assert "different versions of the evaluator" in found.stdout


@pytest.mark.parametrize("share", ["0", "3", "x%", "-1%"])
def test_drop_outside_zero_to_one_is_refused(shop, share):
    found = run("gate", "--release", "v12", "--against", "v11", "--max-drop", share)
    assert found.exit_code == 3
    assert "Invalid share" in found.stderr


def lines(path, rate, version="local-1", n=200):
    path.write_text("".join(
        json.dumps({"id": str(k), "evaluations": [
            make_evaluation(score=RANDOM.random() < rate, evaluator_version=version)
            .model_dump(mode="json")
        ]}) + "\n"
        for k in range(n)
    ))  # fmt: skip
    return str(path)


def test_two_files_of_scores_are_compared(tmp_path):
    a, b = lines(tmp_path / "a.jsonl", 0.6), lines(tmp_path / "b.jsonl", 0.9)
    found = run("compare", a, b)
    assert found.exit_code == 0
    assert "deploy b: better in groundedness, worse in none" in found.stdout


def test_files_of_different_evaluators_are_not_compared(tmp_path):
    a = lines(tmp_path / "a.jsonl", 0.6)
    found = run("compare", a, lines(tmp_path / "b.jsonl", 0.9, "local-2"))
    assert "scored by different versions of the evaluator" in found.stdout.replace("\n", " ")
    assert "keep a: no difference is shown" in found.stdout


@pytest.mark.parametrize("text", ["not json", '{"results": [{}]}', "[1]", ""])
def test_file_that_holds_no_run_is_refused_in_one_line(tmp_path, text):
    path = tmp_path / "a.json"
    path.write_text(text)
    found = run("compare", str(path), str(path))
    assert found.exit_code == 2
    assert "Traceback" not in found.output


@pytest.mark.parametrize("files", [["one.json"], ["one.json", "one.json"]])
def test_two_different_files_are_needed(files):
    found = run("compare", *files)
    assert (found.exit_code, "two files are compared" in found.output) == (2, True)

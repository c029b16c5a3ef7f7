"""Settings choose judge and metrics; a wrong one says what to do."""

import pytest

from monitor.errors import SettingsError
from monitor.models.evaluation import PassRule
from monitor.scoring.declaration import JudgementMetric
from monitor.scoring.metrics import METRICS
from monitor.scoring.registry import describe_scorer, make_scorer, resolve_metrics, small_budgets
from monitor.settings import Settings
from monitor.testing import make_interaction


def test_local_judge_is_the_default():
    scorer = make_scorer(Settings())
    assert scorer.concurrency == 1
    assert scorer.version.startswith("local-25-")
    assert [e.score > 0.7 for e in scorer.score(make_interaction())] == [True, True]


def test_local_judge_uses_the_pass_score_of_groundedness():
    own = make_scorer(Settings(), parameters={"groundedness": {"pass_score": 0.55}})
    assert own.version == make_scorer(Settings(pass_score=0.55)).version
    assert own.version != make_scorer(Settings()).version


def test_every_metric_can_be_created_alone():
    for metric in (name for name, each in METRICS.items() if isinstance(each, JudgementMetric)):
        [evaluation] = make_scorer(Settings(metrics=(metric,))).score(make_interaction())
        assert evaluation.evaluator_name == metric


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        (("groundednes",), "did you mean groundedness?"),
        (("x",), "there are groundedness, relevance"),
        ((), "name at least one"),
        (("relevance", "relevance"), "named twice"),
    ],
)
def test_invalid_metrics_setting_is_refused(metrics, message):
    with pytest.raises(SettingsError, match=message.replace("?", r"\?")):
        make_scorer(Settings(metrics=metrics))


def test_judge_without_a_key_asks_for_one():
    with pytest.raises(SettingsError, match="OPENAI_API_KEY"):
        make_scorer(Settings(scorer="judge"))


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
def test_local_judge_endpoint_needs_no_key(host):
    settings = Settings(scorer="judge", openai_base_url=f"http://{host}:1/v1", judge_concurrency=5)
    scorer = make_scorer(settings)
    assert scorer.concurrency == 5
    assert scorer.version.startswith("judge-gpt-4.1-mini@")
    scorer.close()


def test_hostname_that_only_starts_like_localhost_needs_a_key():
    with pytest.raises(SettingsError, match="key"):
        make_scorer(Settings(scorer="judge", openai_base_url="http://localhost.example.org/v1"))


JUDGE = {"openai_api_key": "k"}


@pytest.mark.parametrize(
    ("given", "chosen"),
    [
        ({}, "local"),
        (JUDGE, "local"),  # who sets no budget has not agreed to pay
        ({"budget_usd_per_day": 1.0}, "local"),
        (JUDGE | {"budget_usd_per_day": 1.0}, "cascade"),
        ({"openai_base_url": "http://127.0.0.1:1/v1", "budget_usd_per_hour": 1.0}, "cascade"),
        (JUDGE | {"budget_usd_per_day": 1.0, "scorer": "local"}, "local"),
    ],
)
def test_auto_uses_a_judge_only_with_a_budget(given, chosen):
    settings = Settings(**given)
    assert settings.scorer == chosen
    assert describe_scorer(settings).startswith(f"{chosen}: sees ")


def test_configured_pass_score_wins_over_the_apps_own(tmp_path):
    file = tmp_path / "metrics.toml"
    file.write_text("[groundedness]\npass_score = 0.9\n")
    by_file = resolve_metrics(Settings(metrics_file=file))
    by_setting = resolve_metrics(Settings(pass_score=0.7))
    assert [each.rule for each in by_file] == [PassRule(0.9), PassRule(0.2)]
    assert [each.rule for each in by_setting] == [PassRule(0.7), PassRule(0.7)]


@pytest.mark.parametrize(
    ("given", "advice"),
    [
        ({"budget_usd_per_day": 0.02}, ["PER_DAY to 0.03 or more"]),
        ({"budget_usd_per_day": 0.03}, []),
        ({"budget_usd_per_hour": 0.01, "budget_usd_per_day": 5}, ["PER_HOUR to 0.03 or more"]),
        ({"budget_usd_per_day": 0.02, "scorer": "local"}, []),
    ],
)
def test_budget_of_which_one_call_takes_over_a_tenth_is_named(given, advice):
    settings = Settings(**{"scorer": "judge", "judge_model": "gpt-4.1-mini"} | given)
    said = small_budgets(settings)
    assert len(said) == len(advice)
    assert all(words in text for words, text in zip(advice, said, strict=True))

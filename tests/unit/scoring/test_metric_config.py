"""Names, parameters and metrics of one's own: what is wrong is said at start."""

from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest

from monitor.errors import MetricFunctionError, SettingsError
from monitor.models.evaluation import PassRule
from monitor.scoring.base import Finding
from monitor.scoring.declaration import Declaration, Form
from monitor.scoring.entailment import local_version
from monitor.scoring.metric_config import function_metric, metrics_of_entry, unmet_needs
from monitor.scoring.metrics import METRICS
from monitor.scoring.registry import MetricsFile, known_metrics, make_scorer, resolve_metrics
from monitor.settings import Settings
from monitor.testing import make_interaction


def polite(interaction):
    """Say whether the answer thanks."""
    return "thank" in interaction.output.lower()


def detailed(_):
    return Finding(score=0.5, details={"why": "so"})


POLITE = f"{__name__}:polite"


@pytest.fixture
def choose(tmp_path):
    def choose(text, *metrics):
        path = tmp_path / "metrics.toml"
        path.write_text(text, encoding="utf-8")
        return resolve_metrics(Settings(metrics=metrics, metrics_file=path), plugins=())

    return choose


def test_parameters_and_pass_score_are_read_from_the_file(choose):
    [bound] = choose("[precision_at_k]\nk = 3\npass_score = 0.5", "precision_at_k")
    assert (bound.parameters.k, bound.rule) == (3, PassRule(0.5))
    assert bound.version.startswith("1~")
    assert bound.criteria()["k"] == 3


def test_parameter_called_weights_makes_no_metric(choose):
    [bound] = choose('[faithfulness]\nweights = "position"', "faithfulness")
    assert bound.parameters.weights == "position"


def test_lower_is_better_metric_keeps_its_own_pass_score(choose):
    [bound] = choose("[toxicity]\npass_score = 0.1", "toxicity")
    assert bound.rule.passes(0.1)
    assert not bound.rule.passes(0.2)


def test_shared_metric_has_its_own_pass_score(choose, tmp_path):
    choose("[groundedness]\npass_score = 0.9", "groundedness")
    settings = Settings(metrics=("groundedness",), metrics_file=tmp_path / "metrics.toml")
    [found] = make_scorer(settings).score(make_interaction())
    assert found.criteria == {"pass_score": 0.9, "direction": "higher"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[precision_at_k]\nkk = 3", "no parameter 'kk'; did you mean k?"),
        ("[precision_at_k]\nk = 0", r"\[precision_at_k\] k: expected a value greater"),
        ("[precision_at_k]\npass_score = 2", r"should be a number in \[0, 1\]"),
        ("[precison_at_k]\nk = 1", "did you mean precision_at_k?"),
        ("[length]\nmin_words = 9\nmax_words = 3", "must not be above"),
        ("length = 3", "should be a table"),
        ("not toml", "not valid TOML"),
        ("k = " + "9" * 5_000, "not valid TOML"),
        ("k = " + "[" * 5_000, "not valid TOML"),
        ('preset = "credit"', "copy the tables of examples/credit.toml"),
        ("[credit_score_range]\nscale = 9", "it is called score_range now"),
        ('[own]\nlike = "no_such"', "no metric is called 'no_such': expected one of"),
        ('[own]\nlike = "lenght"', "no metric is called 'lenght': expected length"),
        ('[own]\nlike = ["mrr"]', "like: no metric is called"),
        ('[own]\nfunction = "operator:add"', "should take one argument, the interaction"),
        ('[own]\nlike = "mrr"\nk = 3', "no parameter 'k'"),
        ("[own]\nweights = { length = 0 }", r"weights.length: expected a value greater than 0$"),
        (
            "[own]\nweights = { length = nan }",
            "weights.length: expected a value less than or equal to",
        ),
        (
            "[own]\nweights = { length = 1e308, groundedness = 1e308 }",
            "less than or equal to 1000000",
        ),
        ("[own]\nweights = { length = inf }", "less than or equal to 1000000"),
        ("[own]\nweights = {}", "weights: Dictionary should have at least 1 item"),
        ('[own]\nfunction = "nowhere.at:all"', "cannot load"),
        ('[own]\nfunction = "nowhere"', "should be module:function"),
        ('[own]\nfunction = "math:pi"', "is not a function"),
        (
            '[own]\ncriteria = "Nice?"\nrequire = ["output"]',
            "require: unknown key; expected criteria, scale, what",
        ),
        (
            '[own]\ncriteria = "Nice?"\nrequires = ["outptu"]',
            "which no interaction has: expected contexts, expected",
        ),
        ('[Own]\ncriteria = "Nice?"', "Invalid metric name"),
        ('[length]\ncriteria = "Long?"', "two metrics are called length: version 2 of groundwatch"),
        ('[own]\nfile = "missing.toml"', "No such file"),
        ('[own]\ncriterion = "Nice?"', "a table that makes one has function, criteria"),
        ('[own]\ncriteria = "Nice?"\nrequires = "output"', "requires: expected a list"),
        ("[own]\nweights = { lenght = 1 }", "did you mean length?"),
        ('[own]\ndeepeval = "NoSuchMetric"', "groundwatch|deepeval.metrics has no"),
    ],
)
def test_mistake_in_the_metrics_file_is_reported(choose, text, message):
    with pytest.raises((SettingsError, ImportError), match=message.replace("?", r"\?")):
        choose(text, "length")


def test_missing_metrics_file_is_reported(tmp_path):
    settings = Settings(metrics_file=tmp_path / "no.toml")
    with pytest.raises(SettingsError, match=r"no\.toml: No such file"):
        make_scorer(settings)


CREDIT = (Path(__file__).parents[3] / "examples/credit.toml").read_text()


def test_example_sets_the_parameters_of_an_agent_that_rates_credit(choose):
    [bound] = choose(CREDIT, "tool_completeness")
    assert bound.parameters.expected_by_type["private"] == ("web_search", "fetch_legal_data")


def test_example_lists_custom_metrics_after_built_in_ones(choose, tmp_path):
    choose(CREDIT, "credit_score_range")
    settings = Settings(
        metrics=("credit_score_range", "risk_level_agreement", "risk_level_consistency"),
        metrics_file=tmp_path / "metrics.toml",
    )
    models = [{"risk_level": "low", "credit_score": n} for n in (60, 75, 80)]
    found = make_scorer(settings).score(
        make_interaction(metadata={"models": models, "runs": models[:2]})
    )
    assert [each.evaluator_name for each in found] == list(settings.metrics)
    assert [each.score for each in found] == [pytest.approx(0.2), 1.0, 1.0]
    assert found[0].metadata["value"] == 20


def test_custom_weighted_score_takes_two_lines(choose, tmp_path):
    text = "[both]\nweights = { length = 3, mrr = 1 }\nleast_share = 0.7"
    bound = choose(text, "both")
    assert [each.name for each in bound] == ["length", "mrr", "both"]
    settings = Settings(metrics=("both",), metrics_file=tmp_path / "metrics.toml")
    [found] = make_scorer(settings).score(make_interaction())
    assert (found.score, found.metadata["missing"]) == (1.0, ["mrr"])
    assert found.explanation == "Parts: length 1.00. 1 of 2 parts is missing: mrr."


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[both]\nweights = { lenght = 1 }", "no metric is called 'lenght'; did you mean length"),
        ("[both]\nweights = { both = 1 }", "both is made of itself"),
        ("[both]\nweights = { a = 1 }\n[a]\nweights = { both = 1 }", "is made of itself"),
    ],
)
def test_weighted_score_of_an_unknown_metric_is_refused(choose, text, message):
    with pytest.raises(SettingsError, match=message):
        choose(text, "both")


def test_several_criteria_form_one_rubric_metric(choose):
    [bound] = choose('[tone.criteria]\nfriendly = "Friendly?"\nshort = "Short?"', "tone")
    asked = bound.metric.criteria
    assert [each.name for each in asked] == ["tone.friendly", "tone.short"]


def test_custom_function_metric_takes_three_lines(choose, tmp_path):
    text = f'[polite]\nfunction = "{POLITE}"\nrequires = ["output"]'
    [bound] = choose(text, "polite")
    assert bound.declaration.what == "Say whether the answer thanks."
    settings = Settings(metrics=("polite",), metrics_file=tmp_path / "metrics.toml")
    [found] = make_scorer(settings).score(make_interaction(output="Thank you."))
    assert found.score == 1.0


@pytest.mark.parametrize(("value", "score"), [(sum([0.1] * 3) / 0.3, 1.0), (-1e-17, 0.0)])
def test_error_of_rounding_does_not_take_the_score_of_a_function(value, score):
    metric = function_metric(lambda _: value, name="own")
    found = metric.compute(make_interaction(), metric.declaration.parameters())
    assert value != found.score == score


def fails(interaction):
    raise KeyError(interaction.output)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (fails, rf"^{__name__}:fails raised KeyError \(test_metric_config.py, line \d+\)$"),
        (lambda _: "high", r"<lambda> returned a str: expected a number in \[0, 1\]"),
        (lambda _: 5, "returned 5: expected"),
        (lambda _: float("nan"), "returned nan: expected"),
        (lambda _: 10**400, "returned 10{39}: expected"),
    ],
)
def test_function_that_gives_no_score_is_named(function, said):
    metric = function_metric(function, name="own")
    with pytest.raises(MetricFunctionError, match=said):
        metric.compute(make_interaction(), metric.declaration.parameters())


@pytest.mark.parametrize("value", [np.float32(0.5), np.float64(0.5)])
def test_function_may_return_a_number_of_numpy(value):
    metric = function_metric(lambda _: value, name="own")
    assert metric.compute(make_interaction(), metric.declaration.parameters()).score == 0.5


def test_changing_the_function_changes_the_metric_version():
    one, other = function_metric(polite, name="own"), function_metric(detailed, name="own")
    assert one.declaration.version != other.declaration.version


def test_judge_question_metric_takes_two_lines(choose):
    [bound] = choose('[tone]\ncriteria = "Friendly?"\nscale = "1-5"', "tone")
    [criterion] = bound.metric.criteria
    assert (criterion.question, criterion.form) == ("Friendly?", Form.RATING)
    assert "needs_judge" in bound.declaration.skips


def test_question_may_be_in_its_own_file(choose, tmp_path):
    (tmp_path / "tone.toml").write_text('criteria = "Friendly?"', encoding="utf-8")
    [bound] = choose('[tone]\nfile = "tone.toml"\npass_score = 0.4', "tone")
    assert (bound.declaration.what, bound.rule.line) == ("Friendly?", 0.4)


def entry(value, name="own"):
    return EntryPoint(name=name, value=f"{__name__}:{value}", group="groundwatch.evaluators")


def test_entry_point_may_name_a_function():
    [metric] = metrics_of_entry(entry("polite", "thanks"), "package")
    assert metric.declaration.name == "thanks"


def test_metric_of_an_installed_package_is_found(tmp_path, monkeypatch):
    (tmp_path / "shop_metrics.py").write_text("def short(i): return len(i.output) < 9\n")
    info = tmp_path / "shop_metrics-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: shop-metrics\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[groundwatch.evaluators]\nshort = shop_metrics:short\n")
    monkeypatch.syspath_prepend(tmp_path)
    [evaluation] = make_scorer(Settings(metrics=("short",))).score(make_interaction(output="Yes."))
    assert evaluation.score == 1.0
    (info / "entry_points.txt").write_text("[groundwatch.evaluators]\nmrr = shop_metrics:short\n")
    with pytest.raises(SettingsError, match=r"two metrics are called mrr: .*shop-metrics"):
        make_scorer(Settings())


LISTED = [function_metric(polite, name="one"), function_metric(detailed, name="two")]
NOTHING = 3


def test_entry_point_may_name_several_metrics():
    names = [metric.declaration.name for metric in metrics_of_entry(entry("LISTED"), "package")]
    assert names == ["one", "two"]


@pytest.mark.parametrize(
    ("value", "message"), [("NOTHING", "neither a metric"), ("nowhere", "cannot be loaded")]
)
def test_invalid_entry_point_is_refused(value, message):
    with pytest.raises(SettingsError, match=message):
        metrics_of_entry(entry(value), "package")


def test_colliding_metrics_are_named_with_versions_and_origins():
    plugins = [("one (a)", LISTED[0]), ("other (b)", LISTED[0])]
    with pytest.raises(SettingsError, match=r"two metrics are called one: .*one \(a\).*other"):
        known_metrics(MetricsFile(), plugins)


@pytest.mark.parametrize("name", ["Bad", "1x", "", "a-b", "x" * 65])
def test_declaration_refuses_an_invalid_name(name):
    with pytest.raises(ValueError, match="Invalid metric name"):
        Declaration(name=name, what="", formula="", requires=(), source="", backend="")


def test_parts_are_resolved_before_their_overall_metric():
    names = [
        b.name for b in resolve_metrics(Settings(metrics=("overall_quality_score",)), plugins=())
    ]
    assert names[-1] == "overall_quality_score"
    assert len(names) == len(set(names))
    for name in names:
        parts = getattr(METRICS[name], "weights", {})
        assert all(names.index(part) < names.index(name) for part in parts)


SENT = "in what your app sends"
MORE = "and for optional parts"
MODEL = "GROUNDWATCH_EMBEDDING_MODEL"
JUDGE = "a judge (GROUNDWATCH_SCORER=judge, or cascade)"
AGENT = ", ".join(
    [
        *("expected.name", "metadata.parsed", "metadata.plan", "expected.tools"),
        *("metadata.trajectory", "expected.trajectory"),
    ]
)
NEEDS_OF_ALL = f"{AGENT} {SENT}, {MORE} expected.answer, metadata.runs, metadata.answers {SENT}"


@pytest.mark.parametrize(
    ("metric", "settings", "needs"),
    [
        ("groundedness", {}, None),
        ("precision_at_k", {}, "expected.relevant in what your app sends"),
        ("plan_quality", {}, "metadata.plan in what your app sends"),
        ("answer_relevancy", {}, JUDGE),
        ("answer_relevancy", {"scorer": "judge"}, None),
        ("bias", {}, None),
        ("tool_completeness", {}, "expected.tools in what your app sends"),
        ("latency_ms", {}, "metadata.latency_ms in what your app sends"),
        (
            "trajectory_match",
            {},
            "metadata.trajectory, expected.trajectory in what your app sends",
        ),
        ("step_count", {}, "metadata.step_count or metadata.trajectory in what your app sends"),
        ("rag_overall_score", {}, JUDGE),
        ("rag_overall_score", {"scorer": "judge"}, None),
        (
            "unified_consistency",
            {},
            f"metadata.models {SENT}, {MORE} metadata.runs, metadata.answers {SENT} and {MODEL}",
        ),
        (
            "rubric_overall_score",
            {},
            f"{JUDGE}, {MORE} expected.answer, tool_calls {SENT}",
        ),
        (
            "overall_quality_score",
            {"embedding_model": "x"},
            f"metadata.models, {NEEDS_OF_ALL} and {JUDGE}",
        ),
        ("unified_accuracy", {}, None),  # half of its weight is enough
        ("answer_relevance", {"scorer": "judge"}, MODEL),
    ],
)
def test_unmet_needs_of_a_metric_are_named_at_start(metric, settings, needs):
    settings = Settings(metrics=(metric,), **settings)
    assert unmet_needs(resolve_metrics(settings, plugins=()), settings).get(metric) == needs


def test_needs_named_for_any_score_give_one():
    settings = Settings(metrics=("unified_consistency",))
    models = [{"level": "low", "score": 60, "confidence": 0.8}] * 2
    for across, status in (("models", "completed"), ("runs", "skipped")):
        [found] = make_scorer(settings).score(make_interaction(metadata={across: models}))
        assert found.status == status


def test_needs_of_a_score_of_many_parts_are_all_named(choose, tmp_path):
    parts = [f"part_{n}" for n in range(30)]
    text = f"[many]\nleast_share = 0.5\nweights = {{ {', '.join(f'{p} = 1' for p in parts)} }}\n"
    text += "".join(f'[{p}]\nlike = "mrr"\n' for p in parts)
    metrics = choose(text, "many")
    settings = Settings(metrics=("many",), metrics_file=tmp_path / "metrics.toml")
    assert unmet_needs(metrics, settings) == {"many": f"expected.relevant {SENT}"}


@pytest.mark.parametrize(
    ("judge", "version"),
    [
        ("judge-x@1-v4p8", f"judge-x@1-v4p8+{local_version()}-4"),
        ("judge-local-llama@1-v4p8", f"judge-local-llama@1-v4p8+{local_version()}-4"),
        ("nli-x-0.5+local-21-abc", "nli-x-0.5+local-21-abc-4"),
        ("local-21-abc", "local-21-abc-4"),
        ("cascade-judge-x@1-abc", "cascade-judge-x@1-abc-4"),
    ],
)
def test_version_of_the_local_scorer_is_carried_once(judge, version):
    [metric] = resolve_metrics(Settings(metrics=("citation_accuracy",)), plugins=())
    assert metric.judged_by(judge) == version


def test_parameter_replaces_a_required_field():
    parameters = {"tool_completeness": {"expected_tools": ["search"]}}
    settings = Settings(metrics=("tool_completeness",))
    metrics = resolve_metrics(settings, plugins=(), parameters=parameters)
    assert unmet_needs(metrics, settings) == {}

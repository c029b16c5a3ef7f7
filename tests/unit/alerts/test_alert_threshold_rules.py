"""Rules of one's own: a figure, a threshold, and for how long."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from alerts import queries
from alerts.conditions import RULE_SETS, ThresholdRule, judge_all
from alerts.decide import decide
from alerts.dispatch import wiring_from
from alerts.routing import Recipient, RoutingConfig
from alerts.state import Timers
from monitor.errors import SettingsError
from monitor.models.alerting import Severity
from monitor.models.status import Status
from monitor.settings import Settings
from monitor.store.engine import Store
from monitor.testing import make_verdict
from support.sent_messages import messages

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
AT_ONCE = Timers(warning_for_s=0, critical_for_s=0, resolve_after_s=0, repeat_after_s=3600)
LONG_GAPS = replace(AT_ONCE, max_gap_s=7200)
ROUTE = '[[routes]]\nchannels = "out"\n[channels.out]\ntype = "console"\n'


def verdict(**changes):
    return make_verdict(Status.HEALTHY, NOW, **changes)


def statuses(rules, *verdicts):
    return {v.metric: v.status for v in judge_all(verdicts, rules)}


@pytest.mark.parametrize(
    ("changes", "broken"),
    [
        ({"metric": "faithfulness", "average_score": 0.84}, "faithfulness"),
        ({"metric": "groundedness", "average_score": 0.79}, "groundedness"),
        ({"metric": "context_precision", "average_score": 0.49}, "retrieval_precision"),
        ({"metric": "relevance", "average_score": 0.9, "n_failed": 12}, "errors"),
    ],
)
def test_named_rule_set_breaks_exactly_the_violated_threshold(changes, broken):
    found = statuses(RULE_SETS["rag"], verdict(**changes))
    critical = [name for name, status in found.items() if status is Status.CRITICAL]
    assert critical == [f"rule:{broken}"]


def test_value_at_the_threshold_breaks_no_rule():
    on_the_line = verdict(metric="groundedness", average_score=0.80, n=95, n_failed=5)
    assert Status.CRITICAL not in statuses(RULE_SETS["rag"], on_the_line).values()


def test_insufficient_or_blind_data_break_no_rule():
    rule = [ThresholdRule(name="x", metric="groundedness", below=0.9)]
    assert statuses(rule, verdict(n=29, average_score=0.1)) == {"rule:x": "insufficient_data"}
    assert statuses(rule, verdict(n=30, average_score=0.1)) == {"rule:x": Status.CRITICAL}
    blind = make_verdict(Status.BLIND, NOW)
    assert statuses(rule, blind) == {"rule:x": Status.BLIND}


def test_rule_for_every_metric_names_the_one_that_breaks_it():
    rule = [ThresholdRule(name="x", metric="*", below=0.5, severity=Severity.WARNING)]
    (found,) = judge_all(
        [verdict(metric="a"), verdict(metric="b", average_score=0.4), verdict(metric="c")], rule
    )
    assert (found.status, found.reason) == (
        Status.WARNING, "b: average score 0.400; the rule: below 0.5"
    )  # fmt: skip


@pytest.mark.parametrize("metric", ["monitor:queue_lag", "error_rate"])
def test_rule_for_every_metric_ignores_monitor_metrics(metric):
    assert judge_all([verdict(metric=metric)], RULE_SETS["rag"]) == []


def test_rule_reasons_format_rates_as_percentages():
    rules = [
        ThresholdRule(name="rate", metric="groundedness", of="pass_rate", below=0.7),
        ThresholdRule(name="errors", metric="*", of="error_rate", above=0.05),
    ]
    found = judge_all([verdict(window_pass_rate=0.659, window_n=100, n_failed=100)], rules)
    assert [each.reason for each in found] == [
        "groundedness: pass rate 65.9 %; the rule: below 70.0 %",
        "groundedness: error rate 50.0 %; the rule: above 5.0 %",
    ]


def test_rules_of_a_named_set_fire_into_one_incident(sqlite_url):
    plan = replace(RoutingConfig.everyone([Recipient("out")]), rules=RULE_SETS["rag"])
    low = {"faithfulness": 0.84, "groundedness": 0.79, "context_precision": 0.49}
    store, fired = Store(sqlite_url), set()
    for hours in (0, 1):
        now = NOW + timedelta(hours=hours)
        seen = [
            make_verdict(Status.HEALTHY, now, metric=m, average_score=x) for m, x in low.items()
        ]
        seen += [make_verdict(Status.HEALTHY, now, metric="relevance", n_failed=12)]
        with store.write() as connection:
            events = decide(connection, seen, now=now, timers=LONG_GAPS, channels=plan)
            fired |= {event.metric for event in events}
            incidents = queries.incidents_since(connection, NOW)
    store.close()
    assert fired == {f"rule:{rule.name}" for rule in RULE_SETS["rag"]}
    assert len(incidents) == 1


def test_rule_fires_after_its_own_timer_beside_the_status(sqlite_url):
    plan = RoutingConfig(
        routes=RoutingConfig.everyone([Recipient("out")]).routes,
        addresses={"out": ("",)},
        rules=RULE_SETS["rag"],
    )
    store, fired = Store(sqlite_url), []
    for minute in range(62):
        now = NOW + timedelta(minutes=minute)
        low = make_verdict(Status.HEALTHY, now, average_score=0.7)
        with store.write() as connection:
            events = decide(connection, [low], now=now, timers=AT_ONCE, channels=plan)
        fired += [(minute, event.metric) for event in events]
    with store.read() as connection:
        (message,) = messages(connection)
    store.close()
    assert fired == [(60, "rule:groundedness")]
    assert message.thresholds is None
    assert Recipient("out") in plan.recipients({}, NOW)


def test_rules_are_read_from_the_routes_file(tmp_path):
    path = tmp_path / "alerts.toml"
    path.write_text(
        ROUTE + '[[rules]]\nuse = "rag"\n[[rules]]\nname = "mine"\nmetric = "relevance"\n'
        'of = "pass_rate"\nbelow = 0.6\nfor = "30m"\nlevel = "warning"\n'
    )
    metrics = ("groundedness", "relevance", "faithfulness", "context_precision")
    rules = wiring_from(Settings(alerts_file=path, metrics=metrics)).plan.rules
    assert [rule.name for rule in rules][-1] == "mine"
    assert (rules[-1].for_s, rules[-1].below, rules[-1].severity) == (1800, 0.6, "warning")


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ('use = "rug"', "no set of rules 'rug'; there is: rag"),
        ('name = "x"', "either below or above"),
        ('name = "x"\nbelow = 0.1\nabove = 0.2', "either below or above"),
        ('name = "x"\nmetric = "relevence"\nbelow = 0.5', "did you mean 'relevance'"),
        ('name = "x"\nmetric = "faithfulness"\nbelow = 0.5', "add it to GROUNDWATCH_METRICS"),
        ('use = "rag"', "rule 'retrieval_precision': the metric 'context_precision' is not scored"),
        ('name = "x"\nbelow = 80', "less than or equal to 1"),
        ('use = "rag"\n[[rules]]\nname = "errors"\nabove = 0.1', "already"),
    ],
)
def test_invalid_rule_is_reported_with_its_line(tmp_path, rule, message):
    path = tmp_path / "alerts.toml"
    path.write_text(f"{ROUTE}[[rules]]\n{rule}\n")
    with pytest.raises(SettingsError, match=message) as caught:
        wiring_from(Settings(alerts_file=path))
    assert str(caught.value).startswith("alerts.toml:")


@pytest.mark.parametrize(
    ("rule", "value", "status"),
    [
        ({"above": 0.5}, 0.5, Status.HEALTHY), ({"above": 0.5}, 0.51, Status.CRITICAL),
        ({"below": 0.5}, 0.5, Status.HEALTHY), ({"below": 0.5}, 0.49, Status.CRITICAL),
        ({"below": 0.0}, 0.0, Status.HEALTHY), ({"above": 0.0}, 0.01, Status.CRITICAL),
    ],
)  # fmt: skip
def test_rule_compares_its_figure_with_its_threshold(rule, value, status):
    (found,) = judge_all(
        [verdict(metric="a", average_score=value)], [ThresholdRule(name="x", metric="a", **rule)]
    )
    side, line = next(iter(rule.items()))
    assert found.status is status
    assert found.reason == f"a: average score {value:.3f}; the rule: {side} {line:g}"
    assert (found.policy, found.evidence, found.since) == ("rule", None, found.evaluated_at)


@pytest.mark.parametrize(("scored", "failed", "status"), [(27, 3, "critical"), (27, 2, None)])
def test_error_rate_counts_all_attempted_evaluations(scored, failed, status):
    rule = ThresholdRule(name="x", metric="*", of="error_rate", above=0.05)
    (found,) = judge_all([verdict(window_n=scored, n_failed=failed)], [rule])
    assert found.status == (status or Status.INSUFFICIENT_DATA)
    tried = scored + failed
    shown = "error rate 10.0 %; the rule: above 5.0 %" if status else f"{tried} of 30 needed"
    assert found.reason == f"groundedness: {shown}"
    assert judge_all([verdict(window_n=0, n_failed=0)], [rule])[0].reason.endswith("0 of 30 needed")


@pytest.mark.parametrize(
    ("first", "second", "shown"),
    [("broken", "healthy", "a"), ("healthy", "broken", "b"), ("blind", "healthy", "a"),
     ("few", "healthy", "b"), ("blind", "broken", "b"), ("healthy", "healthy", "a")],
)  # fmt: skip
def test_rule_shows_the_worst_metric_and_the_first_of_equals(first, second, shown):
    """Blind is worse than healthy, as nobody knows, and better than what is certainly broken."""
    figures = {
        "broken": {"average_score": 0.1}, "healthy": {"average_score": 0.9},
        "few": {"window_n": 3, "n": 3}, "blind": {},
    }  # fmt: skip
    verdicts = [
        make_verdict(
            Status.BLIND if kind == "blind" else Status.HEALTHY, NOW, metric=metric, **figures[kind]
        )
        for metric, kind in (("a", first), ("b", second))
    ]
    (found,) = judge_all(verdicts, [ThresholdRule(name="x", metric="*", below=0.5)])
    assert found.reason.startswith(f"{shown}:")

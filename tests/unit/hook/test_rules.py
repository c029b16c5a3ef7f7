"""Rules and predicates give an interaction its rate, and mistakes are said clearly."""

import pytest

from monitor.hook.options import Rule, Sampling, check, resolve

BIG = Rule(tags={"tenant": "big"}, sample_rate=0.5)
ANN = Rule(user_id="ann", sample_rate=0.25)


class Hostile(dict):
    def __getattribute__(self, name):
        raise RuntimeError

    __eq__ = __hash__ = __iter__ = __getitem__ = None


def rate_of(sampling, **given):
    failures = []
    rate = sampling.rate_of(given, 0.05, lambda: failures.append(1))
    return rate, len(failures)


@pytest.mark.parametrize(
    ("given", "rate"),
    [
        ({}, 0.05),
        ({"tags": {"tenant": "big", "x": "y"}}, 0.5),
        ({"tags": {"tenant": "small"}}, 0.05),
        ({"tags": ["tenant"]}, 0.05),
        ({"tags": Hostile(tenant="big")}, 0.5),
        ({"user_id": "ann"}, 0.25),
        ({"user_id": Hostile()}, 0.05),
        ({"user_id": "ann", "tags": {"tenant": "big"}}, 0.5),
    ],
)
def test_first_matching_rule_gives_the_rate(given, rate):
    assert rate_of(Sampling(rules=(BIG, ANN)), **given) == (rate, 0)


def test_every_condition_of_a_rule_must_match():
    rule = Rule(user_id="ann", tags={"a": "1", "b": "true"}, sample_rate=1.0)
    assert rule.fits({"user_id": "ann", "tags": {"a": 1, "b": True}})
    assert not rule.fits({"user_id": "ann", "tags": {"a": 1}})
    assert not rule.fits({"user_id": "bob", "tags": {"a": 1, "b": True}})


def test_never_wins_over_always_and_always_over_rules():
    sampling = Sampling(
        rules=(ANN,), never=lambda given: given["query"] == "secret", always=lambda _: True
    )
    assert rate_of(sampling, query="q", user_id="ann") == (1.0, 0)
    assert rate_of(sampling, query="secret") == (0.0, 0)


@pytest.mark.parametrize("odd", [lambda _: 1 / 0, lambda: True, lambda _: Hostile().x])
def test_predicate_that_raises_is_ignored_and_counted(odd):
    assert rate_of(Sampling(always=odd, never=odd, rules=(ANN,)), user_id="ann") == (0.25, 2)


@pytest.mark.parametrize(
    ("sampling", "ceiling"),
    [(Sampling(), 0.05), (Sampling(rules=(BIG, ANN)), 0.5), (Sampling(always=bool), 1.0),
     (Sampling(never=bool), 0.05), (Sampling(rules=(Rule(sample_rate=0.0),)), 0.05)],
)  # fmt: skip
def test_ceiling_is_the_highest_rate_of_any_rule(sampling, ceiling):
    assert sampling.ceiling(0.05) == ceiling


def test_rules_come_from_the_environment_and_those_of_other_apps_are_left_out():
    raw = '[{"app": "bot", "sample_rate": 0.5}, {"app": "other", "sample_rate": 1}]'
    sampling = resolve({"app": "bot"}, {"GROUNDWATCH_SAMPLE_RULES": raw}).sampling
    assert sampling.rules == (Rule(app="bot", sample_rate=0.5),)
    assert resolve({"rules": ()}, {"GROUNDWATCH_SAMPLE_RULES": raw}).sampling.plain


def test_limits_come_from_the_environment():
    environ = {"GROUNDWATCH_MIN_RATE": "0.01", "GROUNDWATCH_MAX_RATE": "0.2"}
    sampling = resolve({}, environ).sampling
    assert [sampling.within(rate) for rate in (0.0, 0.1, 1.0)] == [0.01, 0.1, 0.2]


def test_rules_are_built_from_mappings_or_the_environment():
    checked = check({"rules": [{"sample_rate": 1}], "always": None, "app": "bot"})
    assert checked == {"rules": (Rule(sample_rate=1),), "app": "bot"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rules": 3}, "rules: should be a list of rules"),
        ({"rules": [BIG, {}]}, "rules: rule 2: should have sample_rate, and nothing but"),
        ({"rules": [{"sample_rate": 1, "tenant": "big"}]}, "rules: rule 1: should have"),
        ({"rules": [{"sample_rate": 2}]}, "rules: rule 1: sample_rate: should be a number"),
        ({"rules": [{"sample_rate": 1, "tags": {"a": 1}}]}, "rules: rule 1: tags: should map"),
        ({"rules": [{"sample_rate": 1, "user_id": 7}]}, "rules: rule 1: user_id: should be"),
        ({"rules": ["x"]}, "rules: rule 1: should have"),
        ({"always": "yes"}, "always: should be a function"),
        ({"min_rate": -1}, "min_rate: should be a number from 0 to 1"),
    ],
)
def test_message_names_the_invalid_argument(arguments, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        check(arguments)


@pytest.mark.parametrize(
    ("variable", "raw"),
    [("SAMPLE_RULES", "{"), ("SAMPLE_RULES", '[{"rate": 1}]'), ("MIN_RATE", "many")],
)
def test_message_names_the_invalid_variable(variable, raw):
    with pytest.raises(ValueError, match=f"^GROUNDWATCH_{variable}: "):
        resolve({}, {f"GROUNDWATCH_{variable}": raw})


def test_contradicting_rate_limits_are_refused():
    with pytest.raises(ValueError, match="min_rate: should not be above max_rate"):
        resolve({"min_rate": 0.5, "max_rate": 0.1}, {})


def test_function_is_not_read_from_the_environment():
    environ = {"GROUNDWATCH_ALWAYS": "yes", "GROUNDWATCH_NEVER": "no"}
    assert resolve({}, environ).sampling.plain

"""Policies by name, for each app and metric."""

import pytest

from monitor.errors import SettingsError
from monitor.models import Status
from monitor.rolling.policies import EvidencePolicy, PolicyChoice, PolicyFinding, find_policy, point


def always_healthy(window, lines):
    return PolicyFinding(Status.HEALTHY, "always")


def test_built_in_policies_are_found():
    assert find_policy("point") is point
    assert find_policy("anytime") == EvidencePolicy(use_reference=True)


@pytest.mark.parametrize(
    "name", ["monitor.rolling.policies:point", "monitor.rolling.policies.point"]
)
def test_custom_policy_is_found_by_its_dotted_name(name):
    assert find_policy(name) is point


@pytest.mark.parametrize(
    "name", ["nope", "monitor.nope:x", "monitor.rolling.policies:nope", "monitor.rolling:__all__"]
)
def test_unknown_policy_is_a_settings_error(name):
    with pytest.raises(SettingsError, match="GROUNDWATCH_STATUS_POLICY"):
        find_policy(name)


def test_first_matching_rule_decides():
    choice = PolicyChoice.parse(
        "anytime",
        '[{"app": "shop", "metric": "relevance", "policy": "wilson"},'
        ' {"app": "shop", "policy": "point"}]',
    )
    asked = [("shop", "relevance"), ("shop", "groundedness"), ("bot", "relevance")]
    assert [choice.of(*key) for key in asked] == ["wilson", "point", "anytime"]


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ("{", "JSON"),
        ('[{"policy": ""}]', "policy"),
        ('[{"app": "x"}]', "policy"),
        ('[{"policy": "point", "apps": "x"}]', "apps"),
    ],
)
def test_invalid_status_rules_say_what_is_wrong(rules, said):
    with pytest.raises(SettingsError, match=f"GROUNDWATCH_STATUS_POLICIES.*{said}"):
        PolicyChoice.parse("anytime", rules)

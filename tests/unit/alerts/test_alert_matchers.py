"""Matchers, hours and routes: who hears of what, and why."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alerts.routing import (
    Hours,
    Maintenance,
    Matcher,
    Recipient,
    Route,
    RoutingConfig,
    Silence,
    all_match,
    parse_all,
    silence_for,
)
from monitor.errors import SettingsError
from monitor.models.alerting import Severity
from monitor.models.status import Status
from monitor.testing import make_verdict

NOW = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)  # a Monday
LABELS = {"app": "support-bot", "severity": "critical", "team": "search"}


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("app=support-bot", True),
        ('app="support-bot"', True),
        ("app = support", False),
        ("app!=shop", True),
        ("app=~support-.*", True),
        ("app=~support", False),
        ("app!~shop|support-bot", False),
        ("team=~s.*", True),
        ("env=", True),
        ("env!=prod", True),
        ("app=~.*[^a-z-]", False),
    ],
)
def test_matcher_matches_the_expected_labels(text, holds):
    assert Matcher.parse(text).matches(LABELS) is holds


@pytest.mark.parametrize("text", ["", "app", "=x", "app==", "app=~(", "app<3", "a b=c"])
def test_invalid_matcher_is_refused_with_an_example(text):
    if text == "app==":
        assert not Matcher.parse(text).matches(LABELS)
        return
    with pytest.raises(SettingsError, match=r"matcher|pattern"):
        Matcher.parse(text)


@pytest.mark.parametrize("operator", ["=~", "!~"])
def test_pattern_that_takes_too_long_does_not_hold(operator):
    matcher = Matcher.parse(f"app{operator}(a|aa)+x")  # 2**n steps for n letters
    assert not matcher.matches({"app": "a" * 199 + "!"})


def repeated(inner):
    return st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map("({0[0]}|{0[1]})".format),
        st.tuples(inner, st.sampled_from(["*", "+?", "{2}", "{1,3}", "{,2}", "{e}", "{d<=1}"])).map(
            "(?:{0[0]}){0[1]}".format
        ),
        inner.map("(?={})".format),
        inner.map("(?i:{})".format),
    )


PARTS = ["a", "b", "-", ".", "[ab]", "[^a{]", r"\w", r"\b", "$", "(?<!-)", "a{e}", r"\{d}", "{"]


@given(
    st.recursive(st.sampled_from(PARTS), repeated, max_leaves=6),
    st.lists(st.text("abAde-{}\n", max_size=7), min_size=1, max_size=8),
)
def test_pattern_matches_what_re_matches(pattern, values):
    matcher, expected = Matcher.parse(f'app=~"{pattern}"'), re.compile(pattern, re.DOTALL)
    matched = [matcher.matches({"app": value}) for value in values]
    assert matched == [bool(expected.fullmatch(value)) for value in values]


@pytest.mark.parametrize("pattern", [r"\p{L}", "(?V1)a", "(?au)a", "(" * 3000, "a{99999999999}"])
def test_pattern_that_re_does_not_read_is_refused(pattern):
    with pytest.raises(SettingsError, match="Invalid pattern"):
        Matcher.parse(f"app=~{pattern}")


def test_matcher_survives_a_round_trip():
    for text in ("app=x", "app!=x", "app=~x.*", "app!~x"):
        assert str(Matcher.parse(text)) == text


def test_all_matchers_must_match():
    assert all_match(parse_all(["app=support-bot", "team=search"]), LABELS)
    assert not all_match(parse_all(["app=support-bot", "team=ads"]), LABELS)


def test_alert_has_its_own_labels_and_its_apps():
    of_apps = {"support-*": {"team": "search", "app": "liar"}, "shop": {"team": "ads"}}
    verdict = make_verdict(Status.CRITICAL, NOW, evaluator_version="judge-7")
    labels = plan([], app_labels=of_apps).labels(verdict, Severity.CRITICAL)
    assert labels == {
        "app": "support-bot", "metric": "groundedness", "segment": "*", "window_s": "3600",
        "severity": "critical", "judge": "judge-7", "kind": "quality", "team": "search",
    }  # fmt: skip


def at(text, zone="Europe/Stockholm"):
    from zoneinfo import ZoneInfo

    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone))


@pytest.mark.parametrize(
    ("hours", "moment", "inside"),
    [
        (("08:00", "18:00", "Europe/Stockholm", "mon-fri"), "2026-03-02T08:00", True),
        (("08:00", "18:00", "Europe/Stockholm", "mon-fri"), "2026-03-02T18:00", False),
        (("08:00", "18:00", "Europe/Stockholm", "mon-fri"), "2026-03-01T12:00", False),
        # over midnight, and the day is the one on which it begins
        (("22:00", "06:00", "Europe/Stockholm", "sat"), "2026-03-01T05:59", True),
        (("22:00", "06:00", "Europe/Stockholm", "sat"), "2026-03-02T05:59", False),
        (("00:00", "24:00", "Europe/Stockholm", "sun"), "2026-03-01T23:59", True),
        (("00:00", "24:00", "Europe/Stockholm", "sun"), "2026-03-02T00:00", False),
        # over the end of a week
        (("08:00", "18:00", "Europe/Stockholm", "sat-mon"), "2026-03-02T09:00", True),
    ],
)
def test_active_hours_use_local_wall_clock_time(hours, moment, inside):
    assert Hours.parse(*hours).cover(at(moment)) is inside


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("mon-fri", "01234"), ("Monday-Friday", "01234"), ("sat-mon", "560"),
        ("sun-sat", "0123456"),
        ("wed-wed", "2"), ("tue, thu", "13"), (["sat", "sun-mon"], "560"), ("", "0123456"),
    ],
)  # fmt: skip
def test_active_hours_apply_only_on_the_named_days(text, days):
    assert Hours.parse("08:00", "18:00", "UTC", text).days == set(map(int, days))


@pytest.mark.parametrize(
    ("day", "hours"), [("2026-03-28", 2), ("2026-03-29", 1), ("2026-10-25", 3), ("2026-10-26", 2)]
)
def test_active_hours_follow_summer_time(day, hours):
    """In Stockholm the clock leaps from 02:00 to 03:00, and back from 03:00 to 02:00."""
    window = Hours.parse("02:00", "04:00", "Europe/Stockholm")
    begin = datetime.fromisoformat(f"{day}T00:00").replace(tzinfo=UTC)
    minutes = [begin.timestamp() + 60 * i - 6 * 3600 for i in range(18 * 60)]
    inside = sum(window.cover(datetime.fromtimestamp(m, UTC)) for m in minutes)
    assert inside == hours * 60


@pytest.mark.parametrize(
    "hours",
    [
        ("8", "18:00", "UTC", ""),
        ("08:00", "25:00", "UTC", ""),
        ("08:00", "18:00", "Mars/Olympus", ""),
        ("08:00", "18:00", "UTC", "mon-foo"),
    ],
)
def test_invalid_active_hours_are_refused(hours):
    with pytest.raises(SettingsError, match="expected"):
        Hours.parse(*hours)


@pytest.mark.parametrize(
    ("team", "hour", "covered"),
    [("search", 9, True), ("search", 10, False), ("ads", 9, False), ("ads", 10, False)],
)
def test_maintenance_covers_its_alerts_within_its_hours(team, hour, covered):
    hours = Hours.parse("09:00", "10:00", "UTC")
    window = Maintenance(name="nightly", matchers=parse_all(["team=search"]), hours=hours)
    now = datetime(2026, 3, 2, hour, tzinfo=UTC)
    assert silence_for([window], {"team": team}, now) == (window if covered else None)
    assert window.silence_id == "maintenance:nightly"


def route(name, *matchers, **options):
    return Route(name=name, channels=(name,), matchers=parse_all(matchers), **options)


def plan(routes, **options):
    addresses = {channel: ("",) for each in routes for channel in each.channels}
    return RoutingConfig(routes=routes, addresses=addresses, **options)


def told(routes, labels=LABELS, now=NOW):
    return [to.channel for to in plan(routes).recipients(labels, now)]


def test_first_matching_route_decides():
    routes = [route("ads", "team=ads"), route("search", "team=search"), route("default")]
    assert told(routes) == ["search"]
    assert told(routes, {"severity": "warning"}) == ["default"]


def test_continuing_route_lets_later_routes_match_too():
    routes = [route("log", goes_on=True), route("search", "team=search"), route("default")]
    assert told(routes) == ["log", "search"]


def test_route_can_take_only_critical_alerts():
    routes = [route("pager", min_severity=Severity.CRITICAL), route("default")]
    assert told(routes) == ["pager"]
    assert told(routes, LABELS | {"severity": "warning"}) == ["default"]


def test_route_outside_its_hours_passes_to_the_next():
    hours = Hours.parse("08:00", "18:00", "UTC", "mon-fri")
    routes = [route("office", active_hours=hours), route("pager")]
    assert told(routes) == ["office"]
    assert told(routes, now=datetime(2026, 3, 2, 19, 0, tzinfo=UTC)) == ["pager"]


def test_each_route_says_why_it_does_not_match():
    hours = Hours.parse("08:00", "18:00", "UTC", "sat sun")
    routes = [
        route("ads", "team=ads"), route("weekend", active_hours=hours), route("default")
    ]  # fmt: skip
    steps = [(each.name, refusal) for each, refusal in plan(routes).explain(LABELS, NOW)]
    assert steps == [
        ("ads", "team=ads does not match: team is 'search'"),
        ("weekend", "outside its active hours, sat sun 08:00-18:00 UTC"),
        ("default", None),
    ]


def test_channel_cannot_be_its_own_fallback():
    (fallback,) = plan([route("mail", fallback="mail")]).recipients(LABELS, NOW).values()
    assert fallback is None


@pytest.mark.parametrize(
    ("hours", "moment", "end"),
    [
        (("08:00", "18:00", "Europe/Stockholm"), "2026-03-02T08:00", "2026-03-02T17:00"),
        (("22:00", "06:00", "Europe/Stockholm"), "2026-03-02T23:00", "2026-03-03T05:00"),
        (("22:00", "06:00", "Europe/Stockholm"), "2026-03-03T05:59", "2026-03-03T05:00"),
        (("09:00", "09:00", "Europe/Stockholm"), "2026-03-03T08:59", "2026-03-03T08:00"),
        (("02:00", "04:00", "Europe/Stockholm"), "2026-10-25T02:30", "2026-10-25T03:00"),
    ],
)
def test_active_hours_give_their_end_in_utc(hours, moment, end):
    until = Hours.parse(*hours).until(at(moment))
    assert (until, until.tzinfo) == (datetime.fromisoformat(end).replace(tzinfo=UTC), UTC)


def test_active_hours_are_shown_in_readable_form():
    for days, written in (((), "every day"), ("mon-tue, sun", "mon tue sun")):
        hours = Hours.parse("08:00", "24:00", "Europe/Stockholm", days)
        assert str(hours) == f"{written} 08:00-00:00 Europe/Stockholm"


@pytest.mark.parametrize(
    ("options", "is_default"),
    [
        ({}, True),
        ({"min_severity": Severity.CRITICAL}, False),
        ({"active_hours": Hours.parse("08:00", "18:00", "UTC")}, False),
        ({"matchers": parse_all(["app=x"])}, False),
    ],
)
def test_default_route_takes_everything_at_any_time(options, is_default):
    assert Route(name="x", channels=("out",), **options).is_default is is_default


def test_critical_only_route_explains_itself():
    (_, refusal), *_ = plan([route("pager", min_severity=Severity.CRITICAL)]).explain(
        LABELS | {"severity": "warning"}, NOW
    )
    assert refusal == "it takes critical alerts only"


def test_silence_applies_from_its_start_until_its_end():
    silence = Silence(
        silence_id="s", matchers=parse_all(["team=search"]), starts_at=NOW,
        ends_at=NOW + timedelta(hours=1), author="ann", comment="rollout",
    )  # fmt: skip
    covered = [silence.covers(LABELS, NOW + timedelta(seconds=s)) for s in (-1, 0, 3599, 3600)]
    assert covered == [False, True, True, False]
    assert not silence.covers(LABELS | {"team": "ads"}, NOW)


def test_without_routes_every_channel_gets_everything_once():
    ann, bob, slack = Recipient("mail", "ann@x"), Recipient("mail", "bob@x"), Recipient("slack")
    config = RoutingConfig.everyone([ann, slack, bob, ann])
    assert config.addresses == {"mail": ("ann@x", "bob@x"), "slack": ("",)}
    assert config.recipients({}, NOW) == dict.fromkeys([ann, bob, slack])
    assert config.group_wait_s == 0.0


def test_first_matching_routes_fallback_is_used_and_later_app_labels_win():
    routes = [
        Route(name="a", channels=("mail",), fallback="slack", goes_on=True),
        Route(name="b", channels=("mail", "slack"), fallback="sms"),
    ]
    config = RoutingConfig(
        routes=routes, addresses={"mail": ("x",), "slack": ("",)},
        app_labels={"*": {"team": "all", "tier": "1"}, "shop": {"team": "ads"}},
    )  # fmt: skip
    expected = {Recipient("mail", "x"): "slack", Recipient("slack"): "sms"}
    assert config.recipients({}, NOW) == expected
    assert config.labels_of_app("shop") == {"team": "ads", "tier": "1"}
    assert config.labels_of_app("bot") == {"team": "all", "tier": "1"}


def test_monitor_alert_has_kind_monitor():
    verdict = make_verdict(Status.WARNING, NOW, metric="monitor:blind")
    assert plan([]).labels(verdict, Severity.WARNING)["kind"] == "monitor"


@pytest.mark.parametrize(
    ("text", "value"), [(' app = "a b" ', "a b"), ('app="a\nb"', "a\nb"), ("app=~a.b", "a\nb")]
)
def test_matcher_value_may_contain_spaces_and_newlines(text, value):
    assert Matcher.parse(text).matches({"app": value})

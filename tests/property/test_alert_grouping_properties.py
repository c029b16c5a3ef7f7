"""What is told together, and when that is news; the oracle knows the rules and not the code."""

import random
import tomllib
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from alerts import grouping
from alerts.drill import sample_snapshot
from alerts.model import AlertKey
from monitor.models.alerting import AlertEvent, Severity

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
E = AlertEvent
REMIND = {Severity.CRITICAL: 3600.0, Severity.WARNING: 7200.0}
PLANTED = tomllib.loads(Path(__file__).with_name("planted_bugs.toml").read_text("utf-8"))[
    "grouping"
]
SAMPLE = sample_snapshot(NOW)


def snapshot(name, *, app="bot", event=E.FIRED, judge="", **changes):
    verdict = SAMPLE.verdict.model_copy(
        update={"app": app, "metric": name, "evaluator_version": judge}
    )
    changes |= {"incident_id": f"{app}-{name}", "event": event, "verdict": verdict, "at": NOW}
    changes["shared_cause"] = f"the judge {judge}" if judge else ""
    return SAMPLE.model_copy(update=changes)


def level(rng):
    return rng.choice(list(Severity))


def some_group(rng):
    told = rng.random() < 0.7
    ago = timedelta(minutes=rng.choice([0, 2, 5, 30, 90, 150]))
    return grouping.AlertGroup(
        group_id="g",
        app="bot",
        cause=None,
        opened_at=NOW - ago,
        level=level(rng) if told else None,
        told_at=NOW - ago if told else None,
        sequence=rng.randint(1, 5) if told else 0,
        flapping=frozenset(name_of(n) for n in "ab" if rng.random() < 0.15),
        acked_until=rng.choice([None, None, NOW - timedelta(hours=1), NOW + timedelta(hours=1)]),
    )


def name_of(metric):
    return grouping.key_name(snapshot(metric).key)


def some_happening(rng):
    """Draw a group, what happened in it, and what fires in it now."""
    kinds = [E.FIRED, E.ESCALATED, E.REPEATED, E.REPEATED, E.RESOLVED, E.RESOLVED, E.SETTLED,
             E.UNSILENCED, E.DEESCALATED]  # fmt: skip
    events, members = [], []
    for metric in "abcd":
        over, its_level = False, level(rng)
        if rng.random() < 0.4:
            kind = rng.choice(kinds)
            over = kind in {E.RESOLVED, E.SETTLED}
            quiet, flaps = rng.random() < 0.2, rng.random() < 0.15
            events.append(
                snapshot(metric, event=kind, level=its_level, quiet=quiet, flapping=flaps)
            )
        if not over and (rng.random() < 0.3 or (events and events[-1].key.metric == metric)):
            silenced = rng.random() < 0.3
            members.append(
                grouping.Member(f"bot-{metric}", snapshot(metric).key, its_level, silenced)
            )
    silenced = {member.incident_id for member in members if member.silenced}
    silenced |= {event.incident_id for event in events if rng.random() < 0.1}
    return grouping.GroupEvents(
        group=some_group(rng),
        events=events,
        silenced=silenced,
        members=members,
        recovered=[
            grouping.Member(f"bot-{metric}", snapshot(metric).key, level(rng), silenced=False)
            for metric in "abef"
            if rng.random() < 0.3
        ],
        known_names={name for name in "abcd" if rng.random() < 0.3},
    )


def worst(levels):
    return Severity.CRITICAL if Severity.CRITICAL in levels else Severity.WARNING


def leading(events):
    """Take the first of the worst."""
    return next((e for e in events if e.level == worst([e.level for e in events])), None)


def expected_news(happened, flapping, wait_s):
    """Say what people should be told, and of which alert, or (None, None)."""
    group, events = happened.group, happened.events
    told = group.told_at is not None
    heard = [e for e in events if not e.quiet and e.incident_id not in happened.silenced]
    of = {kind: [e for e in events if e.event is kind] for kind in E}
    awake = [member for member in happened.members if not member.silenced]
    if told and of[E.SETTLED]:
        return E.SETTLED, of[E.SETTLED][0]
    if told and of[E.RESOLVED] and not awake and not flapping:
        return E.RESOLVED, of[E.RESOLVED][0]
    news = began(happened, [e for e in heard if e.event in {E.FIRED, E.ESCALATED}], wait_s)
    unsilenced = [e for e in heard if e.event is E.UNSILENCED]
    if news[0] is None and unsilenced and not any(e.event in {E.FIRED, E.ESCALATED} for e in heard):
        news = E.UNSILENCED, unsilenced[0]
    return news if news[0] else reminder(group, [e for e in heard if e.event is E.REPEATED])


def began(happened, worse, wait_s):
    """Say whether what fires or got worse is news."""
    group, lead = happened.group, leading(worse)
    if lead is None:
        return None, None
    if group.told_at is None:
        return E.FIRED, lead
    if lead.level is Severity.CRITICAL and group.level is Severity.WARNING:
        return E.ESCALATED, lead
    new = [e for e in worse if e.key.metric not in happened.known_names]
    age_s = (NOW - group.opened_at).total_seconds()
    if new and (age_s < wait_s or age_s >= 300):
        return E.JOINED, leading(new)
    return None, None


def reminder(group, due):
    lead = leading(due)
    if lead is None:
        return None, None
    if group.told_at is None:
        return E.FIRED, lead
    acked = group.acked_until is not None and group.acked_until > NOW
    soon = (NOW - group.told_at).total_seconds() < REMIND[lead.level]
    return (None, None) if acked or soon else (E.REPEATED, lead)


def expected_flapping(happened):
    flapping = set(happened.group.flapping)
    for event in happened.events:
        (flapping.add if event.flapping else flapping.discard)(name_of(event.key.metric))
    return frozenset(flapping)


def expected_known(happened, event):
    """Say how bad people think that it is afterwards."""
    awake = [member.level for member in happened.members if not member.silenced]
    if event is E.RESOLVED or (event is E.SETTLED and not happened.members):
        return None
    if event is None:
        before = happened.group.level
        return worst(awake) if before is not None and happened.members else before
    heard = [e for e in happened.events if not e.quiet and e.incident_id not in happened.silenced]
    return worst([*awake, *(e.level for e in heard if e.event is not E.RESOLVED)])


def news_is_right(module, rng):
    """Compare one drawn happening with the rules."""
    happened, wait_s = some_happening(rng), rng.choice([0.0, 60.0, 180.0])
    flapping, group = expected_flapping(happened), happened.group
    event, lead = expected_news(happened, flapping, wait_s)
    after, news = module.group_message(happened, NOW, remind_after_s=REMIND, group_wait_s=wait_s)
    known = expected_known(happened, event)
    ends = event is not None and known is None
    acked = None if ends or event is E.ESCALATED else group.acked_until
    if (after.level, after.flapping, after.acked_until) != (known, flapping, acked):
        return False
    if event is None:
        return news is None and (after.told_at, after.sequence) == (group.told_at, group.sequence)
    told_at = None if ends else NOW
    others, recovered = (
        tuple(member for member in members if member.incident_id != lead.incident_id)
        for members in (happened.members, happened.recovered)
    )
    return (
        news is not None
        and (news.event, news.lead, news.group) == (event, lead, after)
        and (news.others, news.recovered) == (others, recovered)
        and (after.told_at, after.sequence) == (told_at, group.sequence + 1)
    )


def group_named(name, app, cause=None):
    return grouping.AlertGroup(group_id=name, app=app, cause=cause, opened_at=NOW)


def some_beginnings(rng):
    """Draw alerts that fire, and the groups that there are."""
    apps = rng.sample("pqrstu", rng.randint(1, 6))
    judges = {app: rng.choice(["", "j1", "j1", "j2"]) for app in apps}
    fired = [
        snapshot(metric, app=app, judge=judges[app])
        for app in apps
        for metric in "ab"
        if rng.random() < 0.7
    ]
    rng.shuffle(fired)
    by_app = {app: group_named(f"open-{app}", app) for app in apps if rng.random() < 0.2}
    cause = {"the judge j2": group_named("cause", "*", "the judge j2")}
    by_cause = cause if rng.random() < 0.3 else {}
    young = {"the judge j1": set(rng.sample("xyz", rng.randint(0, 2)))}
    was_in = {
        event.incident_id: group_named(f"was-{event.key.app}", event.key.app)
        for event in fired
        if rng.random() < 0.15
    }
    return fired, by_app, by_cause, young, was_in


def places_are_right(module, rng):
    """Compare the groups of one drawn evaluation with the rules."""
    fired, by_app, by_cause, young, was_in = some_beginnings(rng)
    placed = module.place(fired, by_app, by_cause, young, was_in)
    again = {e.key.app for e in fired if e.incident_id in was_in} - by_app.keys()
    fresh = {e.key.app: e for e in reversed(fired) if e.key.app not in by_app.keys() | again}
    for event in fired:
        app, found = event.key.app, placed[event.incident_id]
        judge = f"the judge {event.verdict.evaluator_version}"
        alike = {a for a, e in fresh.items() if f"the judge {e.verdict.evaluator_version}" == judge}
        common = judge != "the judge " and (
            judge in by_cause or len(alike | set(young.get(judge, ()))) >= 3
        )
        if app in by_app:
            right = found == by_app[app]
        elif app in again:
            right = found.group_id == f"was-{app}"
        elif common:
            of_cause = {placed[fresh[a].incident_id].group_id for a in alike}
            right = (found.cause, of_cause) == (judge, {found.group_id})
            right = right and (judge not in by_cause or found == by_cause[judge])
        else:
            right = (found.cause, found.app, found.group_id) == (None, app, fresh[app].incident_id)
        if not right:
            return False
    return placed.keys() == {event.incident_id for event in fired}


@pytest.mark.parametrize("rule", [news_is_right, places_are_right])
def test_group_messages_follow_the_rules(rule, plant):
    # The second is a copy without a bug: nothing must be found only because it is a copy.
    for module in (grouping, plant("alerts.grouping")):
        rng = random.Random(7)
        assert all(rule(module, rng) for _ in range(800))


@pytest.mark.parametrize("bug", PLANTED)
def test_planted_bug_is_found(bug, plant):
    module, rng = plant("alerts.grouping", *PLANTED[bug]), random.Random(7)
    for _ in range(1500):
        if not news_is_right(module, rng) or not places_are_right(module, rng):
            return
    pytest.fail("nobody noticed")


def test_group_is_over_when_nothing_fires_or_is_silenced():
    member = grouping.Member("i", AlertKey("bot", "a", "*", 60), Severity.WARNING, silenced=True)
    group = group_named("g", "bot")
    assert grouping.is_over(group, [])
    assert not grouping.is_over(group, [member])


def some_members(rng, names):
    peaks = {name: level(rng) for name in names}
    return tuple(
        grouping.Member(f"i-{name}", snapshot(name).key, rng.choice([Severity.WARNING, peak]),
                        silenced=False, peak=peak)
        for name, peak in peaks.items()
    )  # fmt: skip


def some_news(rng):
    """Draw a message about a group that holds up to fifteen other alerts of each sort."""
    hours = [NOW - timedelta(hours=rng.randint(1, 9)) for _ in range(3)]
    peak = level(rng)
    lead = snapshot("lead", level=rng.choice([Severity.WARNING, peak])).model_copy(
        update={"peak": peak, "opened_at": hours[0], "since": hours[0] - timedelta(minutes=5)}
    )
    group = grouping.AlertGroup(
        group_id="g", app="bot", cause=rng.choice([None, "the judge"]), opened_at=hours[1],
        level=rng.choice([None, Severity.WARNING, Severity.CRITICAL]), sequence=rng.randint(1, 9),
    )  # fmt: skip
    kind = rng.choice([E.FIRED, E.JOINED, E.REPEATED, E.RESOLVED, E.SETTLED])
    sides = (some_members(rng, rng.sample("abcdefghijklmnop", rng.randint(0, 15))) for _ in "12")
    others, recovered = sides
    return grouping.GroupMessage(
        group=group, event=kind, lead=lead, others=others, recovered=recovered
    )


def named(members, levels):
    """Name the first ten, the worst first and those of one level by name."""
    found = [(members[i].key.metric, levels[i]) for i in range(len(members))]
    return sorted(found, key=lambda one: (one[1] is not Severity.CRITICAL, one[0]))[:10]


def test_group_message_is_its_leads_with_times_and_levels_of_all():
    rng = random.Random(3)
    for _ in range(300):
        news = some_news(rng)
        found, group, lead = news.snapshot(), news.group, news.lead
        ends = news.event in {E.RESOLVED, E.SETTLED}
        assert news.level == (group.level or lead.peak)
        assert (found.incident_id, found.sequence, found.event) == ("g", group.sequence, news.event)
        assert found.level == (lead.level if ends else news.level)
        bad = [lead.peak, news.level, *(member.peak for member in news.recovered)]
        assert found.peak == worst(bad)
        first = min(lead.opened_at, group.opened_at) if ends else lead.opened_at
        assert (found.opened_at, found.since) == (first, min(lead.since, first))
        assert found.cause == group.cause
        others = named(news.others, [member.level for member in news.others])
        recovered = named(news.recovered, [member.peak for member in news.recovered])
        assert [(other.metric, other.level) for other in found.others] == others
        assert [(other.metric, other.level) for other in found.recovered] == recovered
        assert found.more == max(0, len(news.others) - 10)
        assert found.verdict == lead.verdict

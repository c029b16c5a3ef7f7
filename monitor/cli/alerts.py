"""``groundwatch alerts`` and ``incidents``: incidents, silences, and what rules would have sent."""
# ruff: noqa: PLC0415 - the help of a command loads nothing that only its work needs

from __future__ import annotations

import getpass
import shlex
from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from monitor.cli import console
from monitor.cli.console import out
from monitor.cli.messages import MESSAGE_COLUMNS, drill, outbox_app, render, route, test
from monitor.errors import SettingsError
from monitor.format import duration, plain_text, short_id, utc_time

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from alerts.model import Snapshot
    from alerts.routing import Matcher, RoutingConfig, SilenceRule
    from monitor.models.alerting import Incident

app = console.group("Incidents, and the messages about them.")
silences_app = console.group("Mute some alerts for a while.")
incidents_app = console.group("List, show and acknowledge incidents; alone: list.", alone=True)
app.add_typer(silences_app, name="silence")
app.add_typer(outbox_app, name="outbox")
for command in (route, test, render, drill):
    app.command()(command)

Named = Annotated[
    str, typer.Argument(metavar="INCIDENT", help="Id of the incident, or its first characters.")
]
Matchers = Annotated[
    list[str], typer.Argument(help="Such as app=shop severity=warning 'metric=~ground.*'.")
]


@silences_app.command("add")
def add(
    matchers: Matchers,
    lasts: Annotated[str, typer.Option("--for", help="For how long: 30m, 2h, 7d.")],
    comment: Annotated[str, typer.Option(help="Why, for your team.")],
    by: Annotated[str, typer.Option(help="Who adds it; unset: your user name.")] = "",
    begins_in: Annotated[str, typer.Option("--in", help="Start later: 30m, 2h.")] = "",
) -> None:
    """Mute alerts that match all matchers; events are still recorded."""
    from alerts.dispatch import wiring_from
    from alerts.routing import parse_all
    from alerts.silencing import add_silence

    now = datetime.now(UTC)
    starts_at = now + timedelta(seconds=console.parse_duration_s(begins_in) if begins_in else 0)
    ends_at = starts_at + timedelta(seconds=console.parse_duration_s(lasts))
    parsed, plan = parse_all(matchers), wiring_from(console.read_settings()).plan
    with console.writing() as connection:
        _preview(connection, plan, parsed)
        made = add_silence(
            connection, parsed, now=now, starts_at=starts_at, ends_at=ends_at,
            author=by or getpass.getuser(), comment=comment,
        )  # fmt: skip
    out.print(f"silence {made.silence_id} until {utc_time(made.ends_at)}")


@silences_app.command("preview")
def preview(matchers: Matchers) -> None:
    """Show what a silence would mute now, without creating it."""
    from alerts.dispatch import wiring_from
    from alerts.routing import parse_all

    plan = wiring_from(console.read_settings()).plan
    with console.reading() as connection:
        _preview(connection, plan, parse_all(matchers))


@silences_app.command("ls")
def list_silences(
    window: Annotated[str, typer.Option(help="Include those that ended within 24h, 7d.")] = "",
    as_json: console.AsJson = False,
) -> None:
    """List silences, the first to end first, and the maintenance windows of the routes file."""
    from alerts.dispatch import wiring_from
    from alerts.store import silences_after

    now = datetime.now(UTC)
    since = now - timedelta(seconds=console.parse_duration_s(window) if window else 0)
    with console.reading() as connection:
        found = silences_after(connection, since)

    def as_dict(silence: SilenceRule) -> dict[str, object]:
        return asdict(silence) | {"matchers": [*map(str, silence.matchers)]}

    console.print_rows(found, {
        "id": lambda each: each.silence_id,
        "matchers": lambda each: console.safe(" ".join(map(str, each.matchers)), 60),
        "ends": lambda each: utc_time(each.ends_at, now) + " (over)" * (each.ends_at <= now),
        "by": lambda each: console.safe(each.author, 30),
        "why": lambda each: console.safe(each.comment, 60),
    }, as_json=as_json, json_of=as_dict, none="no silences")  # fmt: skip
    if as_json:
        return
    for window_ in wiring_from(console.read_settings()).plan.maintenance:
        until = window_.hours.until(now)
        state = "now" if until else "not now"
        matchers = " ".join(map(str, window_.matchers))
        out.print(Text(f"maintenance {window_.name} ({state}): {matchers}, {window_.hours}"))


@silences_app.command("expire")
def expire(silence_id: Annotated[str, typer.Argument(help="Id from `silence ls`.")]) -> None:
    """End a silence now, and notify about alerts that still fire."""
    from alerts.silencing import expire_silence

    with console.writing() as connection:
        if not expire_silence(connection, silence_id, datetime.now(UTC)):
            raise SettingsError(f"no silence {silence_id!r} to end; groundwatch alerts silence ls")
    out.print(f"silence {plain_text(silence_id)} is over")


def _preview(connection: Connection, plan: RoutingConfig, matchers: tuple[Matcher, ...]) -> None:
    from alerts.silencing import preview as preview_of

    found = preview_of(connection, plan, matchers)
    out.print(f"mutes {len(found.held)} of {found.firing} alerts that fire now")
    for incident in found.held[:20]:
        console.say(plain_text(f"  {incident.level} {incident.app} {incident.metric}", 120))
    if found.warning:
        console.warn(found.warning)


@incidents_app.callback()
def list_incidents(
    context: typer.Context,
    of: console.OnlyApp = None,
    window: console.Window = "7d",
    as_json: console.AsJson = False,
) -> None:
    """List, show and acknowledge incidents; alone: list."""
    if console.is_alone(context):
        ls(of, window, as_json)


@incidents_app.command("list")
@app.command("ls")
def ls(
    of: console.OnlyApp = None, window: console.Window = "7d", as_json: console.AsJson = False
) -> None:
    """List incidents, the newest first."""
    from alerts.queries import deliveries, incidents_since
    from alerts.store import acknowledgements
    from monitor.report.words import incident_sentence, level_words

    now, span_s = datetime.now(UTC), console.parse_duration_s(window)
    since = now - timedelta(seconds=span_s)
    with console.reading() as connection:
        found = incidents_since(connection, since, app=of)
        acks = acknowledgements(connection)
        unnoticed = {
            item.incident_id for item in found
            if item.is_open and not deliveries(connection, incident_id=item.incident_id, limit=1)
        }  # fmt: skip

    def state(incident: Incident) -> Text:
        said, ack = [incident_sentence(incident, now)], acks.get(incident.incident_id)
        if incident.incident_id in unnoticed:
            said.append("nobody was notified")
        if incident.silenced_by and incident.is_open:
            said.append(f"silenced by {incident.silenced_by}")
        if ack:
            said.append(f"acknowledged by {plain_text(ack.by, 30)}")
        return Text(", ".join(said))

    console.print_rows(found, {
        "id": lambda item: short_id(item.incident_id),
        "opened": lambda item: utc_time(item.opened_at, now),
        "level": level_words,
        "app": lambda item: console.safe(", ".join(item.apps), 40),
        "metric": lambda item: console.safe(", ".join(item.metrics), 60),
        "state": state,
    }, as_json=as_json, none=f"no incidents in the last {duration(span_s)}")  # fmt: skip


@incidents_app.command("show")
@app.command("show")
def show(name: Named, as_json: console.AsJson = False) -> None:
    """Show one incident: what happened and why, and what became of each message."""
    from alerts.conditions import BLINDNESS, CONDITIONS, MONITOR_PREFIX
    from alerts.dispatch import wiring_from
    from alerts.queries import began_at, deliveries, snapshots, why_not_notified
    from alerts.store import acknowledgement
    from monitor.report.words import incident_sentence, level_words, verdict_rate
    from monitor.web.schema import IncidentAnswer
    from monitor.web.templating import event_reason

    now = datetime.now(UTC)
    with console.opened() as (settings, store), store.read() as connection:
        incident = named_incident(connection, name)
        events = snapshots(connection, incident.incident_id)
        sent = deliveries(connection, incident_id=incident.incident_id)
        ack = acknowledgement(connection, incident.incident_id)
        oldest = now - timedelta(days=settings.retention.keep_outbox_days)
        channels = {} if sent else wiring_from(settings).channels
        why_not = "" if sent else why_not_notified(connection, incident, channels, oldest)
    if as_json:
        line = [event.timeline_event() for event in events]
        console.print_json(IncidentAnswer(incident=incident, timeline=line, deliveries=sent))
        return
    subject = f"{', '.join(incident.apps)} · {', '.join(incident.metrics)}"
    what = f"{subject}: {level_words(incident)}"
    began = began_at(incident, events)
    since = f"; began {utc_time(began, now)}" if began < incident.opened_at else ""
    out.print(console.safe(f"{what}, {incident_sentence(incident, now)}{since}", 200))
    if incident.silenced_by and incident.is_open:
        out.print(console.safe(f"silenced by {incident.silenced_by}", 200))
    if ack:
        until = f"reminders are off until {utc_time(ack.until, now)}"
        out.print(console.safe(f"acknowledged by {ack.by}: {ack.note or 'no note'}; {until}", 300))

    def said(event: Snapshot) -> str:
        reason = event_reason(event.reason)
        parts = ("" if reason == event.event else reason, event.verdict.reason, event.superseded)
        return ": ".join(filter(None, parts))

    story: dict[str, Callable[[Snapshot], console.Cell]] = {
        "at": lambda event: utc_time(event.at, now)
    }
    if len(incident.alerts) > 1:
        several = len(incident.apps) > 1
        story["alert"] = lambda event: console.safe(
            f"{event.verdict.app} · {event.verdict.metric}" if several else event.verdict.metric, 60
        )
    story |= {
        "event": lambda event: event.event,
        "level": lambda event: event.level,
        "pass rate (90 %)": lambda event: (
            "" if event.verdict.pass_rate is None else verdict_rate(event.verdict, unverified="")
        ),
        "n": lambda event: f"{event.verdict.n:,}",
        "why": lambda event: console.safe(said(event), 300),
    }
    console.print_rows(events, story, none="nothing happened yet")
    console.print_rows(
        sent[::-1], {"message": lambda item: short_id(item.delivery_id), **MESSAGE_COLUMNS},
        none=f"no notification: {plain_text(why_not, 300)}",
    )  # fmt: skip
    if incident.is_open and incident.metric.startswith(MONITOR_PREFIX):
        console.say(f"To do: {CONDITIONS.get(incident.metric, BLINDNESS).advice}")
    elif incident.is_open:
        app_, metric = shlex.quote(incident.app), shlex.quote(incident.metric)
        since = began.astimezone(UTC).strftime("%Y-%m-%dT%H:%M")
        console.say("To do:")
        for command in (
            f"why {app_} {metric}",
            f"samples --app {app_} --metric {metric} --failed --since {since}",
            f"open {short_id(incident.incident_id)}",
        ):
            console.say(f"  groundwatch {command}")


@incidents_app.command("ack")
@app.command("ack")
def ack(
    name: Named,
    by: Annotated[str, typer.Option(help="Who is working on it; unset: your user name.")] = "",
    note: Annotated[str, typer.Option(help="A note for your team.")] = "",
    lasts: Annotated[str, typer.Option("--for", help="How long reminders pause: 2h, 8h.")] = "8h",
) -> None:
    """Acknowledge an incident: pause its reminders; you are still notified if it gets worse."""
    from alerts.store import acknowledge

    now = datetime.now(UTC)
    until = now + timedelta(seconds=console.parse_duration_s(lasts))
    with console.writing() as connection:
        incident = named_incident(connection, name)
        who, found = by or getpass.getuser(), incident.incident_id
        if not acknowledge(connection, found, by=who, note=note, now=now, until=until):
            raise SettingsError(f"incident {found} is over already")
    out.print(f"no reminders until {utc_time(until)}; you get a message if it gets worse")
    firing = [f"{alert.app} {alert.metric}" for alert in incident.alerts if alert.is_open]
    if len(firing) > 1:
        console.say(plain_text(f"acknowledged: {', '.join(firing)}", 300))


def named_incident(connection: Connection, name: str) -> Incident:
    """Return the incident whose id begins so; raise SettingsError unless there is exactly one."""
    from alerts.queries import incidents_named

    found = incidents_named(connection, name)
    if len(found) != 1:
        problem = "several incidents are" if found else "no incident is"
        raise SettingsError(f"{problem} named {name!r}; see: groundwatch incidents")
    return found[0]


_DAY_S = 86_400.0


@app.command()
def backtest(
    since: Annotated[str, typer.Option(help="How far back: 7d, 30d.")] = "30d",
    rules: Annotated[
        Path | None, typer.Option(help="Other settings, as a TOML file: warning_rate = 0.9.")
    ] = None,
    scores: Annotated[
        Path | None,
        typer.Option(help="Replay the output of `evaluate`, or scored records, not the store."),
    ] = None,
    every_policy: Annotated[
        bool, typer.Option("--every-policy", help="Also try the present rules under each policy.")
    ] = False,
) -> None:
    """Replay history: count the messages that rules would have sent, by app and metric."""
    from alerts.backtest import missed
    from monitor.report.listing import Listing
    from workers.backtest import POLICY_NAMES, of_scores, of_store, rules_from, scores_of

    settings = console.read_settings()
    present = rules_from(settings)
    tried = {f"now ({present.policy})": present}
    if rules is not None:
        tried["with the new rules"] = rules_from(settings, rules)
    if every_policy:
        tried |= {p: replace(present, policy=p) for p in POLICY_NAMES if p != present.policy}
    end = datetime.now(UTC)
    if scores is not None:
        history = scores_of(scores)
        replayed = {name: of_scores(history, each) for name, each in tried.items()}
    else:
        begin = end - timedelta(seconds=console.parse_duration_s(since))
        with console.reading() as connection:
            replayed = {n: of_store(connection, r, begin=begin, end=end) for n, r in tried.items()}
    by_key = [{each.key[:3]: each for each in found} for found in replayed.values()]
    listed = Listing.of("app", "metric", *replayed)
    for one in next(iter(replayed.values())):
        found = [keys[one.key[:3]] for keys in by_key]
        # A shorter history says nothing about a month.
        per_month = (f" ({e.per_month:.1f})" if e.span_s >= _DAY_S else "" for e in found)
        cells = (f"{len(e.events)}{more}" for e, more in zip(found, per_month, strict=True))
        listed.add_row(console.safe(one.key.app, 40), console.safe(one.key.metric, 40), *cells)
    out.print(listed if listed.rows else "no history yet")
    if listed.rows:
        out.print("messages on this history (and per 30 days, where it covers a day or more)")
    if rules is not None:
        before, after = list(replayed.values())[:2]
        gone = missed(before, after, within_s=float(present.window_s))
        out.print(
            f"alerts of today's rules that the new rules would miss: {len(gone) or 'nothing'}"
        )
        for key, at in gone[:20]:
            console.say(plain_text(f"  {utc_time(at)} {key.app} {key.metric}", 120))

"""``groundwatch alerts``: incidents, who hears of them, and trying that out."""

from __future__ import annotations

import getpass
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Annotated

import typer
from rich.text import Text
from sqlalchemy import Connection

from alerts import dispatch
from alerts import drill as drills
from alerts.backtest import missed
from alerts.channels.base import Channel
from alerts.conditions import MONITOR_PREFIX
from alerts.dispatch import Dispatcher
from alerts.drill import MessageForm, rendered, send_test
from alerts.model import Snapshot
from alerts.queries import (
    deliveries,
    incidents_named,
    incidents_since,
    snapshots,
    why_not_notified,
)
from alerts.routes_file import wiring_from
from alerts.routing import (
    Matcher,
    Recipient,
    RoutingConfig,
    SilenceRule,
    parse_all,
    silence_for,
)
from alerts.silencing import add_silence, expire_silence
from alerts.silencing import preview as preview_of
from alerts.store import acknowledge, acknowledgement, acknowledgements, silences_after
from monitor.cli.console import (
    AsJson,
    Cell,
    OnlyApp,
    Window,
    err,
    open_store,
    out,
    parse_duration_s,
    parse_time,
    print_json,
    print_rows,
    quiet_logs,
    reading,
    safe,
    say,
    warn,
    writing,
)
from monitor.errors import DeliveryError, GroundwatchError, SettingsError
from monitor.models.alerting import AlertEvent, Delivery, DeliveryStatus, Incident, Severity
from monitor.report.format import percent, plain_text, short_id, utc_time
from monitor.report.listing import Listing
from monitor.report.words import incident_sentence, level_words
from monitor.settings import Settings, variable
from monitor.web.schema import IncidentAnswer
from workers.backtest import (
    POLICY_NAMES,
    of_scores,
    of_store,
    rules_from,
    scores_of,
)

#: Where the address of a channel comes from; of all others it is the routes file.
_SETTINGS = {"slack": "slack_webhook_url", "email": "smtp_url"}

app = typer.Typer(
    no_args_is_help=True, add_completion=False, help="Incidents, and the messages about them."
)


#: What lists of messages have in common.
_OF_MESSAGE: dict[str, Callable[[Delivery], Cell]] = {
    "event": lambda item: item.event,
    "channel": lambda item: item.channel,
    "recipient": lambda item: safe(item.recipient, 40),
    "state": lambda item: item.status,
    "last error": lambda item: item.error_code or "",
}

silences_app = typer.Typer(no_args_is_help=True, help="Mute some alerts for a while.")

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
    now = datetime.now(UTC)
    starts_at = now + timedelta(seconds=parse_duration_s(begins_in) if begins_in else 0)
    ends_at = starts_at + timedelta(seconds=parse_duration_s(lasts))
    parsed, plan = parse_all(matchers), wiring_from(Settings.from_env()).plan
    with writing() as connection:
        _preview(connection, plan, parsed)
        made = add_silence(
            connection, parsed, now=now, starts_at=starts_at, ends_at=ends_at,
            author=by or getpass.getuser(), comment=comment,
        )  # fmt: skip
    out.print(f"silence {made.silence_id} until {utc_time(made.ends_at)}")


@silences_app.command("preview")
def preview(matchers: Matchers) -> None:
    """Show what a silence would mute now, without creating it."""
    plan = wiring_from(Settings.from_env()).plan
    with reading() as connection:
        _preview(connection, plan, parse_all(matchers))


@silences_app.command("ls")
def list_silences(
    window: Annotated[str, typer.Option(help="Include those that ended within 24h, 7d.")] = "",
    as_json: AsJson = False,
) -> None:
    """List silences, the first to end first, and the maintenance windows of the routes file."""
    now = datetime.now(UTC)
    since = now - timedelta(seconds=parse_duration_s(window) if window else 0)
    with reading() as connection:
        found = silences_after(connection, since)
    if as_json:
        print_json([
            asdict(silence) | {"matchers": [str(each) for each in silence.matchers]}
            for silence in found
        ])  # fmt: skip
        return
    print_rows(found, {
        "id": lambda each: each.silence_id,
        "matchers": lambda each: safe(" ".join(map(str, each.matchers)), 60),
        "ends": lambda each: utc_time(each.ends_at, now) + " (over)" * (each.ends_at <= now),
        "by": lambda each: safe(each.author, 30),
        "why": lambda each: safe(each.comment, 60),
    }, none="no silences")  # fmt: skip
    for window_ in wiring_from(Settings.from_env()).plan.maintenance:
        until = window_.hours.until(now)
        state = "now" if until else "not now"
        matchers = " ".join(map(str, window_.matchers))
        out.print(Text(f"maintenance {window_.name} ({state}): {matchers}, {window_.hours}"))


@silences_app.command("expire")
def expire(
    silence_id: Annotated[str, typer.Argument(help="Id from `silence ls`.")],
) -> None:
    """End a silence now, and notify about alerts that still fire."""
    with writing() as connection:
        if not expire_silence(connection, silence_id, datetime.now(UTC)):
            raise SettingsError(f"no silence {silence_id!r} to end; groundwatch alerts silence ls")
    out.print(f"silence {plain_text(silence_id)} is over")


def _preview(connection: Connection, plan: RoutingConfig, matchers: tuple[Matcher, ...]) -> None:
    found = preview_of(connection, plan, matchers)
    out.print(f"mutes {len(found.held)} of {found.firing} alerts that fire now")
    for incident in found.held[:20]:
        out.print(Text(plain_text(f"  {incident.level} {incident.app} {incident.metric}", 120)))
    if found.warning:
        warn(found.warning)


app.add_typer(silences_app, name="silence")


outbox_app = typer.Typer(
    invoke_without_command=True, help="Messages that are waiting, sent or given up, and why."
)

NamedMessage = Annotated[str, typer.Argument(help="Id of the message, or its first characters.")]


@outbox_app.callback()
def outbox(context: typer.Context) -> None:
    """Messages that are waiting, sent or given up, and why."""
    if context.invoked_subcommand is None:
        list_messages()


@outbox_app.command("ls")
def list_messages(
    dead: Annotated[bool, typer.Option("--dead", help="Only those that were given up.")] = False,
    as_json: AsJson = False,
) -> None:
    """List messages, the newest first."""
    now = datetime.now(UTC)
    status = DeliveryStatus.DEAD if dead else None
    none = "no messages were given up" if dead else "no messages yet"
    with reading() as connection:
        found = deliveries(connection, status=status)
    print_rows(found, {
        "id": lambda item: short_id(item.delivery_id),
        "created": lambda item: utc_time(item.created_at, now),
        **_OF_MESSAGE,
        "attempts": lambda item: str(item.attempts),
    }, as_json=as_json, none=none)  # fmt: skip


@outbox_app.command("retry")
def retry(name: NamedMessage) -> None:
    """Retry a message that was given up."""
    with writing() as connection:
        found = dispatch.retry(connection, name, datetime.now(UTC))
    out.print(f"message {found} waits to be sent again")


@outbox_app.command("drop")
def drop(name: NamedMessage) -> None:
    """Delete a message that waits or was given up."""
    with writing() as connection:
        found = dispatch.drop(connection, name, datetime.now(UTC))
    out.print(f"message {found} was deleted")


app.add_typer(outbox_app, name="outbox")


def route(
    app: Annotated[str, typer.Option(help="The app that the alert is about.")],
    severity: Annotated[Severity, typer.Option(help="Its severity.")] = Severity.CRITICAL,
    metric: Annotated[str, typer.Option(help="The metric that it is about.")] = "groundedness",
    label: Annotated[list[str] | None, typer.Option(help="More labels, as name=value.")] = None,
    at: Annotated[str, typer.Option(help="When: 2026-03-29T02:30+02:00; now if left out.")] = "",
) -> None:
    """Show where an alert would be sent, and why, without sending it."""
    settings = Settings.from_env()
    now = parse_time(at, datetime.now(UTC)) if at else datetime.now(UTC)
    plan = wiring_from(settings).plan
    labels = plan.app_labels.of(app) | {
        "app": app, "metric": metric, "segment": "*", "severity": severity.value,
        "kind": "monitor" if metric.startswith(MONITOR_PREFIX) else "quality",
    }  # fmt: skip
    for text in label or []:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise SettingsError(f"Invalid --label {text!r}: expected name=value")
        labels[name] = value
    for step in plan.router.explain(labels, now):
        verdict = "matches" if step.refusal is None else f"no: {step.refusal}"
        say(plain_text(f"{step.route.name}: {verdict}", 200))
    places = plan.recipients(labels, now)
    for to, fallback in places.items():
        instead = f", else {fallback}" if fallback else ""
        out.print(Text(plain_text(f"-> {to.channel} {to.address}".rstrip() + instead, 200)))
    if not places:
        out.print("-> nobody: no channel is configured")
    silences: list[SilenceRule] = []
    # A machine without a store has none.
    with suppress(GroundwatchError), open_store(settings).read() as connection:
        silences += silences_after(connection, now)
    silence = silence_for([*silences, *plan.maintenance], labels, now)
    if silence is not None:
        text = f"but it is silenced now: {silence.silence_id}, by {silence.author}"
        out.print(Text(plain_text(text, 200), style="yellow"))


app.command("route")(route)

Named = Annotated[str, typer.Argument(help="Id of the incident, or its first characters.")]


incidents_app = typer.Typer(
    no_args_is_help=True, add_completion=False, help="List, show and acknowledge incidents."
)


@incidents_app.command("list")
@app.command("ls")
def ls(of: OnlyApp = None, window: Window = "7d", as_json: AsJson = False) -> None:
    """List incidents, the newest first."""
    now = datetime.now(UTC)
    since = now - timedelta(seconds=parse_duration_s(window))
    with reading() as connection:
        found = incidents_since(connection, since, app=of)
        acks = acknowledgements(connection)

    def state(incident: Incident) -> Text:
        said, ack = [incident_sentence(incident, now)], acks.get(incident.incident_id)
        if incident.silenced_by and incident.is_open:
            said.append(f"silenced by {incident.silenced_by}")
        if ack:
            said.append(f"acknowledged by {plain_text(ack.by, 30)}")
        return Text(", ".join(said))

    print_rows(found, {
        "id": lambda item: short_id(item.incident_id),
        "opened": lambda item: utc_time(item.opened_at, now),
        "level": level_words,
        "app": lambda item: safe(", ".join(item.apps), 40),
        "metric": lambda item: safe(", ".join(item.metrics), 60),
        "state": state,
    }, as_json=as_json, none=f"no incidents in the last {window}")  # fmt: skip


@incidents_app.command("show")
@app.command("show")
def show(name: Named, as_json: AsJson = False) -> None:
    """Show one incident: what happened and why, and what became of each message."""
    settings, now = Settings.from_env(), datetime.now(UTC)
    with open_store(settings).read() as connection:
        incident = _one(connection, name)
        events = snapshots(connection, incident.incident_id)
        sent = deliveries(connection, incident_id=incident.incident_id)
        ack = acknowledgement(connection, incident.incident_id)
        oldest = now - timedelta(days=settings.retention.keep_outbox_days)
        channels = {} if sent else wiring_from(settings).channels
        why_not = "" if sent else why_not_notified(connection, incident, channels, oldest)
    if as_json:
        line = [event.timeline_event() for event in events]
        print_json(IncidentAnswer(incident=incident, timeline=line, deliveries=sent))
        return
    subject = f"{', '.join(incident.apps)} · {', '.join(incident.metrics)}"
    what = f"{subject}: {level_words(incident)}"
    out.print(safe(f"{what}, {incident_sentence(incident, now)}", 200))
    if ack:
        until = f"reminders are off until {utc_time(ack.until, now)}"
        out.print(safe(f"acknowledged by {ack.by}: {ack.note or 'no note'}; {until}", 300))
    story: dict[str, Callable[[Snapshot], Cell]] = {"at": lambda event: utc_time(event.at, now)}
    if len(incident.alerts) > 1:
        several = len(incident.apps) > 1
        story["alert"] = lambda event: safe(
            f"{event.verdict.app} · {event.verdict.metric}" if several else event.verdict.metric, 60
        )
    story |= {
        "event": lambda event: event.event,
        "level": lambda event: event.level,
        "pass rate": lambda event: (
            "" if (rate := event.verdict.pass_rate) is None else percent(rate)
        ),
        "n": lambda event: f"{event.verdict.n:,}",
        "why": lambda event: safe(": ".join(filter(None, (event.reason, event.superseded))), 300),
    }
    print_rows(events, story, none="nothing happened yet")
    print_rows(
        sent[::-1], {"message": lambda item: short_id(item.delivery_id), **_OF_MESSAGE},
        none=f"no notification: {plain_text(why_not, 300)}",
    )  # fmt: skip


@incidents_app.command("ack")
@app.command("ack")
def ack(
    name: Named,
    by: Annotated[str, typer.Option(help="Who is working on it; unset: your user name.")] = "",
    note: Annotated[str, typer.Option(help="A note for your team.")] = "",
    lasts: Annotated[str, typer.Option("--for", help="How long reminders pause: 2h, 8h.")] = "8h",
) -> None:
    """Acknowledge an incident: pause its reminders; you are still notified if it gets worse."""
    now = datetime.now(UTC)
    until = now + timedelta(seconds=parse_duration_s(lasts))
    with writing() as connection:
        incident = _one(connection, name)
        who, found = by or getpass.getuser(), incident.incident_id
        if not acknowledge(connection, found, by=who, note=note, now=now, until=until):
            raise SettingsError(f"incident {found} is over already")
    out.print(f"no reminders until {utc_time(until)}; you get a message if it gets worse")
    firing = [f"{alert.app} {alert.metric}" for alert in incident.alerts if alert.is_open]
    if len(firing) > 1:
        text = f"acknowledged for all of it: {', '.join(firing)}"
        out.print(Text(plain_text(text, 300)))


@app.command("test")
def test(channel: Annotated[str, typer.Argument(help="The name of a channel.")]) -> None:
    """Send one real message marked TEST, and show the reply."""
    channels = wiring_from(Settings.from_env()).channels
    if channel not in channels:
        there = ", ".join(channels) or "none; set GROUNDWATCH_SLACK_WEBHOOK_URL or _SMTP_URL"
        raise SettingsError(f"no channel {channel!r} is set up; there is: {there}")
    outcomes = [_try(channels[channel], address) for address in channels[channel].addresses]
    if not all(outcomes):
        raise typer.Exit(1)


@app.command("render")
def render(
    form: Annotated[MessageForm, typer.Option(help="Output format.")] = MessageForm.TEXT,
    event: Annotated[AlertEvent, typer.Option(help="The event it announces.")] = AlertEvent.FIRED,
) -> None:
    """Print a message as it would be sent, without sending it."""
    typer.echo(rendered(form, event, datetime.now(UTC)))


@app.command("drill")
def drill(
    watched: Annotated[str, typer.Argument(metavar="APP", help="App whose routes are tried.")],
) -> None:
    """Fire, escalate and resolve a test alert through the real outbox, marked TEST."""
    settings = Settings.from_env()
    channels, plan = wiring_from(settings)
    if not channels:
        raise SettingsError(
            "no channel is configured, so nobody would be notified; set"
            " GROUNDWATCH_SLACK_WEBHOOK_URL, GROUNDWATCH_SMTP_URL or GROUNDWATCH_ALERTS_FILE"
        )
    quiet_logs()
    store, told = open_store(settings), dict[Recipient, str | None]()
    dispatcher = Dispatcher(store, channels, Random())  # noqa: S311
    began = drills.begin_drill(store, watched, datetime.now(UTC))
    held: dict[str, None] = {}
    for event in drills.act(began, datetime.now(UTC)):
        silence = drills.silence_over(store, plan, event, datetime.now(UTC))
        held |= {} if silence is None else {silence: None}
        drills.enqueue(store, plan, event, told, datetime.now(UTC))
        dispatcher.run_once()
    with store.read() as connection:
        sent = deliveries(connection, incident_id=began.incident_id)
    sent.sort(key=lambda item: item.sequence)
    if held:
        names = ", ".join(map(plain_text, held))
        warn(f"a drill is always sent; silence {names} would mute an alert")
    print_sent(sent, none=f"the routes name no channel for {plain_text(watched)}")


def print_sent(sent: Sequence[Delivery], *, none: str) -> None:
    """Print what became of messages; end with 1 unless all were delivered."""
    print_rows(sent, _OF_MESSAGE, none=none)
    if not sent or any(item.status in {"waiting", "dead"} for item in sent):
        raise typer.Exit(1)


def _one(connection: Connection, name: str) -> Incident:
    found = incidents_named(connection, name)
    if len(found) != 1:
        problem = "several incidents are" if found else "no incident is"
        raise SettingsError(f"{problem} named {name!r}; see: groundwatch alerts ls")
    return found[0]


def _try(channel: Channel, address: str) -> bool:
    where = Text(f"{channel.name} {plain_text(address, 60)}".strip())
    started_s = time.monotonic()
    try:
        receipt = send_test(channel, datetime.now(UTC), address or None)
    except DeliveryError as error:
        setting = variable(_SETTINGS.get(channel.name, "alerts_file"))
        advice = "" if setting in str(error) else f"; check {setting} and the network"
        said = Text(f": not delivered: {error} ({error.code}){advice}", style="red")
        err.print(where + said, soft_wrap=True)
        return False
    took_ms = (time.monotonic() - started_s) * 1000
    unsure = "" if receipt.confirmed else ", which does not confirm that it was shown"
    text = f": the server replied {plain_text(receipt.answer)!r} after {took_ms:.0f} ms{unsure}"
    out.print(where + Text(text, style="green"))
    return True


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
    settings = Settings.from_env()
    present = rules_from(settings)
    tried = {f"now ({present.policy})": present}
    if rules is not None:
        tried["with the new rules"] = rules_from(settings, rules)
    if every_policy:
        tried |= {p: replace(present, policy=p) for p in POLICY_NAMES if p != present.policy}
    end = datetime.now(UTC)
    if scores is not None:
        history = scores_of(scores)
        told = {name: of_scores(history, each) for name, each in tried.items()}
    else:
        begin = end - timedelta(seconds=parse_duration_s(since))
        with reading() as connection:
            told = {n: of_store(connection, r, begin=begin, end=end) for n, r in tried.items()}
    by_key = [{each.key[:3]: each for each in found} for found in told.values()]
    listed = Listing.of("app", "metric", *told)
    for one in next(iter(told.values())):
        found = [keys[one.key[:3]] for keys in by_key]
        # A shorter history says nothing about a month.
        per_month = (f" ({e.per_month:.1f})" if e.span_s >= _DAY_S else "" for e in found)
        cells = (f"{len(e.events)}{more}" for e, more in zip(found, per_month, strict=True))
        listed.add_row(safe(one.key.app, 40), safe(one.key.metric, 40), *cells)
    out.print(listed if listed.rows else "no history yet")
    if listed.rows:
        out.print("messages on this history (and per 30 days, where it covers a day or more)")
    if rules is not None:
        before, after = list(told.values())[:2]
        gone = missed(before, after, within_s=float(present.window_s))
        out.print(
            f"alerts of today's rules that the new rules would miss: {len(gone) or 'nothing'}"
        )
        for key, at in gone[:20]:
            out.print(Text(plain_text(f"  {utc_time(at)} {key.app} {key.metric}", 120)))

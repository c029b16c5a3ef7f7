"""Show a message in the form of each channel, without sending it."""

from __future__ import annotations

import json
from datetime import datetime
from enum import StrEnum

from alerts.channels import alertmanager, discord, pagerduty, slack_payload, teams, webhook
from alerts.channels.email_message import compose
from alerts.message import Message, render
from alerts.try_channel import sample_snapshot
from monitor.models.alerting import AlertEvent

_ID = "0123456789abcdef01234567"


class Form(StrEnum):
    """How a message is written."""

    TEXT = "text"
    HTML = "html"
    EMAIL = "email"
    SLACK = "slack"
    TEAMS = "teams"
    DISCORD = "discord"
    PAGERDUTY = "pagerduty"
    ALERTMANAGER = "alertmanager"
    WEBHOOK = "webhook"


def rendered(form: Form, event: AlertEvent, now: datetime) -> str:
    """Write the message about an incident that never was."""
    snapshot = sample_snapshot(now).model_copy(update={"event": event})
    return written(form, render(snapshot, {event}, recipient="oncall@example.org"))


def written(form: Form, message: Message) -> str:
    """Write a message as the channel would send it; a routing key is left out."""
    if form is Form.TEXT:
        return message.text
    if form is Form.HTML:
        return message.html
    if form is Form.EMAIL:
        return compose(message, _ID, sender="groundwatch@example.org").as_string()
    return json.dumps(_document(form, message), indent=2, ensure_ascii=False)


def _document(form: Form, message: Message) -> object:
    if form is Form.SLACK:
        return slack_payload.payload(message, _ID)
    if form is Form.TEAMS:
        return teams.card(message, _ID)
    if form is Form.DISCORD:
        return discord.embed(message, _ID)
    if form is Form.PAGERDUTY:
        return pagerduty.event_of(message, _ID, "")
    if form is Form.ALERTMANAGER:
        return [alertmanager.alert(message, _ID)]
    return json.loads(webhook.document(message))

"""Step 6 of 7 · alerts: decide who must know, and tell each of them once."""

from enum import StrEnum


class MessageForm(StrEnum):
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

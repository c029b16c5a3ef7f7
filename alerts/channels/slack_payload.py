"""A message in Slack's blocks, within Slack's limits, with everything dynamic escaped."""

from __future__ import annotations

from typing import Any

from alerts.escaping import shorten, slack
from alerts.message import Message
from monitor.report.digest_words import Section

_HEADER_CHARS = 150
_SECTION_CHARS = 3000
_TEXT_CHARS = 3500
_MARKS = {
    "RESOLVED": ":large_green_circle:",
    "WARNING": ":large_yellow_circle:",
    "CLOSED": ":white_circle:",
    "EXPIRED": ":white_circle:",
    "STABLE": ":large_green_circle:",
    "DIGEST": ":bar_chart:",
}


def payload(message: Message, delivery_id: str) -> dict[str, Any]:
    """Write the message as blocks, with the text that screen readers and pop-ups use."""
    blocks: list[dict[str, Any]] = [
        {"type": "header", "text": _plain(f"{message.word}: {message.title}", _HEADER_CHARS)},
        _section(f"{_mark(message)} *{slack(message.headline)}*"),
        *_evidence(message),
    ]
    if message.samples:
        listed = [f"{place}. {text}" for place, text in enumerate(message.samples, start=1)]
        # Plain text: no bold, no link and no mention can come out of a transcript.
        worst = "Worst samples, as the scorer explains them\n" + "\n".join(listed)
        blocks.append({"type": "section", "text": _plain(worst, _SECTION_CHARS)})
    blocks.append(_section(_what_to_do(message)))
    footer = _plain(message.footer, _SECTION_CHARS)
    # The id of the delivery, invisible to people: the same on every attempt.
    blocks.append(
        {"type": "context", "block_id": f"groundwatch-{delivery_id}", "elements": [footer]}
    )
    return {"text": _summary(message), "blocks": blocks, "unfurl_links": False}


def text_only(message: Message) -> dict[str, Any]:
    """Write the message as plain text, for when Slack refuses the blocks."""
    text = shorten(slack(message.text.strip()), _TEXT_CHARS)
    return {"text": text, "mrkdwn": False, "unfurl_links": False}


def _evidence(message: Message) -> list[dict[str, Any]]:
    """Write the facts as one block, or the sections of a digest as one each."""
    if not message.sections:
        facts = "\n".join(f"*{label}*  {slack(text)}" for label, text in message.facts)
        return [_section(facts)]
    return [block for section in message.sections for block in _listed(section)]


def _listed(section: Section) -> list[dict[str, Any]]:
    title = f"*{slack(section.title)}*"
    if section.is_chart:
        room = _SECTION_CHARS - len(title) - 7
        drawn = "\n".join(slack(line.replace("`", "'")) for line in section.lines)
        return [_section(f"{title}\n```{shorten(drawn, room)}```")]
    # Plain text: nothing in a name is a mark, and a command can be copied as it stands.
    lines = "\n".join(f"• {line}" for line in section.lines)
    return [_section(title), {"type": "section", "text": _plain(lines, _SECTION_CHARS)}]


def _summary(message: Message) -> str:
    figures = "; ".join(f"{label}: {text}" for label, text in message.facts[:4])
    return shorten(slack(f"{message.subject.rstrip('.')}. {figures}"), _TEXT_CHARS)


def _mark(message: Message) -> str:
    return _MARKS.get(message.word.rpartition(" ")[2], ":red_circle:")


def _what_to_do(message: Message) -> str:
    command = slack(message.command.replace("`", "'"))
    link = f"\n<{slack(message.link)}|Open the report>" if message.link else ""
    return f"*{message.advice}*  `{command}`{link}"


def _plain(text: str, limit: int) -> dict[str, Any]:
    return {"type": "plain_text", "text": shorten(slack(text), limit), "emoji": False}


def _section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": {"type": "mrkdwn", "text": shorten(text, _SECTION_CHARS)}}

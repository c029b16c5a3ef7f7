"""A status as a small picture: for the tab of a browser, for a README."""

from __future__ import annotations

from markupsafe import Markup, escape

from monitor.models import Status
from monitor.report.words import ICONS, WORDS

_MOST_LABEL = 24


def favicon(status: Status) -> Markup:
    """Draw the worst status as a shape of its colour, for the tab of a browser."""
    shapes = {
        Status.HEALTHY: '<circle cx="16" cy="16" r="12" fill="#2f855a"/>',
        Status.WARNING: '<path d="M16 4L30 28H2Z" fill="#b7791f"/>',
        Status.CRITICAL: '<rect x="4" y="4" width="24" height="24" fill="#c53030"/>',
        Status.INSUFFICIENT_DATA: (
            '<circle cx="16" cy="16" r="11" fill="none" stroke="#718096" stroke-width="4"/>'
        ),
        Status.BLIND: (
            '<circle cx="16" cy="16" r="11" fill="none" stroke="#6b46c1" stroke-width="4"'
            ' stroke-dasharray="6 4"/>'
        ),
    }
    return Markup(  # noqa: S704  # constants
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">{shapes[status]}</svg>'
    )


def badge(label: str, status: Status, value: str) -> Markup:
    """Draw a badge for a README: the app's name, its status in words, its rate."""
    colours = {
        Status.HEALTHY: "#276749", Status.WARNING: "#975a16", Status.CRITICAL: "#c53030",
        Status.INSUFFICIENT_DATA: "#4a5568", Status.BLIND: "#553c9a",
    }  # fmt: skip
    said = f"{ICONS[status]} {WORDS[status]} {value}".strip()
    label = label[:_MOST_LABEL]
    left, right = 12 + 7 * len(label), 12 + 7 * len(said)
    text = 'font-family="system-ui,sans-serif" font-size="12" fill="#fff"'
    return Markup(  # noqa: S704  # what comes from elsewhere is escaped
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="22" role="img"'
        f' aria-label="{escape(label)}: {escape(said)}">'
        f'<rect width="{left}" height="22" fill="#4a5568"/>'
        f'<rect x="{left}" width="{right}" height="22" fill="{colours[status]}"/>'
        f'<text x="6" y="15" {text}>{escape(label)}</text>'
        f'<text x="{left + 6}" y="15" {text}>{escape(said)}</text></svg>'
    )

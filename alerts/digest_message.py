"""A periodic digest as a message: the same for every channel, with pictures for those with HTML."""

from __future__ import annotations

from dataclasses import replace

from alerts.escaping import plain
from alerts.message import Message, Picture, template_environment
from monitor.models.alerting import DIGEST, Level
from monitor.report.digest import Digest
from monitor.report.digest_chart import HEIGHT, WIDTH, can_draw, draw_course
from monitor.report.digest_text import render_digest
from monitor.report.digest_words import (
    chart_label,
    digest_sections,
    digest_span,
    digest_title,
    digest_verdict,
)

_FACT_CHARS = 900
#: What a digest is filed under, where an alert names its app.
_APP = "groundwatch"


def digest_message(
    digest: Digest, delivery_id: str, *, recipient: str = "", may_repeat: bool = False
) -> Message:
    """Write the message; what it says was settled when the digest was made."""
    sections = tuple(digest_sections(digest))
    footer = f"{digest.name}, made {digest.made_at:%Y-%m-%d %H:%M} UTC"
    message = Message(
        word=digest_title(digest).upper(),
        title=digest_span(digest),
        headline=plain(digest_verdict(digest), 300),
        facts=tuple(
            (section.title, plain("; ".join(section.lines), _FACT_CHARS)) for section in sections
        ),
        samples=(),
        advice="To look further",
        command="groundwatch status",
        link=None,
        footer=f"{footer} (may repeat an earlier message)" if may_repeat else footer,
        app=_APP,
        incident_id=delivery_id,
        first=True,
        at=digest.made_at,
        began=digest.start,
        recipient=recipient,
        event=DIGEST,
        level=Level.WARNING.value,
        over=digest.nothing_to_do,
        data=digest.model_dump(mode="json", exclude={"courses"}),
        sections=sections,
        pictures=_pictures(digest, delivery_id),
    )
    html = template_environment(escape=True).get_template("digest.html.j2")
    return replace(
        message,
        text=f"{render_digest(digest)}\n{message.footer}\n",
        html=html.render(message=message, width=WIDTH, height=HEIGHT),
    )


def _pictures(digest: Digest, delivery_id: str) -> tuple[Picture, ...]:
    if not can_draw():
        return ()
    return tuple(
        Picture(
            cid=f"course-{place}-{delivery_id}@groundwatch",
            png=draw_course(course, digest),
            label=chart_label(course),
        )
        for place, course in enumerate(digest.courses, start=1)
    )

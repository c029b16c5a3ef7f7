"""A message as an email: plain text and HTML, threaded by incident, quiet for auto-responders."""

from __future__ import annotations

import re
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime, parseaddr

from alerts.escaping import plain
from alerts.message import Message

#: Seven-bit, so that any server on the way can carry it unchanged.
_POLICY = SMTP.clone(cte_type="7bit")


def compose(message: Message, delivery_id: str, *, sender: str) -> EmailMessage:
    """
    Write the mail to ``message.recipient``; the same bytes on every attempt.

    The Message-ID comes from the delivery, so a repeated mail can be told. All mails
    of an incident refer to one root that is never sent, which makes them a thread.
    """
    domain = domain_of(sender)
    root = f"<incident-{message.incident_id}@{domain}>"
    mail = EmailMessage(policy=_POLICY)
    mail["Subject"] = message.subject
    mail["From"] = sender
    mail["To"] = message.recipient
    mail["Date"] = format_datetime(message.at)
    mail["Message-ID"] = f"<{delivery_id}@{domain}>"
    mail["In-Reply-To"] = root
    mail["References"] = root
    mail["Auto-Submitted"] = "auto-generated"
    mail["X-Auto-Response-Suppress"] = "All"
    mail["List-Id"] = f"<{_label(message.app)}.groundwatch.{domain}>"
    mail["X-Groundwatch-Delivery"] = delivery_id
    mail.set_content(message.text)
    mail.add_alternative(message.html, subtype="html")
    _add_pictures(mail, message, delivery_id)
    mail.set_boundary(f"groundwatch-{delivery_id}")  # or it would be a random one each time
    return mail


def _add_pictures(mail: EmailMessage, message: Message, delivery_id: str) -> None:
    """Put the pictures beside the HTML that shows them; mail clients load nothing from outside."""
    if not message.pictures:
        return
    html = mail.get_payload()[-1]  # type: ignore[index]
    assert isinstance(html, EmailMessage)
    for picture in message.pictures:
        html.add_related(
            picture.png, "image", "png", cid=f"<{picture.cid}>", disposition="inline",
            filename=f"{picture.cid}.png",
        )  # fmt: skip
    html.set_boundary(f"groundwatch-related-{delivery_id}")


def domain_of(address: str) -> str:
    """Give the part of an email address behind the @."""
    return parseaddr(address)[1].rpartition("@")[2] or "localhost"


def ascii_address(address: str) -> str:
    """
    Write the domain of an address in ASCII, as the name server knows it.

    Raises
    ------
    ValueError
        If the domain cannot be written so.
    """
    head, at, domain = address.rpartition("@")
    if domain.isascii():
        return address
    bare = domain.rstrip("> ")
    return head + at + bare.encode("idna").decode("ascii") + domain[len(bare) :]


def _label(app: str) -> str:
    """Make a name that may stand in a List-Id."""
    return re.sub(r"[^a-z0-9-]+", "-", plain(app, 60).lower()).strip("-") or "app"

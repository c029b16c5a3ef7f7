"""
Email over SMTP: one attempt for one recipient, encrypted unless the address says otherwise.

A message is plain text and HTML, threaded by incident, and asks auto-responders to stay quiet.
"""

from __future__ import annotations

import contextlib
import re
import smtplib
import socket
import ssl
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from email.errors import MessageError
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime, parseaddr
from typing import Any
from urllib.parse import unquote, urlsplit

from pydantic import SecretStr

from alerts.channels.base import Channel, ChannelRate, Receipt
from alerts.message import Message
from monitor.errors import DeliveryError
from monitor.format import plain_text

#: Seven-bit, so that any server on the way can carry it unchanged.
_POLICY = SMTP.clone(cte_type="7bit")
_PORTS = {"smtp": 587, "smtps": 465, "smtp+plain": 25}
_READY = 220
_TAKEN = range(200, 300)
_REFUSED_FOR_GOOD = range(500, 600)


class EmailChannel(Channel):
    """
    Sends mail through one SMTP server.

    ``smtp://`` insists on STARTTLS, ``smtps://`` speaks TLS from the start, and only
    ``smtp+plain://`` goes unencrypted.
    """

    name = "email"
    rate = ChannelRate(per_minute=30, burst=30)

    def __init__(
        self, url: SecretStr, *, sender: str, recipients: Sequence[str], **usual: Any
    ) -> None:
        super().__init__(**usual)
        self.addresses = tuple(recipients)
        self._url = url
        self._sender = sender

    def send(self, message: Message, delivery_id: str) -> Receipt:
        """Send once to ``message.recipient``."""
        # Only once the body is on its way can a lost connection mean that the mail arrived.
        stage = _Stage()
        error: DeliveryError
        try:
            recipient, sender = ascii_address(message.recipient), ascii_address(self._sender)
            to = replace(message, recipient=recipient)
            body = compose(to, delivery_id, sender=sender).as_bytes()
            stage.name = "connect"
            with self._session(stage) as smtp:
                stage.name = "sender"
                _expect(smtp.mail(parseaddr(sender)[1]))
                stage.name = "recipient"
                _expect(smtp.rcpt(parseaddr(recipient)[1]))
                stage.name = "data"
                _expect(smtp.data(body))
                return Receipt(answer=f"accepted for {message.recipient}")
        except smtplib.SMTPResponseException as problem:
            code = problem.smtp_code
            # A login is also refused while the server's own directory of users is down.
            final = code in _REFUSED_FOR_GOOD and stage.name != "login"
            error = DeliveryError(
                f"email refused at {stage.name}: {code}",
                code=f"smtp_{code}_{stage.name}",
                transient=not final,
            )
        except (smtplib.SMTPException, OSError) as problem:
            kind = type(problem).__name__
            ambiguous = stage.name == "data"
            error = DeliveryError(
                f"email: {kind} at {stage.name}", code=f"{kind}_{stage.name}", ambiguous=ambiguous
            )
            if stage.name == "starttls" and isinstance(problem, smtplib.SMTPNotSupportedError):
                error = DeliveryError(
                    "email: the server offers no STARTTLS; use smtps:// or, for a relay on this"
                    " machine, smtp+plain:// in GROUNDWATCH_SMTP_URL",
                    code="starttls_missing",
                    transient=False,
                )
        except (ValueError, MessageError):
            # The value itself may be a secret.
            error = DeliveryError(
                f"email: something cannot be written as SMTP wants it (at {stage.name}); use plain"
                " ASCII and no line breaks in GROUNDWATCH_SMTP_URL, GROUNDWATCH_EMAIL_FROM and"
                " GROUNDWATCH_EMAIL_TO",
                code=f"unwritable_{stage.name}",
                transient=False,
            )
        # Outside of `except`: what was caught may hold what was said, password and all.
        raise error

    @contextmanager
    def _session(self, stage: _Stage) -> Iterator[smtplib.SMTP]:
        """Connect and log in; hang up at the end, or when the time for the attempt is over."""
        url = urlsplit(self._url.get_secret_value())
        # Named, or smtplib would ask the name server who we are, which can take long.
        name = domain_of(self._sender)
        if url.scheme == "smtps":
            context = ssl.create_default_context()
            smtp: smtplib.SMTP = smtplib.SMTP_SSL(
                local_hostname=name, timeout=self.timeout_s, context=context
            )
        else:
            smtp = smtplib.SMTP(local_hostname=name, timeout=self.timeout_s)

        def hang_up() -> None:
            connection = getattr(smtp, "sock", None)
            if connection is not None:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

        watchdog = threading.Timer(self.timeout_s, hang_up)
        watchdog.start()
        try:
            host = url.hostname or ""
            # STARTTLS and TLS check the certificate against this name.
            smtp._host = host  # type: ignore[attr-defined]  # noqa: SLF001 - set only by the constructor that connects
            greeting = smtp.connect(host, url.port or _PORTS[url.scheme])
            if greeting[0] != _READY:
                raise smtplib.SMTPConnectError(*greeting)
            smtp.ehlo_or_helo_if_needed()
            if url.scheme == "smtp":
                stage.name = "starttls"
                # Raises where STARTTLS is not offered: never go on without.
                smtp.starttls(context=ssl.create_default_context())
            if url.username:
                stage.name = "login"
                smtp.login(unquote(url.username), unquote(url.password or ""))
            yield smtp
            with contextlib.suppress(smtplib.SMTPException, OSError):
                smtp.quit()
        finally:
            watchdog.cancel()
            smtp.close()


class _Stage:
    """How far an attempt has come."""

    name = "compose"


def _expect(reply: tuple[int, bytes]) -> None:
    code, text = reply
    if code not in _TAKEN:
        raise smtplib.SMTPResponseException(code, text)


def compose(message: Message, delivery_id: str, *, sender: str) -> EmailMessage:
    """
    Return the mail to ``message.recipient``; the same bytes on every attempt.

    The Message-ID comes from the delivery, so a repeated mail can be recognised. All mails
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
    label = re.sub(r"[^a-z0-9-]+", "-", plain_text(message.app, 60).lower()).strip("-") or "app"
    mail["List-Id"] = f"<{label}.groundwatch.{domain}>"
    mail["X-Groundwatch-Delivery"] = delivery_id
    mail.set_content(message.text)
    mail.add_alternative(message.html, subtype="html")
    if message.pictures:  # beside the HTML: mail clients load nothing from outside
        html = mail.get_payload()[-1]  # type: ignore[index]
        assert isinstance(html, EmailMessage)
        for picture in message.pictures:
            html.add_related(
                picture.png, "image", "png", cid=f"<{picture.cid}>", disposition="inline",
                filename=f"{picture.cid}.png",
            )  # fmt: skip
        html.set_boundary(f"groundwatch-related-{delivery_id}")
    mail.set_boundary(f"groundwatch-{delivery_id}")  # or it would be a random one each time
    return mail


def domain_of(address: str) -> str:
    """Return the part of an email address after the @."""
    return parseaddr(address)[1].rpartition("@")[2] or "localhost"


def ascii_address(address: str) -> str:
    """
    Return an address with its domain in ASCII, as the name server knows it.

    Raise ValueError if the domain cannot be written so.
    """
    head, at, domain = address.rpartition("@")
    if domain.isascii():
        return address
    bare = domain.rstrip("> ")
    return head + at + bare.encode("idna").decode("ascii") + domain[len(bare) :]

"""A real SMTP server on loopback, for tests and the demo."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections import deque
from email import message_from_bytes, policy
from email.message import EmailMessage
from enum import StrEnum
from types import TracebackType
from typing import Any, Self

from monitor.errors import MissingExtraError
from monitor.testing.waiting import Waiting


class MailAnswer(StrEnum):
    """How the mail receiver treats one mail."""

    OK = "ok"
    LATER = "later"  #: 451 for the recipient: come back later
    REFUSED = "refused"  #: 550 for the recipient: nobody of that name
    DROP = "drop"  #: takes the mail, then hangs up


class MailReceiver(Waiting):
    """
    An SMTP server; ``messages`` are the mails it took.

    With *tls* it offers STARTTLS, and with *password* a login for any user.
    """

    def __init__(self, tls: ssl.SSLContext | None = None, password: str | None = None) -> None:
        super().__init__()
        self.logins: list[bool] = []
        self._tls = tls
        self._password = password
        self.messages: list[EmailMessage] = []
        self._script: deque[MailAnswer] = deque()
        self._listening = threading.Event()

    @property
    def url(self) -> str:
        """The address for GROUNDWATCH_SMTP_URL."""
        return f"smtp+plain://127.0.0.1:{self.port}"

    def script(self, *answers: MailAnswer) -> None:
        """Queue treatments for the next mails."""
        self._script.extend(answers)

    def wait_for(self, count: int, timeout_s: float = 10.0) -> None:
        """Wait until *count* mails were taken."""
        self._wait(lambda: len(self.messages) >= count, timeout_s)

    def __enter__(self) -> Self:
        try:
            import aiosmtpd.smtp  # noqa: F401, PLC0415 - only where it is used
        except ImportError:
            raise MissingExtraError("the mail receiver") from None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        if not self._listening.wait(10):
            raise TimeoutError("the mail receiver did not start")
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: object, _trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join()

    async def handle_RCPT(  # noqa: N802 - aiosmtpd's name
        self, _server: Any, _session: Any, envelope: Any, address: str, options: list[str]
    ) -> str:
        """Take or refuse a recipient."""
        answer = self._script[0] if self._script else MailAnswer.OK
        if answer in {MailAnswer.LATER, MailAnswer.REFUSED}:
            self._script.popleft()
            return "451 come back later" if answer is MailAnswer.LATER else "550 no such user"
        envelope.rcpt_tos.append(address)
        envelope.rcpt_options.extend(options)
        return "250 OK"

    async def handle_DATA(self, server: Any, _session: Any, envelope: Any) -> str:  # noqa: N802 - aiosmtpd's name
        """Take a mail."""
        answer = self._script.popleft() if self._script else MailAnswer.OK
        mail = message_from_bytes(envelope.original_content, policy=policy.default)
        assert isinstance(mail, EmailMessage)
        with self._changed:
            self.messages.append(mail)
            self._changed.notify_all()
        if answer is MailAnswer.DROP:
            server.transport.abort()
        return "250 OK"

    def _login(self, _server: Any, _session: Any, _envelope: Any, _how: str, data: Any) -> Any:
        from aiosmtpd.smtp import AuthResult  # noqa: PLC0415 - as above

        self.logins.append(data.password == str(self._password).encode())
        # `handled=True` on a failure would leave the client without any answer.
        return AuthResult(success=self.logins[-1], handled=False)

    def _serve(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._listen())

    async def _listen(self) -> None:
        from aiosmtpd.smtp import SMTP  # noqa: PLC0415 - as above

        self._closing = asyncio.Event()

        def connection() -> SMTP:
            return SMTP(
                self,
                loop=self._loop,
                hostname="localhost",
                tls_context=self._tls,
                authenticator=None if self._password is None else self._login,
            )

        server = await self._loop.create_server(connection, "127.0.0.1", 0)
        self.port: int = server.sockets[0].getsockname()[1]
        self._listening.set()
        async with server:
            await self._closing.wait()

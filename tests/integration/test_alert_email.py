"""The email channel against a real SMTP server; the mails are read back."""

import socket
import socketserver
import ssl
import threading
from datetime import UTC, datetime

import pytest
import trustme
from pydantic import SecretStr

from alerts.channels.email import EmailChannel
from alerts.drill import send_test
from monitor.errors import DeliveryError
from support.receivers import MailAnswer, MailReceiver

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


@pytest.fixture
def mail():
    with MailReceiver() as receiver:
        yield receiver


def channel(url, timeout_s=30.0, sender="groundwatch <gw@example.org>"):
    return EmailChannel(
        SecretStr(url),
        sender=sender,
        recipients=("ann@example.org",),
        timeout_s=timeout_s,
    )


def refused(url, timeout_s=30.0, address=None, **options):
    with pytest.raises(DeliveryError) as caught:
        send_test(channel(url, timeout_s, **options), NOW, address)
    return caught.value


def test_mail_arrives_with_text_and_html(mail):
    send_test(channel(mail.url), NOW)
    (received,) = mail.messages
    assert received["To"] == "ann@example.org"
    assert received["Auto-Submitted"] == "auto-generated"
    assert "62.0 % (55.0–69.0) pass" in received.get_body(("plain",)).get_content()
    assert "62.0 % (55.0–69.0) pass" in received.get_body(("html",)).get_content()


def test_mails_of_an_incident_are_a_thread(mail):
    send_test(channel(mail.url), NOW)
    send_test(channel(mail.url), NOW)
    first, second = mail.messages
    assert first["References"] == second["References"] == first["In-Reply-To"]
    assert first["Message-ID"] != second["Message-ID"]


@pytest.mark.parametrize(
    ("answer", "code", "transient"),
    [
        (MailAnswer.LATER, "smtp_451_recipient", True),
        (MailAnswer.REFUSED, "smtp_550_recipient", False),
    ],
)
def test_refusal_is_read_by_its_code(mail, answer, code, transient):
    mail.script(answer)
    error = refused(mail.url)
    assert (error.code, error.transient, error.ambiguous) == (code, transient, False)
    assert mail.messages == []


def test_mail_that_may_have_arrived_is_ambiguous(mail):
    mail.script(MailAnswer.DROP)
    error = refused(mail.url)
    assert (error.transient, error.ambiguous) == (True, True)
    assert len(mail.messages) == 1


def test_mail_is_never_sent_without_starttls(mail):
    error = refused(mail.url.replace("smtp+plain", "smtp"))
    assert (error.code, error.transient) == ("starttls_missing", False)
    assert "smtps://" in str(error)
    assert mail.messages == []


def test_implicit_tls_needs_a_server_that_supports_it(mail):
    error = refused(mail.url.replace("smtp+plain", "smtps"), timeout_s=1)
    assert (error.transient, error.ambiguous) == (True, False)


def test_closed_port_is_not_ambiguous():
    with MailReceiver() as gone:
        url = gone.url
    assert refused(url).code == "ConnectionRefusedError_connect"


def test_silent_server_times_out_as_a_transient_failure():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        error = refused(f"smtp+plain://127.0.0.1:{port}", timeout_s=0.3)
    assert (error.transient, error.ambiguous) == (True, False)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A certificate for 127.0.0.1, and the authority that nobody trusts yet."""
    folder = tmp_path_factory.mktemp("tls")
    authority, server = folder / "authority.pem", folder / "server.pem"
    ca = trustme.CA()
    ca.cert_pem.write_to_path(authority)
    ca.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(server)
    return authority, server


@pytest.fixture
def secure_mail(certificate):
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate[1])
    with MailReceiver(tls=context, password="pass:word/1") as receiver:
        yield receiver


def secure_url(receiver, password):
    return f"smtp://gw:{password}@127.0.0.1:{receiver.port}"


def test_mail_goes_through_starttls_and_login(secure_mail, certificate, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    send_test(channel(secure_url(secure_mail, "pass%3Aword%2F1")), NOW)
    assert secure_mail.logins == [True]
    assert len(secure_mail.messages) == 1


def test_refused_login_is_tried_again(secure_mail, certificate, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    error = refused(secure_url(secure_mail, "c4n4ry"))
    assert (error.code, error.transient) == ("smtp_535_login", True)
    assert "c4n4ry" not in repr(error)


def test_untrusted_certificate_is_refused(secure_mail):
    error = refused(secure_url(secure_mail, "pass"))
    assert error.code == "SSLCertVerificationError_starttls"
    assert secure_mail.logins == []


@pytest.mark.parametrize(
    ("greeting", "code", "transient"),
    [
        (b"554 no service here", "smtp_554_connect", False),
        (b"421 too busy", "smtp_421_connect", True),
    ],
)
def test_server_that_refuses_the_greeting_is_handled(greeting, code, transient):
    class Unwelcoming(socketserver.StreamRequestHandler):
        def handle(self):
            self.wfile.write(greeting + b"\r\n")
            while self.rfile.readline():
                self.wfile.write(b"503 bad sequence of commands\r\n")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Unwelcoming) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,)).start()
        error = refused(f"smtp+plain://127.0.0.1:{server.server_address[1]}")
        server.shutdown()
    assert (error.code, error.transient, error.ambiguous) == (code, transient, False)


@pytest.mark.parametrize(
    "wrong",
    [
        {"address": "c4n4ry\r\nBcc: eve@example.org"},
        {"address": "c4n4ry\u00e4@example.org"},
        {"sender": "gw\nc4n4ry@example.org"},
    ],
)
def test_mail_that_cannot_be_composed_is_a_permanent_failure(mail, wrong):
    error = refused(mail.url, **wrong)
    assert (error.transient, error.ambiguous) == (False, False)
    assert error.code.startswith("unwritable_")
    assert "GROUNDWATCH_EMAIL_TO" in str(error)
    assert "c4n4ry" not in repr(error)
    assert mail.messages == []


def test_password_that_smtp_cannot_encode_is_a_permanent_failure(
    secure_mail, certificate, monkeypatch
):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    error = refused(secure_url(secure_mail, "c4n4ry%C3%A4"))
    assert (error.code, error.transient) == ("unwritable_login", False)
    assert "c4n4ry" not in repr(error)

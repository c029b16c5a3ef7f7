"""All HTTP channels against servers that answer as the vendors document: one contract for all."""

import base64
import io
import json
import re
import socket
import threading
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from urllib.parse import urlsplit

import pytest
from pydantic import SecretStr

from alerts.channels.base import HttpAnswer, pause_of
from alerts.channels.chat import ConsoleChannel, DiscordChannel, TeamsChannel
from alerts.channels.programs import AlertmanagerChannel, PagerDutyChannel, WebhookChannel, alert
from alerts.channels.slack import SlackBotChannel
from alerts.drill import sample_snapshot, send_test
from alerts.message import render
from monitor.errors import DeliveryError, SettingsError
from monitor.models.alerting import AlertEvent, Severity
from support.vendor_receiver import Reaction, VendorReceiver

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
KEY = "whsec_" + base64.b64encode(b"k" * 32).decode()
MAKERS = {
    "slack-bot": lambda url, s: SlackBotChannel(
        SecretStr("xoxb-good"), channel="C0123", api_url=f"{url}/api", timeout_s=s * 2
    ),
    "pagerduty": lambda url, s: PagerDutyChannel(SecretStr("k" * 32), api_url=url, timeout_s=s),
    "teams": lambda url, s: TeamsChannel(SecretStr(f"{url}/workflows/secret"), timeout_s=s),
    "discord": lambda url, s: DiscordChannel(SecretStr(f"{url}/api/webhooks/1/s"), timeout_s=s),
    "alertmanager": lambda url, s: AlertmanagerChannel(SecretStr(url), timeout_s=s),
    "webhook": lambda url, s: WebhookChannel(
        SecretStr(f"{url}/hook"), secrets=[SecretStr(KEY)], timeout_s=s, allow_private=True
    ),
}
#: Channels that try a plainer form when theirs is refused.
DEGRADE = {"slack-bot", "teams", "discord"}
TELLS_PAUSE_IN_HEADER = ["slack-bot", "pagerduty", "alertmanager", "webhook"]
#: Channels whose yes or no is in the body of the answer; with the others only the status tells.
TELLS_BY_BODY = ["slack-bot", "pagerduty", "teams", "discord"]
HOSTILE = (
    "<!channel> <!here> @everyone @here <@U123> <@&42> <https://evil|x> [x](https://evil) "
    "**b** `c` ```d``` _i_ ~s~ # h <script>alert(1)</script> \x1b[2J\u202e\u200b {{7*7}} \\ \r\nX:"
)


@pytest.fixture(params=MAKERS)
def vendor(request):
    return request.param


@pytest.fixture
def receiver(vendor):
    with VendorReceiver(vendor) as found:
        yield found


@pytest.fixture
def channel(vendor, receiver):
    return MAKERS[vendor](receiver.url, 5.0)


def message(event=AlertEvent.FIRED, level=Severity.CRITICAL, thread="", **changes):
    changes = {"event": event, "level": level, "test": False} | changes
    snapshot = sample_snapshot(NOW).model_copy(update=changes)
    return render(snapshot, {event}, thread=thread)


def refused(channel, receiver, *reactions):
    receiver.script(*reactions)
    with pytest.raises(DeliveryError) as caught:
        send_test(channel, NOW)
    assert caught.value.__context__ is None
    return caught.value


@pytest.mark.parametrize("event", list(AlertEvent))
def test_every_event_satisfies_the_vendors_rules(channel, receiver, event):
    channel.send(message(event), "delivery-1")
    assert len(receiver.requests) == len(receiver.taken) == 1


def test_hostile_oversized_message_is_accepted_without_a_fallback(channel, receiver):
    verdict = sample_snapshot(NOW).verdict.model_copy(
        update={"app": HOSTILE * 40, "metric": HOSTILE * 40, "reason": HOSTILE * 400}
    )
    channel.send(message(verdict=verdict, samples=(HOSTILE * 100,) * 3, note=HOSTILE * 99), "d")
    assert len(receiver.requests) == len(receiver.taken) == 1


@pytest.mark.parametrize(
    "reaction",
    [Reaction.SERVER_ERROR, Reaction.UNAVAILABLE, Reaction.RATE_LIMITED],
)
def test_temporary_failure_is_transient(channel, receiver, reaction):
    error = refused(channel, receiver, reaction)
    assert (error.transient, error.ambiguous) == (True, False)
    assert len(receiver.requests) == 1


@pytest.mark.parametrize("reaction", [Reaction.GONE, Reaction.FORBIDDEN])
def test_permanent_refusal_is_final(channel, receiver, reaction):
    error = refused(channel, receiver, reaction)
    assert (error.transient, error.ambiguous) == (False, False)
    assert len(receiver.requests) == 1


def test_redirects_are_not_followed_and_are_retried_for_an_hour(channel, receiver):
    error = refused(channel, receiver, Reaction.REDIRECT)
    assert (error.transient, error.ambiguous, error.give_up_after_s) == (True, False, 3600)
    assert len(receiver.requests) == 1


def test_success_status_with_an_error_body_is_a_failure(channel, receiver):
    refused(channel, receiver, Reaction.OK_BUT_NO)


@pytest.mark.parametrize(
    ("vendor", "reaction"),
    [(v, r) for v in TELLS_BY_BODY for r in (Reaction.HTML, Reaction.BOMB)]
    + [("alertmanager", Reaction.HTML)],
    indirect=["vendor"],
)
def test_response_of_another_server_is_a_failure(channel, receiver, reaction):
    assert refused(channel, receiver, reaction).transient


@pytest.mark.parametrize(
    "vendor", ["slack-bot", "pagerduty", "alertmanager", "webhook"], indirect=True
)
@pytest.mark.parametrize("header", ["40", "Sun, 01 Jan 2040 00:00:00 GMT", "inf", "-5", "soon"])
def test_retry_after_header_is_read_within_bounds(channel, receiver, header):
    receiver.retry_after = header
    pause_s = refused(channel, receiver, Reaction.RATE_LIMITED).retry_after_s
    assert pause_s == {"40": 40, "Sun, 01 Jan 2040 00:00:00 GMT": 3600}.get(header, 30)


@pytest.mark.parametrize(("said", "pause_s"), [("9" * 400, 3600), ("1e999", 3600), ("-7", 1),
                                               ("NaN", 30), ("true", 30)])  # fmt: skip
def test_retry_after_from_the_body_stays_within_bounds(said, pause_s):
    assert pause_of(HttpAnswer(429, f'{{"retry_after": {said}}}'.encode())) == pause_s


def test_retry_after_is_read_from_the_body():
    with VendorReceiver("discord") as receiver:
        receiver.retry_after = "64.57"
        channel = MAKERS["discord"](receiver.url, 5.0)
        assert refused(channel, receiver, Reaction.RATE_LIMITED).retry_after_s == 64.57


def test_refused_layout_is_resent_as_plain_text_or_given_up(vendor, channel, receiver):
    receiver.script(Reaction.BAD_PAYLOAD)
    if vendor in DEGRADE:
        channel.send(message(), "d")
        assert "groundedness" in receiver.taken[0].body.decode()
    else:
        with pytest.raises(DeliveryError) as caught:
            channel.send(message(), "d")
        assert not caught.value.transient


@pytest.mark.parametrize("reaction", [Reaction.HANG, Reaction.DRIP, Reaction.DROP])
def test_delivery_without_an_answer_is_ambiguous_and_bounded_in_time(vendor, receiver, reaction):
    started = time.monotonic()
    error = refused(MAKERS[vendor](receiver.url, 0.3), receiver, reaction)
    assert (error.transient, error.ambiguous) == (True, True)
    assert time.monotonic() - started < 40  # without a deadline it would never end


def test_closed_port_is_not_ambiguous(vendor):
    with VendorReceiver(vendor) as gone:
        channel = MAKERS[vendor](gone.url, 1.0)
    with pytest.raises(DeliveryError) as caught:
        send_test(channel, NOW)
    assert (caught.value.transient, caught.value.ambiguous) == (True, False)


def strings(value):
    """All texts of a document."""
    if isinstance(value, dict):
        return [text for each in value.values() for text in strings(each)]
    if isinstance(value, list):
        return [text for each in value for text in strings(each)]
    return [value] if isinstance(value, str) else []


def test_messages_carry_no_control_characters(channel, receiver):
    verdict = sample_snapshot(NOW).verdict.model_copy(update={"reason": HOSTILE})
    channel.send(message(verdict=verdict, samples=(HOSTILE,)), "d")
    told = "".join(strings(receiver.taken[0].json)).replace("\n", "")
    assert not {"\x1b", "\u202e", "\u200b", "\r"} & set(told)


def hostile_texts(vendor, receiver):
    verdict = sample_snapshot(NOW).verdict.model_copy(
        update={"app": HOSTILE, "metric": HOSTILE, "reason": HOSTILE}
    )
    MAKERS[vendor](receiver.url, 5.0).send(message(verdict=verdict, samples=(HOSTILE,)), "d")
    return receiver.taken[0].json


def test_slack_message_mentions_nobody():
    with VendorReceiver("slack-bot") as receiver:
        body = hostile_texts("slack-bot", receiver)
    texts = [*strings(body["blocks"]), body["text"]]
    assert not any("<!" in text or "<@" in text or "<https://evil" in text for text in texts)


def test_discord_text_contains_no_formatting_or_mentions():
    with VendorReceiver("discord") as receiver:
        body = hostile_texts("discord", receiver)
    assert body["allowed_mentions"] == {"parse": []}
    (embed,) = body["embeds"]
    texts = [embed["title"], embed["description"], *(f["value"] for f in embed["fields"])]
    for text in texts:
        live = re.sub(r"\\.", "", text)  # what a backslash stands before is itself and no mark
        assert not set("*`<@[_~|") & set(live)


def test_teams_text_contains_no_links_or_formatting():
    with VendorReceiver("teams") as receiver:
        body = hostile_texts("teams", receiver)
    card = body["attachments"][0]["content"]
    for text in strings(card["body"]):
        assert "[x](" not in text
        assert "**b**" not in text


def test_slack_replies_in_the_thread_and_updates_the_first_message():
    with VendorReceiver("slack-bot") as receiver:
        channel = MAKERS["slack-bot"](receiver.url, 5.0)
        first = channel.send(message(), "d1")
        again = channel.send(message(AlertEvent.RESOLVED, thread=first.ref), "d2")
    posted, answered, changed = receiver.taken
    assert (posted.path, answered.path, changed.path) == (
        "/api/chat.postMessage", "/api/chat.postMessage", "/api/chat.update"
    )  # fmt: skip
    channel_id, ts = first.ref.split(":")
    assert again.ref == first.ref
    assert (answered.json["thread_ts"], answered.json["reply_broadcast"]) == (ts, True)
    assert (changed.json["channel"], changed.json["ts"]) == (channel_id, ts)
    assert changed.json["text"].startswith("[RESOLVED]")
    assert answered.json["metadata"]["event_payload"] == {"delivery_id": "d2"}


def test_thread_root_that_cannot_be_edited_is_not_a_failure():
    with VendorReceiver("slack-bot") as receiver:
        channel = MAKERS["slack-bot"](receiver.url, 5.0)
        channel.send(message(AlertEvent.RESOLVED, thread="C0123:9.9"), "d")
    assert [request.path for request in receiver.taken] == ["/api/chat.postMessage"] * 1 + [
        "/api/chat.update"
    ]


def test_incident_is_one_alert_of_pagerduty():
    with VendorReceiver("pagerduty") as receiver:
        channel = MAKERS["pagerduty"](receiver.url, 5.0)
        channel.send(message(level=Severity.WARNING), "d1")
        channel.send(message(AlertEvent.ESCALATED), "d2")
        channel.send(message(AlertEvent.RESOLVED), "d3")
    events = [request.json for request in receiver.taken]
    assert [event["event_action"] for event in events] == ["trigger", "trigger", "resolve"]
    assert len({event["dedup_key"] for event in events}) == 1
    assert [event["payload"]["severity"] for event in events[:2]] == ["warning", "critical"]


def test_alertmanager_alert_keeps_its_labels_and_gets_an_end_time():
    with VendorReceiver("alertmanager") as receiver:
        channel = MAKERS["alertmanager"](receiver.url, 5.0)
        channel.send(message(), "d1")
        later = NOW + timedelta(minutes=9)
        channel.send(message(AlertEvent.RESOLVED, at=later), "d2")
    (fired,), (resolved, _) = (request.json for request in receiver.taken)
    assert fired["labels"] == resolved["labels"]
    assert fired["startsAt"] == resolved["startsAt"]
    assert datetime.fromisoformat(resolved["endsAt"]) == later
    assert datetime.fromisoformat(fired["endsAt"]) > NOW + timedelta(hours=24)


def test_alertmanager_can_route_by_the_labels_of_an_app():
    found = alert(message(labels={"team": "search", "on-call": "ann", "app": "liar"}), "d")
    assert found["labels"] == {
        "team": "search", "on_call": "ann", "alertname": "groundwatch", "app": "test-app",
        "incident": "test", "severity": "critical",
    }  # fmt: skip


def test_alertmanager_is_sent_the_end_of_the_previous_severity():
    with VendorReceiver("alertmanager") as receiver:
        channel = MAKERS["alertmanager"](receiver.url, 5.0)
        channel.send(message(level=Severity.WARNING), "d1")
        later = NOW + timedelta(minutes=9)
        channel.send(message(AlertEvent.ESCALATED, at=later), "d2")
    (warning,), (critical, ended) = (request.json for request in receiver.taken)
    assert critical["labels"] != warning["labels"] == ended["labels"]
    assert datetime.fromisoformat(ended["endsAt"]) == later
    assert datetime.fromisoformat(critical["endsAt"]) > later


def test_webhook_signature_verifies_with_the_standard_library():
    standardwebhooks = pytest.importorskip("standardwebhooks")
    with VendorReceiver("webhook") as receiver:
        MAKERS["webhook"](receiver.url, 5.0).send(message(), "delivery-1")
    (request,) = receiver.taken
    headers = {name.lower(): value for name, value in request.headers.items()}
    found = standardwebhooks.Webhook(KEY).verify(request.body, headers)
    assert found["data"]["headline"].startswith("fell from 94.0 % to 62.0 %")
    other = standardwebhooks.Webhook("whsec_" + base64.b64encode(b"x" * 32).decode())
    with pytest.raises(standardwebhooks.WebhookVerificationError):
        other.verify(request.body, headers)


def test_webhooks_id_is_the_same_on_every_attempt_and_the_time_is_not_old():
    with VendorReceiver("webhook") as receiver:
        channel = MAKERS["webhook"](receiver.url, 5.0)
        for _ in range(2):
            channel.send(message(), "delivery-1")
    first, second = receiver.taken
    assert first.headers["webhook-id"] == second.headers["webhook-id"] == "delivery-1"
    assert first.body == second.body
    assert abs(time.time() - int(first.headers["webhook-timestamp"])) < 60


def test_webhook_carries_the_figures_of_the_alert():
    with VendorReceiver("webhook") as receiver:
        MAKERS["webhook"](receiver.url, 5.0).send(message(), "d")
    document = receiver.taken[0].json
    assert document["type"] == "groundwatch.alert.fired"
    data = document["data"]
    figures = {name: data[name] for name in ("app", "metric", "pass_rate", "low", "high", "n")}
    assert figures == {
        "app": "test-app", "metric": "groundedness", "pass_rate": 0.62, "low": 0.55,
        "high": 0.69, "n": 200,
    }  # fmt: skip


@pytest.mark.parametrize(
    "address",
    [
        "http://127.0.0.1:9/x",
        "http://localhost:9/x",
        "http://[::1]/x",
        "http://10.0.0.8/",
        "http://192.168.1.1/",
        "http://169.254.169.254/latest",
        "http://[fe80::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[fd00::1]/",
        "http://100.64.0.1/",
        "http://2130706433:9/",
        "http://[64:ff9b::7f00:1]/",
        "http://[2002:7f00:1::]/",
        "http://[::7f00:1]/",
        "http://224.0.0.1/",
        "http://[ff02::1]/",
    ],
)
def test_webhook_to_a_private_address_is_refused_unless_allowed(address):
    with pytest.raises(DeliveryError) as caught:
        send_test(WebhookChannel(SecretStr(address), timeout_s=1), NOW)
    assert (caught.value.code, caught.value.transient) == ("private_address", False)


def test_host_that_cannot_be_a_name_is_refused_at_once():
    with pytest.raises(DeliveryError) as caught:
        send_test(WebhookChannel(SecretStr(f"http://{'a' * 70}.example/"), timeout_s=30), NOW)
    assert caught.value.code == "http:NoSuchHost"


@pytest.mark.parametrize("public", [True, False])
def test_delivery_does_not_wait_for_a_silent_name_server(monkeypatch, public):
    gave_up, answered = threading.Event(), threading.Event()

    def silent(*_arguments, **_options):
        gave_up.wait(10)
        answered.set()
        raise socket.gaierror

    monkeypatch.setattr(socket, "getaddrinfo", silent)
    channel = WebhookChannel(
        SecretStr("http://silent.example/"), timeout_s=0.1, allow_private=not public
    )
    with pytest.raises(DeliveryError) as caught:
        send_test(channel, NOW)
    assert (caught.value.code, answered.is_set()) == ("http:ConnectTimeout", False)
    assert not caught.value.ambiguous  # nothing was sent
    waiting = [each for each in threading.enumerate() if each.name == "groundwatch-names"]
    assert waiting
    assert all(each.daemon for each in waiting)  # nor does the exit wait
    gave_up.set()


def test_webhook_host_is_pinned_to_its_checked_address(monkeypatch):
    real, asked = socket.getaddrinfo, []

    def rebound(host, port, *arguments, **options):
        asked.append(host)
        shown = "93.184.215.14" if len(asked) == 1 else "127.0.0.1"
        return real(shown, port, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", rebound)
    with VendorReceiver("webhook") as receiver:
        port = urlsplit(receiver.url).port
        channel = WebhookChannel(SecretStr(f"http://rebound.example:{port}/"), timeout_s=5.0)
        with pytest.raises(DeliveryError) as caught:
            send_test(channel, NOW)
        assert (caught.value.code, len(asked)) == ("private_address", 2)
        assert receiver.requests == []


@pytest.mark.parametrize("secret", ["whsec_", "hunter2", "whsec_aGk="])
def test_invalid_secret_is_refused_without_being_printed(secret):
    with pytest.raises(SettingsError) as caught:
        WebhookChannel(SecretStr("https://example.org"), secrets=[SecretStr(secret)])
    assert "hunter2" not in str(caught.value)


def test_retry_after_date_is_relative_to_now():
    with VendorReceiver("webhook") as receiver:
        receiver.retry_after = format_datetime(datetime.now(UTC) + timedelta(seconds=100))
        channel = MAKERS["webhook"](receiver.url, 5.0)
        assert 90 < refused(channel, receiver, Reaction.RATE_LIMITED).retry_after_s <= 100


def test_server_with_a_mismatched_certificate_name_is_refused():
    import ssl
    import threading
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    import trustme

    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("elsewhere.example").configure_cert(context)
    server = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"https://127.0.0.1:{server.server_address[1]}"
    with pytest.raises(DeliveryError) as caught:
        send_test(MAKERS["pagerduty"](url, 2.0), NOW)
    server.shutdown()
    server.server_close()
    assert (caught.value.code, caught.value.ambiguous) == ("http:ConnectError", False)


def test_console_writes_the_message_without_control_characters():
    stream = io.StringIO()
    ConsoleChannel(stream=stream).send(message(samples=(HOSTILE,)), "d")
    assert stream.getvalue().startswith("CRITICAL  test-app · groundedness")
    assert "\x1b" not in stream.getvalue()


def test_closed_console_is_a_delivery_failure():
    stream = io.StringIO()
    stream.close()
    with pytest.raises(DeliveryError):
        ConsoleChannel(stream=stream).send(message(), "d")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_apprise_sends_plain_text_and_says_delivery_is_unconfirmed():
    pytest.importorskip("apprise")
    from alerts.channels.chat import AppriseChannel

    with VendorReceiver("webhook") as receiver:
        receiver._rules = type("Anything", (), {
            "take": lambda *_: (200, {}, b""), "says": lambda *_: None
        })()  # fmt: skip
        url = SecretStr(receiver.url.replace("http://", "json://"))
        receipt = AppriseChannel(url).send(message(), "d")
        assert not receipt.confirmed
        assert "test-app" in json.loads(receiver.taken[0].body)["message"]
        receiver.script(Reaction.SERVER_ERROR)
        with pytest.raises(DeliveryError) as caught:
            AppriseChannel(url).send(message(), "d")
    assert caught.value.ambiguous

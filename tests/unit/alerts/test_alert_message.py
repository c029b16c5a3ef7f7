"""What people read: complete, calm, and harmless whatever the transcripts hold."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser

import pytest

from alerts.channels.email import compose
from alerts.channels.slack import payload, text_only
from alerts.drill import sample_snapshot
from alerts.facts import trend
from alerts.message import Example, render, without_samples
from alerts.model import Background, Evidence, Other, Snapshot
from monitor.errors import DeliveryError
from monitor.models.alerting import AlertEvent
from monitor.models.status import AppLevel, Status

NOW = datetime(2026, 3, 1, 14, 10, tzinfo=UTC)
FIRED, ESCALATED = AlertEvent.FIRED, AlertEvent.ESCALATED
REPEATED, RESOLVED = AlertEvent.REPEATED, AlertEvent.RESOLVED
HOSTILE = (
    "<!channel> <https://evil|x> <script>alert(1)</script> \x1b[2J\u202e {{7*7}} `*_\r\nBcc: a@b.c"
)


def snapshot(**changes):
    return sample_snapshot(NOW).model_copy(update={"test": False, **changes})


def hostile():
    verdict = snapshot().verdict.model_copy(
        update={"app": HOSTILE, "metric": HOSTILE, "reason": HOSTILE}
    )
    background = Background(changed=HOSTILE, segments=HOSTILE, pipeline=HOSTILE)
    return snapshot(
        verdict=verdict,
        samples=(HOSTILE,) * 3,
        report_url="javascript:alert(1)",
        background=background,
    )


def test_headline_and_facts_give_the_same_age_of_the_fall():
    onset = NOW + timedelta(seconds=50)
    verdict = snapshot().verdict.model_copy(
        update={"onset": onset, "onset_earliest": None, "onset_latest": None}
    )
    at, since = onset + timedelta(seconds=5), onset + timedelta(seconds=3)
    message = render(snapshot(verdict=verdict, at=at, since=since), {FIRED})
    assert "(5 s ago)" in message.subject
    assert "most likely began 2026-03-01 14:10 UTC, 5 s ago" in message.text


def test_fired_message_has_every_required_fact():
    found = snapshot(report_url="https://status.example.org/", incident_id="5d02744c11aa")
    message = render(found, {FIRED})
    text = message.text
    assert message.subject == (
        "[CRITICAL] test-app · groundedness: fell from 94.0 % to 62.0 % at 13:58 UTC (12 min ago)"
    )
    for part in (
        "CRITICAL  test-app · groundedness",
        "about 4 in 10 sampled answers state things their sources do not support: 62.0 %",
        " 62.0 % (55.0–69.0) pass, n = 200, since 2026-03-01 13:58 UTC",
        "94.0 % of answers passed (n = 3,400, the reference)",
        "critical below 70.0 %",
        "2026-03-01 13:58 UTC, 12 min ago",
        "groundwatch alerts show 5d02744c",
        "https://status.example.org/incidents/5d02744c11aa",
    ):
        assert part in text


def test_unverified_rate_is_labelled_as_such():
    verdict = snapshot().verdict.model_copy(update={"level": AppLevel(verified=False)})
    assert (
        "about 4 in 10 sampled answers do not come from their contexts: 62.0 % (55.0–69.0) pass,"
        " level not verified, n = 200"
    ) in render(snapshot(verdict=verdict), {FIRED}).text.replace("\n", " ")


@pytest.mark.parametrize(
    ("tells", "word"),
    [
        ({FIRED}, "CRITICAL"),
        ({ESCALATED}, "NOW CRITICAL"),
        ({REPEATED}, "STILL CRITICAL"),
        ({RESOLVED}, "RESOLVED"),
        ({FIRED, ESCALATED}, "CRITICAL"),
    ],
)
def test_message_begins_with_the_alert_state(tells, word):
    message = render(snapshot(), tells)
    assert message.subject.startswith(f"[{word}]")
    assert message.text.splitlines()[0].startswith(f"{word}  ")


def test_resolved_message_says_how_long_it_lasted():
    message = render(snapshot(at=NOW + timedelta(minutes=42)), {RESOLVED})
    assert message.headline == "healthy again after 42 min; worst: critical"
    assert "fired 14:10 UTC, resolved 14:52 UTC" in message.text


def test_merged_message_says_that_earlier_ones_may_be_missing():
    assert "may not have reached you" in render(snapshot(), {FIRED, RESOLVED}).text


def test_second_attempt_says_it_may_be_a_duplicate():
    assert "may repeat" in render(snapshot(), {FIRED}, may_repeat=True).text


def test_test_message_is_marked_as_a_test():
    assert render(sample_snapshot(NOW), {FIRED}).subject.startswith("[TEST CRITICAL]")


def test_rendering_is_deterministic():
    assert render(snapshot(), {FIRED}) == render(snapshot(), {FIRED})


def test_no_hostile_character_reaches_a_terminal():
    text = render(hostile(), {FIRED}).text
    assert not set(text) & {"\x1b", "\u202e", "\r"}
    assert "\nBcc:" not in text


def test_no_hostile_tag_reaches_the_html():
    tags = []

    class Tags(HTMLParser):
        def handle_starttag(self, tag, attrs):
            tags.append((tag, dict(attrs)))

    Tags().feed(render(hostile(), {FIRED}).html)
    assert "script" not in {tag for tag, _ in tags}
    assert "a" not in {tag for tag, _ in tags}


@pytest.mark.parametrize("form", ["text", "html"])
def test_message_that_cannot_be_rendered_was_not_sent(form):
    message = replace(render(snapshot(), {FIRED}), facts=None)
    with pytest.raises(DeliveryError) as raised:
        getattr(message, form)
    assert (raised.value.code, raised.value.ambiguous) == ("rendering:TypeError", False)


def test_template_syntax_in_transcripts_is_not_evaluated():
    assert "{{7*7}}" in render(hostile(), {FIRED}).text


@pytest.mark.parametrize("write", [lambda m: payload(m, "id"), text_only])
def test_no_hostile_mention_reaches_slack(write):
    written = str(write(render(hostile(), {FIRED})))
    assert "<!channel>" not in written
    assert "<https://evil" not in written


def test_slack_limits_hold_for_huge_texts():
    message = replace(
        render(snapshot(), {FIRED}),
        title="t" * 5000, facts=(("Why", "&" * 9000),), samples=("s" * 9000,), headline="h" * 9000,
    )  # fmt: skip
    body = payload(message, "id")
    assert len(body["blocks"][0]["text"]["text"]) <= 150
    assert all(len(b["text"]["text"]) <= 3000 for b in body["blocks"] if b["type"] == "section")
    assert len(body["text"]) <= 4000


def test_email_is_identical_on_every_attempt():
    message = render(snapshot(), {FIRED}, recipient="ann@example.org")
    sender = "groundwatch <gw@example.org>"
    first = compose(message, "abc", sender=sender)
    assert first.as_bytes() == compose(message, "abc", sender=sender).as_bytes()
    assert first["Message-ID"] == "<abc@example.org>"


def test_hostile_app_cannot_add_email_headers():
    message = render(hostile(), {FIRED}, recipient="ann@example.org")
    mail = compose(message, "abc", sender="gw@example.org")
    assert mail["Bcc"] is None
    assert "\n" not in mail["Subject"]


def test_closed_incident_does_not_claim_to_have_recovered():
    closed = snapshot(reason="no_longer_evaluated", at=NOW + timedelta(days=1))
    message = render(closed, {RESOLVED})
    assert message.subject.startswith("[CLOSED]")
    assert "nothing evaluates it any more, not because it recovered" in message.headline
    assert not {"healthy", "RESOLVED", "pass"} & set(message.text.split())


def test_reminder_while_blind_says_no_news():
    verdict = snapshot().verdict.model_copy(update={"status": Status.BLIND, "pass_rate": None})
    message = render(snapshot(verdict=verdict, at=NOW + timedelta(hours=4)), {REPEATED})
    assert message.word == "STILL CRITICAL"
    assert message.headline == "no news, still firing after 4 h: the monitor is blind"


def test_reminder_without_new_scores_shows_no_rate():
    verdict = snapshot().verdict.model_copy(
        update={"pass_rate": None, "low": None, "high": None, "average_score": None, "n": 0}
    )
    message = render(snapshot(verdict=verdict, at=NOW + timedelta(hours=4)), {REPEATED})
    assert message.headline == "after 4 h still critical, with no scores in the last 1 h"
    assert ("Impact", "no scores in the last 1 h (n = 0)") in message.facts


def test_alert_of_a_rule_shows_its_figure_and_threshold():
    reason = "groundedness: error rate 0.083; the rule: above 0.05"
    verdict = snapshot().verdict.model_copy(update={"metric": "rule:errors", "reason": reason})
    message = render(snapshot(verdict=verdict), {FIRED})
    assert message.headline == reason
    assert "Threshold" not in dict(message.facts)


def test_headline_of_a_new_alert_gives_the_rate_without_a_time():
    assert render(snapshot(), {AlertEvent.JOINED}).headline.startswith("only 62.0 % of answers")


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (Evidence.HEALTHY, "healthy; 94.0 % of answers passed (n = 3,400, the reference)"),
        (
            Evidence.WARNING,
            "already at warning; 94.0 % of answers passed (n = 3,400, the reference)",
        ),
        (Evidence.UNCERTAIN, "not enough data to tell; 94.0 % of answers passed"),
        (None, "94.0 % of answers passed (n = 3,400, the reference)"),
    ],
)
def test_previous_status_is_given_in_words(status, said):
    assert dict(render(snapshot(status_before=status), {FIRED}).facts)["Before"].startswith(said)


def test_uninformative_times_are_left_out():
    verdict = snapshot().verdict.model_copy(
        update={"onset": NOW, "onset_earliest": NOW, "onset_latest": NOW + timedelta(seconds=9)}
    )
    told = dict(render(snapshot(verdict=verdict, since=NOW), {FIRED}).facts)["Since"]
    assert told == "most likely began 2026-03-01 14:10 UTC"


def test_unknown_previous_status_is_left_out():
    verdict = snapshot().verdict.model_copy(update={"drift": None})
    facts = dict(render(snapshot(status_before=None, verdict=verdict), {FIRED}).facts)
    assert "Before" not in facts


def test_snapshot_of_a_newer_release_is_read():
    stored = snapshot().model_dump(mode="json")
    for part in (stored, stored["thresholds"], stored["verdict"], stored["verdict"]["drift"]):
        part["colour"] = "new"
    assert Snapshot.model_validate(stored) == snapshot()


def test_trend_sparkline_spans_its_range_and_keeps_gaps():
    assert trend([0.5, None, 1.0, 0.75]) == "▁·█▅ (50.0 % to 100.0 %)"
    assert trend([0.9, 0.9]) == trend([0.9]) == ""
    assert trend([None]) == trend([]) == ""


@pytest.mark.parametrize(
    ("changes", "tells", "parts"),
    [
        ({"event": AlertEvent.SETTLED, "onsets": 9}, {AlertEvent.SETTLED},
         ("STABLE", "it began 9 times")),
        ({"event": AlertEvent.JOINED}, {AlertEvent.JOINED}, ("ALSO CRITICAL",)),
        ({"reason": "expired_no_data"}, {RESOLVED},
         ("EXPIRED", "closed because data stopped, not because it recovered")),
        ({"flapping": True, "onsets": 4}, {FIRED}, ("it began 4 times in a day",)),
        ({"stale_since": NOW}, {REPEATED}, ("Stale since  2026-03-01 14:10 UTC",)),
        ({"others": (Other(app="test-app", metric="relevance", segment="*", level="warning"),),
          "more": 3}, {FIRED}, ("Also firing", "relevance (warning) and 3 more")),
        ({"cause": "the judge j7",
          "others": (Other(app="b", metric="relevance", segment="*", level="warning"),)},
         {FIRED}, ("test-app, b · the judge j7", "b · relevance (warning)")),
        ({"note": "it was silenced by ann: deploy"}, {AlertEvent.UNSILENCED},
         ("STILL CRITICAL", "it was silenced by ann: deploy")),
        ({"trend": (0.9, 0.5)}, {FIRED}, ("Trend", "█▁")),
        ({"well_since": NOW - timedelta(minutes=12)}, {FIRED},
         ("AGAIN CRITICAL", "it had been over since 2026-03-01 13:58 UTC")),
        ({"reason": "superseded", "superseded": "evaluator changed from a@1 to a@2"}, {RESOLVED},
         ("CLOSED", "a threshold changed, not because it recovered", "from a@1 to a@2")),
    ],
)  # fmt: skip
def test_each_kind_of_event_is_named_in_the_message(changes, tells, parts):
    text = render(snapshot(**changes), tells).text
    for part in parts:
        assert part in text


def test_stored_snapshot_of_an_older_release_is_read():
    stored = snapshot().model_dump(mode="json")
    stored["lines"] = stored.pop("thresholds")
    assert Snapshot.model_validate(stored) == snapshot()


EXAMPLE = Example(
    question="is water damage under warranty",
    answer="Refunds are approved by our CEO.",
    finding="in none of the passages: CEO",
    link="https://status.example.org/sample/s1",
)


def test_example_shows_question_answer_and_the_problem():
    found = snapshot(samples=("in none of the passages: CEO", "another finding"))
    message = render(found, {FIRED}, example=EXAMPLE)
    parts = (EXAMPLE.question, EXAMPLE.answer, EXAMPLE.finding, EXAMPLE.link)
    for written in (message.text, message.html, str(payload(message, "id"))):
        assert all(part in written for part in parts)
        assert written.count(EXAMPLE.finding) == 1
        assert "another finding" in written
    bare = without_samples(message)
    assert not any(part in str((bare.text, bare.html, payload(bare, "id"))) for part in parts)


def test_resolved_message_has_no_example():
    assert render(snapshot(), {RESOLVED}, example=EXAMPLE).example is None


def test_confirmed_evidence_is_labelled_confidence():
    verdict = snapshot().verdict.model_copy(
        update={"evidence": "confirmed", "reason": "below 70 % (99 % certain)"}
    )
    facts = dict(render(snapshot(verdict=verdict), {FIRED}).facts)
    assert facts["Confidence"] == "below 70 % (99 % certain)"
    assert "Why" in dict(render(snapshot(), {FIRED}).facts)


def test_headline_states_that_no_answer_passes():
    fallen = snapshot().verdict.model_copy(update={"pass_rate": 0.0, "drift": None})
    assert render(snapshot(verdict=fallen), {FIRED}).headline == "no answer passes"


def test_window_pass_rate_is_shown_as_a_second_figure():
    verdict = snapshot().verdict.model_copy(update={"window_pass_rate": 0.78, "window_n": 500})
    facts = dict(render(snapshot(verdict=verdict), {FIRED}).facts)
    said = "78.0 % of the 500 answers of the last 1 h pass, those from before included"
    assert facts["Whole window"] == said
    assert "Whole window" not in dict(render(snapshot(), {FIRED}).facts)


@pytest.mark.parametrize(
    ("rate", "share"),
    [(0.0, "nearly all"), (0.31, "about 7 in 10"), (0.9, "about 1 in 10"), (0.98, "about 1 in 50"),
     (1.0, "none")],
)  # fmt: skip
def test_impact_is_shown_as_a_share_of_the_answers(rate, share):
    verdict = snapshot().verdict.model_copy(update={"pass_rate": rate, "low": rate, "high": rate})
    assert dict(render(snapshot(verdict=verdict), {FIRED}).facts)["Impact"].startswith(share)


def test_every_app_of_a_common_cause_is_named_in_the_subject():
    def others(n):
        return tuple(
            Other(app=f"app-{i}", metric="relevance", segment="*", level="warning")
            for i in range(n)
        )

    found = snapshot(cause="the judge changed to j8", others=others(2))
    assert render(found, {FIRED}).title == "test-app, app-0, app-1 · the judge changed to j8"
    found = snapshot(cause="the judge changed to j8", others=others(8), more=3)
    assert render(found, {FIRED}).title == (
        "test-app, app-0, app-1, app-2, app-3 and 7 more · the judge changed to j8"
    )
    alone = snapshot(cause="the judge changed to j8", others=())
    assert render(alone, {RESOLVED}).title == "test-app · groundedness"

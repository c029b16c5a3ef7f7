"""
Every message in the form of every channel is as it is written down in `tests/golden/alerts`.

After a change of words, look at the difference that this makes:

    python tests/unit/alerts/test_alert_golden.py && git diff tests/golden/alerts
"""

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from alerts import MessageForm
from alerts.drill import sample_snapshot, written
from alerts.message import Example, render
from alerts.model import Background, Other
from monitor.models.alerting import AlertEvent

NOW = datetime(2026, 3, 1, 14, 10, tzinfo=UTC)
GOLDEN = Path(__file__).parents[2] / "golden" / "alerts"
HOSTILE = "<!channel> @everyone [x](https://evil.example) <b>**_`&"
EXAMPLE = Example(
    question=f"What is the fee? {HOSTILE}",
    answer=f"The fee is 12 euros. {HOSTILE}",
    finding=f"not in the sources: 12 euros {HOSTILE}",
    link="https://status.example.org/sample/s-1",
)
ENDINGS = {MessageForm.HTML: "html", MessageForm.EMAIL: "eml", MessageForm.TEXT: "txt"}

#: How long after the alert fired each sort of news comes.
LATER_MIN = {
    AlertEvent.ESCALATED: 12,
    AlertEvent.REPEATED: 240,
    AlertEvent.RESOLVED: 45,
    AlertEvent.SETTLED: 45,
    AlertEvent.UNSILENCED: 90,
}


def snapshot(event):
    base = sample_snapshot(NOW)
    onset = NOW - timedelta(minutes=31)
    verdict = base.verdict.model_copy(
        update={
            "app": "support-bot",
            "reason": "pass rate is below the 70 % critical threshold (99 % certain)",
            "n_failed": 3,
            "evidence": "confirmed",
            "onset": onset,
            "onset_earliest": onset - timedelta(minutes=9),
            "onset_latest": onset + timedelta(minutes=6),
        }
    )
    background = Background(
        changed=f"release 2.1 {HOSTILE} at 03-01 13:35 UTC; query chars went from 40 to 310",
        segments=f"release=2.1 {HOSTILE}: 94 % to 41 % (n = 120), 88 % of the fall",
        pipeline="9,000 seen, 900 sampled, 880 scored, 12 failed in 15 min (most of all timeout)",
    )
    over = event in {AlertEvent.RESOLVED, AlertEvent.SETTLED}
    others = (Other(app="support-bot", metric="relevance", segment="*", level="warning"),)
    return base.model_copy(
        update={
            "incident_id": "0123456789abcdef",
            "event": event,
            "reason": "golden",
            "at": NOW + timedelta(minutes=LATER_MIN.get(event, 0)),
            "verdict": verdict,
            "background": background,
            "samples": (f"0.05: {HOSTILE} the answer names a fee that no passage has",),
            "trend": (0.95, 0.94, None, 0.93, 0.7, 0.62),
            "others": () if over else others,
            "onsets": 5 if event is AlertEvent.SETTLED else 0,
            "note": "it was silenced by ann: index" if event is AlertEvent.UNSILENCED else "",
            "report_url": "https://status.example.org/",
            "example_id": "s-1",
            "test": False,
        }
    )


def text_of(form, event):
    message = render(snapshot(event), {event}, recipient="oncall@example.org", example=EXAMPLE)
    return written(form, message).replace("\r\n", "\n").rstrip("\n") + "\n"


def path_of(form, event):
    return GOLDEN / form.value / f"{event.value}.{ENDINGS.get(form, 'json')}"


TOLD = [event for event in AlertEvent if event is not AlertEvent.DEESCALATED]
CASES = [(form, event) for form in MessageForm for event in TOLD]


@pytest.mark.parametrize(("form", "event"), CASES)
def test_message_matches_its_golden_file(form, event):
    assert text_of(form, event) == path_of(form, event).read_text(encoding="utf-8")


def test_every_golden_file_belongs_to_a_message():
    assert set(GOLDEN.rglob("*.*")) == {path_of(*case) for case in CASES}


def regenerate():
    for form, event in CASES:
        path_of(form, event).parent.mkdir(parents=True, exist_ok=True)
        path_of(form, event).write_text(text_of(form, event), encoding="utf-8")
    sys.stdout.write(f"{len(CASES)} files written\n")


if __name__ == "__main__":
    regenerate()

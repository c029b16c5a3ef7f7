"""
A digest in the form of each channel is as it is written down in `tests/golden/digest`.

After a change of words, look at the difference that this makes:

    python tests/unit/alerts/test_digest_golden.py && git diff tests/golden/digest
"""

import json
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from alerts.channels import programs, slack
from alerts.channels.email import compose
from alerts.digest import digest_message
from monitor.models import Status
from monitor.models.alerting import Severity
from monitor.models.status import Movement
from monitor.report.digest import (
    Coverage,
    Digest,
    DigestPoint,
    DigestSeries,
    Episode,
    NoisyKey,
    Release,
    StatusMove,
)

NOW = datetime(2026, 3, 2, 7, 0, tzinfo=UTC)
GOLDEN = Path(__file__).parents[2] / "golden" / "digest"
HOSTILE = "<!channel> @everyone [x](https://evil.example) <img src=x onerror=a()> **_`&"
ID = "0123456789abcdef01234567"


def full():
    hours = [0.95, 0.94, None, None, 0.96, 0.93, 0.91, 0.72, 0.6, 0.58]
    points = [
        DigestPoint() if r is None else DigestPoint(rate=r, low=r - 0.04, high=min(1, r + 0.04))
        for r in hours
    ]
    course = DigestSeries(
        app="support-bot", metric="groundedness", status=Status.CRITICAL, rate=0.81, low=0.78,
        high=0.84, n=812, points=points,
    )  # fmt: skip
    return Digest(
        name="daily-2026-03-02", start=NOW - timedelta(days=1), end=NOW, made_at=NOW,
        zone="Europe/Stockholm", statuses={"support-bot": Status.CRITICAL, HOSTILE: Status.HEALTHY},
        moves=[
            StatusMove(app="support-bot", metric="groundedness", before=Status.HEALTHY,
                       after=Status.CRITICAL, changes=2, at=NOW - timedelta(hours=3)),
        ],
        releases=[Release(app="support-bot", release=HOSTILE, at=NOW - timedelta(hours=4))],
        new_series=[(HOSTILE, "relevance")],
        episodes=[
            Episode(incident_id="0123456789abcdef", app="support-bot", metric="groundedness",
                    level=Severity.CRITICAL, opened_at=NOW - timedelta(hours=3), lasted_s=10_800,
                    is_open=True),
        ],
        more_episodes=1,
        movers=[
            Movement(app="support-bot", metric="groundedness", before=0.94, after=0.81,
                     n_before=790, n_after=812, low=-0.17, high=-0.09, p_value=1e-9, certain=True),
            Movement(app=HOSTILE, metric="relevance", before=0.8, after=0.9, n_before=400,
                     n_after=410, low=0.04, high=0.16, p_value=1e-4, certain=True),
        ],
        compared=14,
        noisiest=[NoisyKey(app="support-bot", metric="groundedness", incidents=4, short=2,
                           messages=9)],
        messages=9, dead_letters=1,
        coverage=[Coverage(app="support-bot", seen=16_240, sampled=812, scored=700, skipped=12,
                           failed=80, dropped=20)],
        cost_usd=3.2, cost_before_usd=2.9,
        courses=[course, course.model_copy(update={"app": HOSTILE, "status": Status.HEALTHY})],
        warning_rate=0.85, critical_rate=0.7,
    )  # fmt: skip


def message():
    return digest_message(full(), ID, recipient="oncall@example.org")


def text_of(form):
    found = message()
    if form == "email.eml":
        # Without pictures: another Pillow draws them with other bytes.
        bare = replace(found, pictures=())
        vars(bare)["html"] = found.html  # which names them all the same
        return compose(bare, ID, sender="gw@example.org").as_string()
    return {
        "digest.txt": lambda: found.text,
        "digest.html": lambda: found.html,
        "slack.json": lambda: as_json(slack.payload(found, ID)),
        "webhook.json": lambda: as_json(json.loads(programs.document(found))),
    }[form]()


def as_json(found):
    return json.dumps(found, indent=2, ensure_ascii=False)


FORMS = ["digest.txt", "digest.html", "slack.json", "webhook.json", "email.eml"]


def written(form):
    return text_of(form).replace("\r\n", "\n").rstrip("\n") + "\n"


@pytest.mark.parametrize("form", FORMS)
def test_digest_matches_its_golden_file(form):
    assert written(form) == (GOLDEN / form).read_text(encoding="utf-8")


def test_digest_mail_embeds_its_pictures_and_loads_nothing():
    mail = compose(message(), ID, sender="gw@example.org")
    plain, related = mail.iter_parts()
    html, *pictures = related.iter_parts()
    assert plain.get_content_type() == "text/plain"
    assert len(pictures) == len(full().courses) == 2
    for picture in pictures:
        cid = picture["Content-ID"].strip("<>")
        assert f'src="cid:{cid}"' in html.get_content()
        assert picture.get_content_disposition() == "inline"
        assert picture.get_content().startswith(b"\x89PNG")
    assert "src=x" not in html.get_content().replace("&lt;img src=x", "")
    assert "http" not in html.get_content().replace("https://evil.example", "")


def test_digest_mail_is_identical_on_every_attempt():
    first, second = (compose(message(), ID, sender="gw@example.org") for _ in range(2))
    assert first.as_bytes() == second.as_bytes()


def test_digest_mail_stays_below_the_size_limit():
    assert len(compose(message(), ID, sender="gw@example.org").as_bytes()) < 100_000


def test_foreign_text_is_never_markup_in_slack():
    blocks = slack.payload(message(), ID)["blocks"]
    marked = [b["text"]["text"] for b in blocks if b.get("text", {}).get("type") == "mrkdwn"]
    assert not [text for text in marked if "<!channel>" in text or "**_`" in text]
    assert len(blocks) <= 50


def regenerate():
    for form in FORMS:
        (GOLDEN / form).write_text(written(form), encoding="utf-8")
    sys.stdout.write(f"{len(FORMS)} files written\n")


if __name__ == "__main__":
    regenerate()

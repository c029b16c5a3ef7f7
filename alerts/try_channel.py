"""Try one channel for real, with a message that says it is a test."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta

from alerts.channels.base import Channel, Receipt
from alerts.evidence import Evidence
from alerts.message import render
from alerts.rules import Lines
from alerts.snapshot import Snapshot
from monitor.models.alerting import AlertEvent, Level
from monitor.models.status import Drift, Status, Verdict


def send_test(channel: Channel, now: datetime, address: str | None = None) -> Receipt:
    """
    Send one message marked TEST, to *address* or the channel's first one.

    One attempt, outside the outbox, nothing is written down.

    Raises
    ------
    DeliveryError
        If the channel did not take it; the text says why and holds no secret.
    """
    recipient = channel.addresses[0] if address is None else address
    message = render(sample_snapshot(now), {AlertEvent.FIRED}, recipient=recipient)
    return channel.send(message, f"test-{uuid.uuid4().hex[:16]}", 1)


def sample_snapshot(now: datetime) -> Snapshot:
    """Make the evidence of an incident that never was."""
    began = now - timedelta(minutes=12)
    verdict = Verdict(
        app="test-app",
        metric="groundedness",
        window_s=3600,
        policy="test",
        status=Status.CRITICAL,
        point_status=Status.CRITICAL,
        reason="this is a test of the channel: nothing is wrong, and nothing is to be done",
        pass_rate=0.62,
        low=0.55,
        high=0.69,
        average_score=0.66,
        n=200,
        n_total=200,
        drift=Drift(reference_pass_rate=0.94, reference_n=3_400),
        evaluated_at=now,
        since=began,
    )
    return Snapshot(
        incident_id="test",
        sequence=1,
        event=AlertEvent.FIRED,
        reason="test",
        level=Level.CRITICAL,
        peak=Level.CRITICAL,
        previous_level=None,
        status_before=Evidence.HEALTHY,
        since=began,
        opened_at=now,
        at=now,
        verdict=verdict,
        lines=Lines(warning_rate=0.85, critical_rate=0.70),
        samples=("0.05: this is where the reason for a bad score would stand",),
        test=True,
    )

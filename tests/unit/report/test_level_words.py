"""How bad an incident was stays legible after it got better."""

from datetime import UTC, datetime

import pytest

from monitor.models import Incident
from monitor.models.alerting import Severity
from monitor.report.words import level_words

AT = datetime(2026, 6, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("incident_id", "level", "peak", "resolved_at", "said"),
    [
        ("i1", Severity.WARNING, Severity.CRITICAL, AT, "critical"),
        ("i1", Severity.WARNING, Severity.CRITICAL, None, "critical, now warning"),
        ("i1", Severity.CRITICAL, Severity.CRITICAL, None, "critical"),
        ("i1", Severity.WARNING, Severity.WARNING, AT, "warning"),
        ("drill-0a1b", Severity.CRITICAL, Severity.CRITICAL, AT, "TEST critical"),
    ],
)
def test_level_of_an_incident_begins_with_its_worst(incident_id, level, peak, resolved_at, said):
    found = Incident(
        incident_id=incident_id, app="shop", metric="groundedness", segment="*", window_s=3600,
        level=level, peak_level=peak, since=AT, opened_at=AT, updated_at=AT,
        resolved_at=resolved_at, sequence=1,
    )  # fmt: skip
    assert level_words(found) == said

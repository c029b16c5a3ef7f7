"""
Export evaluations as OpenTelemetry events, for teams that keep their traces in such a store.

The convention: the event ``gen_ai.evaluation.result`` of the semantic conventions for
generative AI, whose status is "development": it may still change.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import structlog
from pydantic import SecretStr

from monitor.errors import MissingExtraError
from monitor.models import EvaluationStatus
from monitor.store.write import Contribution, Result

try:
    from opentelemetry._logs import LogRecord, SeverityNumber
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
    from opentelemetry.sdk._logs import LoggerProvider, ReadableLogRecord
    from opentelemetry.sdk._logs.export import (
        BatchLogRecordProcessor,
        LogRecordExporter,
        LogRecordExportResult,
    )
    from opentelemetry.sdk.resources import Resource
except ImportError:
    raise MissingExtraError("the export of evaluations", "otel") from None

EVENT: Final = "gen_ai.evaluation.result"
#: Events in memory; what comes while so many wait is dropped, and counted.
MOST_WAITING: Final = 10_000
_BATCH: Final = 500
_TIMEOUT_S: Final = 10.0
_LOG_EVERY: Final = 1_000
_TRACE_DIGITS, _SPAN_DIGITS = 32, 16

log = structlog.get_logger("groundwatch.worker")


class EvaluationEvents:
    """
    Sends an event for each evaluation, in batches, from a thread of its own.

    ``send`` only puts them into a bounded buffer: a receiver that is slow or unreachable costs
    scoring nothing, and what it misses is counted. A sample whose worker died between sending
    and acknowledging is scored, and sent, once more.
    """

    def __init__(
        self, url: SecretStr, *, explanations: bool = False, most_waiting: int = MOST_WAITING
    ) -> None:
        self._explanations = explanations
        self._most_waiting = most_waiting
        self._taken = 0
        self._dropped = 0
        self._reported: Counter[str] = Counter()
        exporter = OTLPLogExporter(endpoint=url.get_secret_value(), timeout=_TIMEOUT_S)
        self._counting = _Counting(exporter)
        self._provider = LoggerProvider(
            resource=Resource.create({"service.name": "groundwatch"}), shutdown_on_exit=False
        )
        # Its own buffer is never full: ours, which counts, is the smaller one.
        self._provider.add_log_record_processor(
            BatchLogRecordProcessor(
                self._counting,
                schedule_delay_millis=1_000,
                max_export_batch_size=min(_BATCH, most_waiting),
                export_timeout_millis=1000 * _TIMEOUT_S,
                max_queue_size=2 * most_waiting + _BATCH,
            )
        )
        self._logger = self._provider.get_logger("groundwatch")

    def send(self, results: Sequence[Result]) -> None:
        """Put the evaluations of these samples into the buffer; never raises and never waits."""
        try:
            records = (
                _record(result, item, explanations=self._explanations)
                for result in results
                for item in result.contributions
                # What was skipped has no result to report.
                if item.evaluation.status in {EvaluationStatus.COMPLETED, EvaluationStatus.FAILED}
            )
            for record in records:
                if self._taken - self._counting.finished >= self._most_waiting:
                    if self._dropped % _LOG_EVERY == 0:
                        log.warning("events_dropped", **self.counts())
                    self._dropped += 1
                else:
                    self._taken += 1
                    self._logger.emit(record)
        except Exception:
            # Scores are stored by now; an event that cannot be written must not undo that.
            log.exception("events_broken")

    def counts(self) -> dict[str, int]:
        """Return how many events were sent, failed, dropped (as too many waited), and wait."""
        done = self._counting.counts
        waiting = self._taken - self._counting.finished
        return {
            "sent": done["sent"],
            "failed": done["failed"],
            "dropped": self._dropped,
            "waiting": waiting,
        }

    def news(self) -> dict[str, int]:
        """Return what ended since the last call: sent, failed, dropped."""
        now = Counter({what: n for what, n in self.counts().items() if what != "waiting"})
        found, self._reported = now - self._reported, now
        return dict(found)

    def close(self) -> None:
        """Send what waits, for a few seconds at most, and say how it all ended."""
        self._provider.shutdown()
        log.info("events_closed", **self.counts())


class _Counting(LogRecordExporter):
    """Counts what another exporter does."""

    def __init__(self, exporter: LogRecordExporter) -> None:
        self._exporter = exporter
        self._lock = threading.Lock()
        self.counts: Counter[str] = Counter()

    @property
    def finished(self) -> int:
        """How many events were sent or have failed."""
        return self.counts.total()

    def export(self, batch: Sequence[ReadableLogRecord]) -> LogRecordExportResult:
        """Export a batch; what was not taken is lost, and counted as failed."""
        try:
            result = self._exporter.export(batch)
        except Exception as error:  # noqa: BLE001 - its text may hold the address
            log.warning("events_failed", error=type(error).__name__)
            result = LogRecordExportResult.FAILURE
        with self._lock:
            done = "sent" if result is LogRecordExportResult.SUCCESS else "failed"
            self.counts[done] += len(batch)
        return result

    def force_flush(self, timeout_millis: int = 10_000) -> bool:
        """Let the other send what it holds."""
        return self._exporter.force_flush(timeout_millis)

    def shutdown(self) -> None:
        """Close the other."""
        self._exporter.shutdown()  # type: ignore[no-untyped-call]


def _record(result: Result, item: Contribution, *, explanations: bool) -> LogRecord:
    sample, evaluation = result.scored.sample, item.evaluation
    interaction = sample.interaction
    attributes: dict[str, Any] = {
        "gen_ai.evaluation.name": item.stream.metric,
        "groundwatch.app": item.stream.app,
        "groundwatch.interaction.id": interaction.id,
        "groundwatch.evaluation.id": evaluation.evaluation_id,
        "groundwatch.evaluator.version": item.stream.evaluator_version,
    }
    if evaluation.error is not None:
        attributes["error.type"] = evaluation.error.code
    elif item.tally.n:
        attributes["gen_ai.evaluation.score.value"] = item.tally.sum_x
        attributes["gen_ai.evaluation.score.label"] = "pass" if item.tally.passed else "fail"
    if explanations and evaluation.explanation:
        attributes["gen_ai.evaluation.explanation"] = evaluation.explanation
    response_id = interaction.metadata.get("response_id")
    if isinstance(response_id, str):
        attributes["gen_ai.response.id"] = response_id
    trace = _number(interaction.trace_id, _TRACE_DIGITS)
    span = _number(interaction.metadata.get("span_id"), _SPAN_DIGITS) if trace else 0
    parent: dict[str, Any] = {"trace_id": trace or None, "span_id": span or None}
    return LogRecord(
        timestamp=int(evaluation.timestamp.timestamp() * 1e9),
        severity_number=SeverityNumber.INFO,
        event_name=EVENT,
        attributes=attributes,
        **parent,
    )


def _number(digits: object, length: int) -> int:
    """Return the number that so many hexadecimal digits write; 0 for anything else."""
    if not isinstance(digits, str) or len(digits) != length:
        return 0
    try:
        return int(digits, 16)
    except ValueError:
        return 0

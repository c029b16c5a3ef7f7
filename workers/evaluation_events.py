"""
Evaluations as OpenTelemetry events, for who keeps the traces of the app in such a store.

The convention: the event ``gen_ai.evaluation.result`` of the semantic conventions for
generative AI, whose status is "development": it may still change.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
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
_TOLD_EVERY: Final = 1_000
_TRACE_DIGITS, _SPAN_DIGITS = 32, 16

log = structlog.get_logger("groundwatch.worker")


class EvaluationEvents:
    """
    Sends an event for each evaluation, in batches, from a thread of its own.

    ``tell`` only puts them into a bounded buffer: a receiver that is slow or away costs
    scoring nothing, and what it misses is counted. A sample whose worker died between telling
    and acknowledging is scored, and told, once more.
    """

    def __init__(
        self, url: SecretStr, *, explanations: bool = False, most_waiting: int = MOST_WAITING
    ) -> None:
        self._explanations = explanations
        self._most_waiting = most_waiting
        self._taken = 0
        self._dropped = 0
        self._told: Counter[str] = Counter()
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

    def tell(self, results: Sequence[Result]) -> None:
        """Take the evaluations of these samples; never raises and never waits."""
        try:
            for record in _records(results, explanations=self._explanations):
                if self._taken - self._counting.finished >= self._most_waiting:
                    self._drop()
                else:
                    self._taken += 1
                    self._logger.emit(record)
        except Exception:
            # Scores are stored by now; an event that cannot be written must not undo that.
            log.exception("events.broken")

    def counts(self) -> dict[str, int]:
        """Count the events: sent, failed, dropped (as too many waited), waiting."""
        done = self._counting.counts
        waiting = self._taken - self._counting.finished
        return {
            "sent": done["sent"],
            "failed": done["failed"],
            "dropped": self._dropped,
            "waiting": waiting,
        }

    def news(self) -> dict[str, int]:
        """Count what ended since this was last asked: sent, failed, dropped."""
        now = Counter({what: n for what, n in self.counts().items() if what != "waiting"})
        found, self._told = now - self._told, now
        return dict(found)

    def close(self) -> None:
        """Send what waits, for a few seconds at most, and say how it all ended."""
        self._provider.shutdown()
        log.info("events.closed", **self.counts())

    def _drop(self) -> None:
        if self._dropped % _TOLD_EVERY == 0:
            log.warning("events.dropped", **self.counts())
        self._dropped += 1


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
            log.warning("events.failed", error=type(error).__name__)
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


def _records(results: Sequence[Result], *, explanations: bool) -> Iterator[LogRecord]:
    for result in results:
        for item in result.contributions:
            # What was skipped has no result to tell of.
            if item.evaluation.status in {EvaluationStatus.COMPLETED, EvaluationStatus.FAILED}:
                yield _record(result, item, explanations=explanations)


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
    return LogRecord(
        timestamp=int(evaluation.timestamp.timestamp() * 1e9),
        severity_number=SeverityNumber.INFO,
        event_name=EVENT,
        attributes=attributes,
        **_parent(interaction.trace_id, interaction.metadata),
    )


def _parent(trace_id: str | None, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Name the trace that was evaluated, and the span where the app told it."""
    trace = _number(trace_id, _TRACE_DIGITS)
    if not trace:
        return {}
    return {"trace_id": trace, "span_id": _number(metadata.get("span_id"), _SPAN_DIGITS) or None}


def _number(digits: object, length: int) -> int:
    if not isinstance(digits, str) or len(digits) != length:
        return 0
    try:
        return int(digits, 16)
    except ValueError:
        return 0

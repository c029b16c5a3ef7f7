"""The nouns that cross a boundary, in the order of the flow: frozen, checked, light to import."""

from monitor.models.alerting import (
    AlertEvent,
    Delivery,
    DeliveryStatus,
    Incident,
    Level,
    TimelineEvent,
)
from monitor.models.evaluation import ErrorInfo, Evaluation, EvaluationStatus
from monitor.models.evaluators import (
    CustomEvaluation,
    FactualAccuracyEvaluation,
    LengthEvaluation,
    QualityEvaluation,
    RelevanceEvaluation,
    ToxicityEvaluation,
)
from monitor.models.interaction import Context, Interaction, Sample, ToolCall
from monitor.models.outcome import Outcome, ScoredSample
from monitor.models.results import (
    EvaluationBatch,
    EvaluationConfig,
    MultiEvaluationResult,
    PerformanceSummary,
    QualitySummary,
    RetryConfig,
)
from monitor.models.status import Drift, Status, Verdict
from monitor.models.tally import ROOT, StreamKey, Tally

__all__ = [
    "ROOT",
    "AlertEvent",
    "Context",
    "CustomEvaluation",
    "Delivery",
    "DeliveryStatus",
    "Drift",
    "ErrorInfo",
    "Evaluation",
    "EvaluationBatch",
    "EvaluationConfig",
    "EvaluationStatus",
    "FactualAccuracyEvaluation",
    "Incident",
    "Interaction",
    "LengthEvaluation",
    "Level",
    "MultiEvaluationResult",
    "Outcome",
    "PerformanceSummary",
    "QualityEvaluation",
    "QualitySummary",
    "RelevanceEvaluation",
    "RetryConfig",
    "Sample",
    "ScoredSample",
    "Status",
    "StreamKey",
    "Tally",
    "TimelineEvent",
    "ToolCall",
    "ToxicityEvaluation",
    "Verdict",
]

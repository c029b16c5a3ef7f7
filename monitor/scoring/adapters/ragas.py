"""
Metrics of Ragas, installed beside: ``ragas = "ExactMatch"`` in the metrics file.

A metric of the library keeps its own model, calls and bill: none of it goes through the
judge's budget. Those that need a model take it as an argument, which a TOML file cannot
hold: write a function of three lines around `ragas_metric` for them. Ragas reports its use
to its makers unless ``RAGAS_DO_NOT_TRACK=true`` is set. Tested with ragas 0.4.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module, metadata
from typing import Any

from monitor.errors import MissingExtraError, SettingsError
from monitor.models import Interaction
from monitor.models.passing import Direction
from monitor.scoring.base import Finding
from monitor.scoring.declaration import Computed, Cost, Declaration, NoParameters, lookup


def ragas_metric(
    name: str,
    kind: str,
    arguments: Mapping[str, Any],
    *,
    direction: Direction = Direction.HIGHER,
    requires: tuple[str, ...] = ("output",),
) -> Computed:
    """
    Make a metric of the Ragas class *kind*, such as ``ExactMatch`` or ``Faithfulness``.

    Parameters
    ----------
    name
        What it will be called here.
    kind
        A single-turn class of ``ragas.metrics``.
    arguments
        Its constructor's, such as ``{"llm": a wrapped model}``.
    direction
        Lower for ``NoiseSensitivity``.
    requires
        Fields without which it is skipped.

    Raises
    ------
    MissingExtraError
        If ragas is not installed, or cannot be imported with what is installed.
    SettingsError
        If there is no such class, or it does not take the arguments.
    """
    try:
        library: Any = import_module("ragas.metrics")
        samples: Any = import_module("ragas.dataset_schema")
    except ImportError:
        raise MissingExtraError("a metric of Ragas", "ragas") from None
    made = getattr(library, kind, None)
    if made is None or not hasattr(made, "single_turn_score"):
        raise SettingsError(f"[{name}] ragas.metrics has no single-turn metric {kind}")
    try:
        metric = made(**arguments)
    except TypeError as error:
        raise SettingsError(f"[{name}] {kind}: {error}") from None

    def compute(interaction: Interaction, _: NoParameters) -> Finding:
        score = metric.single_turn_score(samples.SingleTurnSample(**sample_fields(interaction)))
        return Finding(score=float(score), details={"library": "ragas"})

    return Computed(
        Declaration(
            name=name,
            what=f"Ragas' {kind}.",
            formula="Ragas' own",
            requires=requires,
            source=f"ragas {metadata.version('ragas')}",
            backend="ragas, with its own model",
            cost=Cost.JUDGE,
            version=f"ragas-{metadata.version('ragas')}",
            direction=direction,
        ),
        compute,
    )


def sample_fields(interaction: Interaction) -> dict[str, Any]:
    """Name the fields of an interaction as ``SingleTurnSample`` does."""
    return {
        "user_input": interaction.query or "",
        "response": interaction.output,
        "retrieved_contexts": [context.text for context in interaction.contexts] or None,
        "reference": lookup(interaction, "expected.answer"),
    }

"""Public doubles: valid records in a line, real servers that play the outside world; laws."""

from monitor.testing.factories import (
    make_evaluation,
    make_interaction,
    make_sample,
    make_verdict,
)
from monitor.testing.pipeline_laws import LawReport, laws

__all__ = [
    "LawReport",
    "laws",
    "make_evaluation",
    "make_interaction",
    "make_sample",
    "make_verdict",
]

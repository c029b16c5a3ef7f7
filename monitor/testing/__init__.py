"""Public doubles: valid records in a line, and real servers that play the outside world."""

from monitor.testing.factories import (
    make_evaluation,
    make_interaction,
    make_sample,
    make_verdict,
)

__all__ = ["make_evaluation", "make_interaction", "make_sample", "make_verdict"]

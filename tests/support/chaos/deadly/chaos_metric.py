"""A metric that kills its worker when it meets a certain text, as a fault of a library would."""

from __future__ import annotations

import os
import signal

from monitor.models import Interaction

_DEADLY = "this text kills"


def deadly(interaction: Interaction) -> bool:
    """Score it, or die of it."""
    if _DEADLY in interaction.output:
        os.kill(os.getpid(), signal.SIGKILL)
    return True

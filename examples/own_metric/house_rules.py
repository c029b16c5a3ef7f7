"""The rules of one team, as plain functions of an interaction."""

import re

from monitor.models import Interaction

_PROMISE = re.compile(r"\b(guarantee|promise|always|never fails)\b", re.IGNORECASE)


def no_promises(interaction: Interaction) -> bool:
    """Return True if the answer promises nothing that legal would have to keep."""
    return not _PROMISE.search(interaction.output)

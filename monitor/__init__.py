"""Asynchronous production monitor for LLM and RAG applications: the app's whole API."""

from .hook.api import Hook, replayable
from .hook.options import Rule

__version__ = "0.2.0"

# One hook for the app; it reads the environment at its first use, not here.
_hook = Hook()

init = _hook.init
sample = _hook.sample
watch = _hook.watch
interaction = _hook.interaction
feedback = _hook.feedback
choose = _hook.choose
flush = _hook.flush
stats = _hook.stats

__all__ = [
    "Hook",
    "Rule",
    "__version__",
    "choose",
    "feedback",
    "flush",
    "init",
    "interaction",
    "replayable",
    "sample",
    "stats",
    "watch",
]

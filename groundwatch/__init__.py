"""
The app's door: the hook, found beside this folder and not on ``sys.path``.

An app may have modules ``monitor``, ``workers`` or ``alerts`` of its own; they hide ours
from `import monitor`, and this package from nothing. The hook's side imports itself
relatively, so here it is ``groundwatch.hook``, ``groundwatch.integrations`` and so on.
"""

from pathlib import Path

__path__.append(str(Path(__file__).resolve().parent.parent / "monitor"))

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

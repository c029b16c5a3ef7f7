"""Step 1 of 7 · hook: record interactions inside the user's app, without hurting it."""

from .api import Hook

__all__ = ["Hook"]

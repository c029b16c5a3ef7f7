"""Doors for frameworks and clients: each module needs its own library, and none loads another."""

from .context import retrieved

__all__ = ["retrieved"]

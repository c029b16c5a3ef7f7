"""Escapes that only one channel needs; text is made plain by ``monitor.report.format``."""

from __future__ import annotations


def slack(text: str) -> str:
    """Return *text* escaped for Slack, where only these characters can begin a mention or link."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")

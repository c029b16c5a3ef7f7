"""Names of apps and metrics as parts of an address, whatever characters they hold."""

from __future__ import annotations

from urllib.parse import quote, unquote


def slug(name: str) -> str:
    """
    Write any name as one part of a path.

    Servers and browsers read ``%2F`` and ``..`` in paths as they like, so ``~`` stands
    for the percent sign, and a name of dots only is written out.

    Examples
    --------
    >>> slug("bots/eu 1"), slug("..")
    ('bots~2Feu~201', '~2E~2E')
    """
    quoted = quote(name, safe="").replace("~", "%7E")
    if not name.strip("."):
        quoted = quoted.replace(".", "%2E")
    return quoted.replace("%", "~")


def unslug(part: str) -> str:
    """Give the name back that :func:`slug` wrote."""
    return unquote(part.replace("~", "%"), errors="replace")


def metric_path(app: str, metric: str) -> str:
    """Address of the page about one metric of one app."""
    return f"/app/{slug(app)}/{slug(metric)}"


def app_path(app: str) -> str:
    """Address of the page about one app."""
    return f"/app/{slug(app)}"


def sample_path(sample_id: str) -> str:
    """Address of the page about one sample."""
    return f"/sample/{slug(sample_id)}"


def incident_path(incident_id: str) -> str:
    """Address of the page about one incident."""
    return f"/incidents/{slug(incident_id)}"

"""Text can be read in both colour schemes: WCAG 2.2 AA, 4.5 to 1."""

import re
from importlib.resources import files
from itertools import product

import pytest

STYLE = (files("monitor.web") / "static" / "style.css").read_text(encoding="utf-8")
INKS = ("ink", "soft", "link", "healthy", "warning", "critical", "blind", "unknown")
ON_TINTS = ("ink",)
TINTS = ("critical", "warning", "healthy", "unknown", "blind")


def schemes():
    light, dark = re.findall(r":root \{(.*?)\}", STYLE, flags=re.DOTALL)[:2]
    read = [dict(re.findall(r"--([\w-]+): (#\w{6})", block)) for block in (light, dark)]
    return {"light": read[0], "dark": read[0] | read[1]}


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_colour_has_enough_contrast(scheme):
    colours = schemes()[scheme]
    pairs = [
        *product(INKS, ("paper", "card", "hover")),
        *product(ON_TINTS, [f"tint-{name}" for name in TINTS]),
        ("paper", "ink"),
    ]
    faint = {
        pair: round(found, 2)
        for pair in pairs
        if (found := contrast(colours[pair[0]], colours[pair[1]])) < 4.5
    }
    assert faint == {}

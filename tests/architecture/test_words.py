"""What people read follows docs/style.md: no home-made phrases, one form for rates."""

import ast
import re
from itertools import chain
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STYLE = ROOT / "docs" / "style.md"
#: The phrases of the guide's table, as patterns that say how far each reaches.
AVOID = {
    "is told, was told, told apart": (
        r"\b(?:is|are|was|were|be|been) told\b|\btold (?:apart|twice|with|of|in)\b"
    ),
    "is held, held back, held against": (r"\b(?:is|are|was|were) held\b|\bheld (?:back|against)\b"),
    "looked at": r"\blooked at\b",
    "set aside": r"\bset aside\b",
    "rests on, rest on": r"\brests? on\b",
    "heard of": r"\bheard of\b",
    "left alone": r"\bleft alone\b",
    "stretch of time": r"\bstretch of time\b",
    "anew": r"\banew\b",
    "mended": r"\bmended\b",
    "is no number, is no duration": r"\bis no (?!longer\b|such\b|\w+ than\b)[a-z]",
    "plain rule": r"\bplain rule\b",
    "goes on where, go on where": r"\bgo(?:es)? on where\b",
    "amid": r"\bamid\b",
    "a course of": r"\ba course of\b",
}
HOME_MADE = re.compile("|".join(AVOID.values()), flags=re.IGNORECASE)
#: "There is no X" is plain English.
PLAIN = re.compile(r"\b(?:there|where) is no\b|\bis no (?:more|one)\b", flags=re.IGNORECASE)


def pages():
    """Return every page that people read, without the guide, which names what it forbids."""
    named = [ROOT / name for name in ("README.md", "CHANGELOG.md", "ARCHITECTURE.md")]
    listed = chain(named, (ROOT / "docs").rglob("*.md"), (ROOT / "examples").rglob("*.md"))
    return sorted({page for page in listed if page != STYLE})


def templates():
    """Return the templates of pages, messages and reports."""
    folders = [ROOT / name for name in ("monitor", "alerts", "workers")]
    files = (p for f in folders for p in f.rglob("*") if p.suffix in {".html", ".j2", ".txt"})
    return sorted(
        p for p in files if not p.match("packing.v*.txt")
    )  # for the packer, not for people


def modules():
    """Return the product's modules; migrations stay as they were released."""
    found = chain.from_iterable((ROOT / f).rglob("*.py") for f in ("monitor", "alerts", "workers"))
    return sorted(p for p in found if "migrations" not in p.parts)


def texts(module):
    """Yield line and text of every string of a module: messages, help, docstrings."""
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, node.value


def home_made(text):
    """Return the phrases of *text* that the guide forbids."""
    return [found[0] for found in HOME_MADE.finditer(PLAIN.sub("", text))]


def test_style_guide_and_test_list_the_same_words():
    rows = re.findall(r"^\| ([^|]+?) \| [^|]+ \|$", STYLE.read_text(encoding="utf-8"), re.MULTILINE)
    assert [row for row in rows if row != "avoid"] == list(AVOID)


@pytest.mark.parametrize("words", AVOID)
def test_every_phrase_of_the_style_guide_is_detected(words):
    assert all(home_made(f"It {each} here") for each in words.split(", "))


@pytest.mark.parametrize("page", pages(), ids=lambda p: str(p.relative_to(ROOT)))
def test_docs_page_uses_plain_english(page):
    assert home_made(page.read_text(encoding="utf-8")) == []


def test_templates_use_plain_english():
    found = {
        str(p.relative_to(ROOT)): home_made(p.read_text(encoding="utf-8")) for p in templates()
    }
    assert {name: words for name, words in found.items() if words} == {}


def test_messages_help_and_docstrings_use_plain_english():
    found = [
        f"{module.relative_to(ROOT)}:{line}: {words}"
        for module in modules()
        for line, text in texts(module)
        if (words := home_made(text))
    ]
    assert found == []


@pytest.mark.parametrize(
    "page",
    [page for page in pages() if page.parent.name != "reference"],  # which shows what options take
    ids=lambda p: str(p.relative_to(ROOT)),
)
def test_rates_are_written_in_one_form(page):
    prose = re.sub(
        r"```.*?```|`[^`]*`|^    .*?$",
        "",
        page.read_text(encoding="utf-8"),
        flags=re.DOTALL | re.MULTILINE,
    )
    assert re.findall(r".{0,20}\d%.{0,10}", prose) == []

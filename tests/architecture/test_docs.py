"""What the documents say is what the program does."""

import importlib.util
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from typer.main import get_command

import monitor
from monitor.cli.app import COMMANDS, app
from monitor.cli.reference import manual
from monitor.scoring.metric_config import manual as metrics_manual

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "examples/README.md"]


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def commands():
    lines = "\n".join(blocks("sh")).splitlines()
    return [line.split("#")[0].strip() for line in lines if line.startswith("groundwatch ")]


def test_code_in_the_readme_runs(redis_url, monkeypatch):
    monkeypatch.setenv("GROUNDWATCH_REDIS_URL", redis_url)
    monkeypatch.setenv("GROUNDWATCH_SAMPLE_RATE", "1")
    program = "\n".join(
        [
            "def retrieve(question): return ['Refunds take five days.']",
            "def generate(question, passages): return 'A refund takes five days.'",
            *blocks("python"),
            "answer('How long does a refund take?')",
            "reply('How long does a refund take?', ['Refunds take five days.'])",
            "assert groundwatch.flush(60), groundwatch.stats()",
            "print(groundwatch.stats()['sent'])",
        ]
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.stdout.strip(), done.stderr) == ("3", "")


def test_readme_begins_with_make_demo_and_make_test():
    assert re.findall(r"^make (\w+)", blocks("sh")[0], flags=re.MULTILINE) == ["demo", "test"]


@pytest.mark.parametrize("line", commands())
def test_command_in_the_readme_exists_with_its_options(line, tmp_path):
    records = tmp_path / "records.jsonl.gz"
    records.touch()
    words = line.replace(records.name, str(records)).split()[1:]
    command = get_command(app).get_command(None, words[0])
    context = command.make_context(words[0], words[1:])
    if words[0] == "alerts":
        assert command.get_command(context, words[1])


def lines_of_the_documentation():
    """Every command line of groundwatch in a block of a page, as it is written."""
    found = {}
    for page in [*(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]:
        text = page.read_text(encoding="utf-8").replace("\\\n", " ")
        fenced = re.findall(r"```sh\n(.*?)```", text, flags=re.DOTALL)
        indented = re.findall(r"^    (groundwatch .*)$", text, flags=re.MULTILINE)
        for line in [*"\n".join(fenced).splitlines(), *indented]:
            command = re.sub(r"\s+#.*$", "", line)
            if match := re.search(r"(?:^|\(|\s)(groundwatch (?!.*\|).*?)\)?$", command):
                found.setdefault(match[1], page.name)
    return found


def test_every_documented_command_line_is_accepted():
    lines, refused = lines_of_the_documentation(), {}
    for line, page in lines.items():
        command, words = get_command(app), shlex.split(line)[1:]
        while words and hasattr(command, "get_command") and not words[0].startswith("-"):
            name, *words = words
            command = command.get_command(None, name)
        try:
            command.make_context(name, words)
        except Exception as error:  # noqa: BLE001  # all that the parser raises
            if type(error).__name__ != "BadParameter":  # such as a file that is not there
                refused[line] = (page, repr(error))
    assert len(lines) > 50
    assert refused == {}


def test_every_command_has_help():
    group = get_command(app)
    assert all(group.get_command(None, name).get_short_help_str() for name in COMMANDS)


def test_settings_page_matches_the_program():
    page = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    assert page == manual(), "run: groundwatch config --format md > docs/settings.md"


def test_code_in_the_metrics_page_runs():
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    values = {}
    for program in re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL):
        exec(program, values)
    assert values["faithfulness"](**values["record"]).score == 1.0
    assert (len(values["batch"].evaluations), values["stream"].faithfulness) == (2, 0.5)


def test_metrics_page_matches_the_program():
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    assert page == metrics_manual(), "run: groundwatch metrics --format md > docs/metrics.md"


@pytest.mark.parametrize("page", PAGES)
def test_links_have_an_existing_target(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    targets = re.findall(r"\]\((?!https?://|#)([^)#]+)", text)
    missing = [t for t in targets if not ((ROOT / page).parent / t).exists()]
    assert missing == []


def test_every_docs_page_reads_in_five_minutes():
    """At 260 words a minute, without code; reference pages are looked up, not read."""
    reference = {"metrics.md", "settings.md"}
    for page in (ROOT / "docs").rglob("*.md"):
        prose = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        if page.name not in reference and page.parent.name != "reference":
            assert len(re.findall(r"\b[\w'’.-]+\b", prose)) <= 1300, page.name


def test_paths_in_the_architecture_exist():
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    paths = re.findall(r"`((?:monitor|workers|alerts|tests|benchmarks)/[\w/.]+)`", text)
    assert len(paths) > 15
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_changelog_begins_with_this_version():
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.search(r"^## (\d\S+)", changelog, flags=re.MULTILINE)[1]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert newest == project["version"] == monitor.__version__


def test_demo_picture_loads_nothing_external():
    picture = (ROOT / "docs" / "demo.svg").read_text(encoding="utf-8")
    assert "http" not in picture.replace("http://www.w3.org/2000/svg", "")
    assert "CRITICAL" in picture
    assert "RESOLVED" in picture


def generator():
    spec = importlib.util.spec_from_file_location("docs_reference", ROOT / "docs" / "reference.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["cli.md", "http.md"])
def test_generated_page_matches_the_program(name):
    written = (ROOT / "docs" / "reference" / name).read_text(encoding="utf-8")
    assert written == generator().PAGES[name](), "run: python docs/reference.py"

"""The page about test sets is walked through as it is written."""

import re
import shlex
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from typer.main import get_command
from typer.testing import CliRunner

from monitor.cli.app import COMMANDS, app
from monitor.store.engine import Store
from monitor.store.write import record
from monitor.testing import make_evaluation, make_interaction, make_sample
from workers.scoring_run import ScoringRules, result_of

PAGE = (Path(__file__).parents[2] / "docs" / "testsets.md").read_text(encoding="utf-8")
NOW = datetime.now(UTC)
pytestmark = pytest.mark.usefixtures("fresh_now")
SAMPLE = "019a1c2e"
RULES = ScoringRules(pass_score=0.7, bucket_s=60, dimensions=("release",))


def blocks(language, text=PAGE):
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


def production(store):
    """Two releases of the shop in production; one answer failed."""
    asked = make_interaction(app="shop", query="How long does a refund take?", release="v11")
    good = [
        (NOW - timedelta(seconds=30 + 8 * n), make_interaction(app="shop", release=release))
        for release in ("v11", "v13")
        for n in range(400)
    ]
    results = [
        result_of(make_sample(each, sampled_at=at), [make_evaluation(score=0.95)], RULES, now=NOW)
        for at, each in good
    ]
    failed = make_sample(asked, sample_id=SAMPLE, sampled_at=NOW - timedelta(hours=1))
    results.append(result_of(failed, [make_evaluation(score=0.1)], RULES, now=NOW))
    with store.write() as connection:
        record(connection, results, now=NOW, bucket_s=60)


def test_failure_to_release_guide_works_as_written(sqlite_url, tmp_path, monkeypatch):
    monkeypatch.setenv("GROUNDWATCH_DATABASE_URL", sqlite_url)
    monkeypatch.chdir(tmp_path)
    store = Store(sqlite_url)
    production(store)
    store.close()
    walk = PAGE[: PAGE.index("## A test set")]
    bot, make_cases = blocks("python", walk)
    (tmp_path / "bot.py").write_text(bot)
    lines = [line for block in blocks("sh", walk) for line in block.splitlines()]
    assert [line.split("groundwatch ")[1].split()[0] for line in lines] == [
        *("golden", "eval", "eval", "gate", "eval", "gate", "gate"),
    ]
    for line in lines:
        command, _, ends = line.partition("  # ends with ")
        settings, words = command.split("groundwatch ")
        release = dict(each.split("=") for each in settings.split())
        done = CliRunner().invoke(app, shlex.split(words), env=release)
        assert done.exit_code == int(ends or 0), (line, done.output, done.exception)
        if words.startswith("golden"):
            exec(make_cases, {})
    assert "How long does a refund take?" in (tmp_path / "gate.md").read_text()


def test_pytest_and_python_code_on_the_page_compiles(tmp_path, monkeypatch):
    bot, _, suite, program = blocks("python")
    (tmp_path / "bot.py").write_text(bot)
    (tmp_path / "golden.jsonl").write_text('{"query": "How long does a refund take?"}\n')
    monkeypatch.chdir(tmp_path)
    compile(suite, "test_bot.py", "exec")
    exec(program, values := {})
    assert values["summary"]["pass_rate"] == 1.0


def test_policy_on_the_page_is_valid(tmp_path):
    from monitor.testsets.gate import GatePolicy

    (tmp_path / "gate.toml").write_text(blocks("toml")[0])
    assert GatePolicy.read(tmp_path / "gate.toml").floors == {"faithfulness": 0.95}


def commands_of_the_action():
    [job] = yaml.safe_load(blocks("yaml")[0])["jobs"].values()
    scripts = "\n".join(step.get("run", "") for step in job["steps"])
    return re.findall(r"groundwatch ((?:eval|gate) [^|);\n]*)", scripts)


@pytest.mark.parametrize("line", commands_of_the_action())
def test_commands_of_the_action_exist_with_their_options(line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "golden.jsonl").touch()
    name, *words = shlex.split(line.replace("$GITHUB_WORKSPACE", "."))
    assert name in COMMANDS
    get_command(app).get_command(None, name).make_context(name, words)

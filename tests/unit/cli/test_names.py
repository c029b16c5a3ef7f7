"""Commands by their names: earlier ones still work, and completion imports nothing."""

import json
import shutil
import subprocess
import sys
from datetime import UTC, datetime

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from monitor.cli.app import COMMANDS, RENAMED, app
from monitor.models import Status
from monitor.store.engine import Store
from monitor.store.verdicts import save_verdicts
from monitor.testing import make_verdict


@pytest.fixture
def run(tmp_path, monkeypatch, migrated_sqlite):
    monkeypatch.setenv("GROUNDWATCH_HOME", str(tmp_path))
    shutil.copy(migrated_sqlite, tmp_path / "groundwatch.db")
    return lambda line: CliRunner().invoke(app, line.split())


@pytest.mark.parametrize(
    ("line", "now"),
    [("mark --list", "deploys"), ("poison ls", "dead-letters"), ("digest", "report --digest"),
     ("show a b", "status APP METRIC"), ("score --help", "evaluate")],
)  # fmt: skip
def test_old_command_name_works_and_names_the_new_one_once(run, line, now):
    found = run(line)
    assert found.exit_code == (2 if line == "show a b" else 0)
    assert found.stderr.count(f"is now: groundwatch {now}") == 1
    assert RENAMED.keys().isdisjoint(COMMANDS)


@pytest.mark.parametrize(
    "line",
    ["status", "report", "report --digest", "incidents list", "incidents", "alerts ls",
     "alerts silence ls", "alerts outbox ls", "alerts outbox", "dead-letters list",
     "deploys", "tokens list", "metrics", "config", "samples", "label stats"],
)  # fmt: skip
def test_every_read_command_supports_json(run, line):
    found = run(f"{line} --json")
    assert found.exit_code == (3 if line == "status" else 0), found.output
    json.loads(found.stdout)


@pytest.mark.parametrize("group", ["incidents", "alerts outbox"])
def test_group_alone_takes_the_options_of_its_list(run, group):
    kept = {"incidents": "--window 1h", "alerts outbox": "--dead"}[group]
    listed = run(f"{group} {'list' if group == 'incidents' else 'ls'} {kept} --json").stdout
    assert run(f"{group} {kept} --json").stdout == listed
    refused = run(f"{group} --json show x" if group == "incidents" else f"{group} --json ls")
    assert refused.exit_code == 2
    assert "put options after the command" in " ".join(refused.output.split())


def test_every_command_that_lists_something_has_json():
    without = [
        path
        for path, command in commands(get_command(app), "groundwatch")
        if (command.help or "").startswith("List ")
        and not any("--json" in each.opts for each in command.params)
    ]
    assert without == []


def commands(command, path):
    yield path, command
    for name, each in getattr(command, "commands", {}).items():
        yield from commands(each, f"{path} {name}")


def test_token_is_shown_once_listed_and_revoked(run):
    secret = run("tokens create ci --app shop --scope deploys --for 90d").stdout.strip()
    listed = run("tokens list --json").stdout
    assert secret not in listed
    (token,) = json.loads(listed)
    assert (token["apps"], token["scopes"], token["role"]) == (["shop"], ["deploys"], "viewer")
    assert "a token named 'ci' exists" in str(run("tokens create ci").exception)
    assert run("tokens revoke ci").exit_code == 0
    assert "no live token" in str(run("tokens revoke ci").exception)
    for wrong in ("create x --role king", "create x --scope all"):
        assert run(f"tokens {wrong}").exit_code == 2


def test_open_refuses_an_unknown_name(run):
    assert run("open").stdout == "http://127.0.0.1:8642/\n"
    assert "no app, incident or sample is named 'nope'" in str(run("open nope").exception)


def completed(home, words):
    program = (
        "import sys; sys.argv = ['groundwatch']; from monitor.cli import main\n"
        "try: main()\nexcept SystemExit: print('sqlalchemy' in sys.modules)"
    )
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False,
        env={"_GROUNDWATCH_COMPLETE": "complete_bash", "COMP_WORDS": f"groundwatch {words}",
             "COMP_CWORD": str(len(words.split())), "PATH": "", "GROUNDWATCH_HOME": str(home)},
    )  # fmt: skip


def test_shell_completes_commands_without_importing_them(tmp_path):
    done = completed(tmp_path, "de")
    assert {"demo", "deploys", "dead-letters", "False"} <= set(done.stdout.split()), done


def test_shell_completes_apps_and_metrics_from_the_store(run, tmp_path):
    store = Store(f"sqlite:///{tmp_path}/groundwatch.db")
    with store.write() as connection:
        verdicts = [
            make_verdict(Status.HEALTHY, datetime.now(UTC), app=name, metric=metric)
            for name, metric in (("shop", "relevance"), ("shop", "groundedness"), ("bot", "tone"))
        ]
        save_verdicts(connection, verdicts, {})
    store.close()
    assert "shop" in completed(tmp_path, "status sh").stdout.split()
    assert completed(tmp_path, "status shop r").stdout.split()[0] == "relevance"


def test_shell_completion_is_silent_without_a_store(tmp_path):
    done = completed(tmp_path / "nowhere", "status sh")
    assert (done.stdout.split(), done.stderr) == (["True"], "")


def test_modules_are_not_searched_for_garbage_at_the_end():
    code = """if True:
        import atexit, gc, sys
        from groundwatch.__main__ import main
        atexit.register(lambda: print(gc.get_freeze_count() > 10_000))
        sys.argv[1:] = ["--version"]
        main()
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "True"

"""What users get wrong: each is one clear line on stderr and an exit code, and breaks nothing."""

import contextlib
import gzip
import json
import os
import socket
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
import redis

from monitor.models import Status
from monitor.queue import names
from monitor.store.engine import Store
from monitor.store.ledger import Entry, Kind, book
from monitor.store.verdicts import save_verdicts
from monitor.testing import make_verdict
from support.receivers import SlackAnswer, SlackReceiver

NOBODY = "redis://127.0.0.1:1/0"


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str
    left: list[str]  #: what is in the data folder afterwards


@pytest.fixture
def groundwatch(warm_groundwatch, tmp_path):
    """Run a command in an otherwise empty environment."""
    home = tmp_path / "home"

    def run(*arguments, **environment):
        done = subprocess.run(
            [warm_groundwatch, *arguments],
            env={"PATH": "/usr/bin:/bin", "COLUMNS": "300", "GROUNDWATCH_HOME": str(home)}
            | environment,
            cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8",
            timeout=200, check=False,
        )  # fmt: skip
        left = sorted(path.name for path in home.iterdir()) if home.is_dir() else []
        assert "Traceback" not in done.stderr, done.stderr
        assert "SECRET" not in done.stdout + done.stderr
        return Result(done.returncode, done.stdout, done.stderr, left)

    return run


def only_line(result, *, code=3):
    """Give the one line on stderr."""
    (line,) = result.err.splitlines()
    assert line.startswith("groundwatch: ")
    assert (result.code, result.out) == (code, "")
    return line.removeprefix("groundwatch: ")


def usage(result):
    """Give what is said about a command that was written wrongly."""
    assert (result.code, result.out, result.left) == (2, "", [])
    return " ".join(result.err.replace("│", " ").split())


def record(identity, **fields):
    """Write one good line; the query bears its identity all the way."""
    passage = "Refunds are paid within five working days."
    return json.dumps(
        {"id": identity, "query": identity, "contexts": [passage], "output": passage} | fields
    ).encode()


@pytest.fixture
def good_file(tmp_path):
    (tmp_path / "good.jsonl").write_bytes(record("r1") + b"\n")
    return "good.jsonl"


def test_misspelt_setting_is_reported_in_one_line_by_a_new_process(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "monitor", "status"],
        env={"GROUNDWATCH_SAMPEL_RATE": "1", "GROUNDWATCH_HOME": str(tmp_path / "home")},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stdout, done.stderr) == (
        3,
        "",
        (
            "groundwatch: GROUNDWATCH_SAMPEL_RATE: no such setting;"
            " did you mean GROUNDWATCH_SAMPLE_RATE?\n"
        ),
    )


def test_each_wrong_setting_is_reported_on_its_own_line(groundwatch):
    result = groundwatch(
        "config", GROUNDWATCH_SAMPLE_RATE="lots", GROUNDWATCH_MIN_N="x", GROUNDWATCH_SCORER="jugde"
    )

    assert result.code == 3
    lines = sorted(line.removeprefix("groundwatch: Invalid ") for line in result.err.splitlines())
    assert lines == [
        "GROUNDWATCH_MIN_N 'x': expected a whole number of at least 1",
        "GROUNDWATCH_SAMPLE_RATE 'lots': expected a number from 0 to 1",
        "GROUNDWATCH_SCORER 'jugde': expected auto, local, judge, cascade or nli",
    ]


@pytest.mark.parametrize(
    ("command", "environment", "said"),
    [
        (
            "evaluate good.jsonl",
            {"GROUNDWATCH_SCORER": "jugde"},
            "Invalid GROUNDWATCH_SCORER 'jugde': expected auto,",
        ),
        ("evaluate good.jsonl", {"GROUNDWATCH_SCORER": "judge"}, "OPENAI_API_KEY: "),
        ("worker", {"GROUNDWATCH_SCORER": "judge"}, "OPENAI_API_KEY: "),
        ("up", {"GROUNDWATCH_SCORER": "judge"}, "OPENAI_API_KEY: "),
        ("evaluate good.jsonl --metrics groundednes", {}, "did you mean groundedness?"),
        ("up", {"GROUNDWATCH_METRICS": "tone"}, "there are groundedness, relevance"),
        ("up", {"GROUNDWATCH_STATUS_POLICY": "wilsn"}, "point, point_min_n, wilson"),
        ("scheduler", {"GROUNDWATCH_STATUS_POLICY": "wilsn"}, "GROUNDWATCH_STATUS_POLICY: "),
        (
            "alerts test slack",
            {"GROUNDWATCH_SLACK_WEBHOOK_URL": "hooks.slack.com/services/SECRET"},
            "Invalid GROUNDWATCH_SLACK_WEBHOOK_URL: expected a web address",
        ),
        (
            "up",
            {"GROUNDWATCH_SMTP_URL": "smtp://me:SECRET@mail.example.org:587"},
            "GROUNDWATCH_SMTP_URL needs GROUNDWATCH_EMAIL_TO",
        ),
        (
            "alerts test slack",
            {},
            "no channel is called 'slack'; set up: none; set GROUNDWATCH_SLACK_WEBHOOK_URL",
        ),
        *(
            (
                command,
                {"GROUNDWATCH_REDIS_URL": "http://me:SECRET@127.0.0.1:6379"},
                "Invalid GROUNDWATCH_REDIS_URL: expected redis://host:6379/0",
            )
            for command in ("replay good.jsonl --app a", "up", "worker", "doctor")
        ),
        (
            "replay good.jsonl --app a",
            {"GROUNDWATCH_REDIS_URL": NOBODY},
            "Redis does not answer (ConnectionError); start it or set GROUNDWATCH_REDIS_URL",
        ),
    ],
)
def test_setting_that_stops_a_command_is_named(groundwatch, good_file, command, environment, said):
    result = groundwatch(*command.split(), **environment)

    assert said in only_line(result)
    assert result.left == []


def test_up_says_what_to_do_when_the_given_redis_does_not_answer(groundwatch):
    result = groundwatch("up", GROUNDWATCH_REDIS_URL="redis://:SECRET@127.0.0.1:1/0")

    assert "or unset it to have one run for you" in only_line(result)
    assert "redis.url" not in result.left


@pytest.mark.parametrize("command", ["status", "report", "migrate", "up", "alerts ls", "worker"])
def test_unreachable_database_is_named_without_its_password(groundwatch, command):
    url = "postgresql+psycopg://me:SECRET@127.0.0.1:1/db"
    line = only_line(groundwatch(*command.split(), GROUNDWATCH_DATABASE_URL=url))

    assert "the database at postgresql+psycopg://me:***@127.0.0.1:1/db cannot be used" in line
    assert line.endswith("check GROUNDWATCH_DATABASE_URL")


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("my database", "not a database address; use sqlite:///FILE or postgresql+psycopg://"),
        ("mysql://me:SECRET@host/db", "mysql is not supported; use sqlite:///FILE or"),
    ],
)
def test_wrong_database_address_shows_the_expected_form(groundwatch, url, said):
    assert said in only_line(groundwatch("status", GROUNDWATCH_DATABASE_URL=url))


@pytest.mark.parametrize("command", ["migrate", "up", "worker", "scheduler"])
def test_data_folder_that_cannot_be_created_is_named(groundwatch, tmp_path, command):
    (tmp_path / "file").write_text("in the way")
    home = tmp_path / "file" / "home"

    line = only_line(groundwatch(command, GROUNDWATCH_HOME=str(home)))

    assert line == (
        f"{home}: Not a directory; choose another place"
        " (the data folder is GROUNDWATCH_HOME), or correct its permissions"
    )


def test_full_disk_is_reported_in_one_line_and_not_as_a_warning(groundwatch):
    groundwatch("migrate")
    line = only_line(groundwatch("report", "--format", "html", "-o", "/dev/full"))
    assert line == "output: No space left on device; make room and run it again"


def test_database_in_a_read_only_folder_is_named(groundwatch, tmp_path):
    home = tmp_path / "home"
    home.mkdir(mode=0o500)
    if os.geteuid() == 0:
        home = Path("/proc")  # where root may not write either

    line = only_line(groundwatch("migrate", GROUNDWATCH_HOME=str(home)))

    assert f"{home}/groundwatch.db cannot be used" in line


@pytest.mark.parametrize(
    "command", ["status", "status --json", "report", "alerts ls", "alerts outbox"]
)
def test_read_only_commands_create_no_store(groundwatch, command):
    result = groundwatch(*command.split())

    assert "yet; start everything with: groundwatch up" in only_line(result)
    assert result.left == []


def test_status_says_which_setting_is_missing_when_nothing_was_sampled(groundwatch, tmp_path):
    groundwatch("migrate")
    store = Store(f"sqlite:///{tmp_path}/home/groundwatch.db")
    with contextlib.closing(store), store.write() as connection:
        book(connection, [Entry("shop", 60, Kind.SEEN, "", 13)])
    found = groundwatch("status")
    assert found.code == 3
    assert "shop: 0 of 13 interactions sampled; a status needs 30 scores" in found.out
    assert "GROUNDWATCH_SAMPLE_RATE=1" in found.out


def test_status_is_unknown_when_the_store_is_empty(groundwatch):
    assert groundwatch("migrate").code == 0

    result = groundwatch("status")

    assert result.code == 3
    assert result.out.startswith("No app has sent anything yet.")
    assert "Call groundwatch.sample(...) in your app" in result.out


@pytest.mark.parametrize(
    "command", ["status --app shop", "report --app shop", "export --to csv -o x --app shop"]
)
def test_unknown_app_is_reported_and_not_shown_as_silent(groundwatch, tmp_path, command):
    groundwatch("migrate")
    with contextlib.closing(Store(f"sqlite:///{tmp_path}/home/groundwatch.db")) as store:
        verdict = make_verdict(Status.HEALTHY, datetime.now(UTC), app="bot")
        with store.write() as connection:
            save_verdicts(connection, [verdict], {})

    result = groundwatch(*command.split())

    assert result.code == 3
    assert only_line(result).endswith("unknown app 'shop'; expected one of bot")


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("report --window yesterday", "Invalid duration 'yesterday': expected 90s, 15m, 24h"),
        ("report --window 99999999999d", "longer than ten years"),
        ("report --format pdf", "Invalid value for '--format': 'pdf' is not one of 'text', 'md'"),
        ("alerts ls --window 5", "Invalid duration '5'"),
        ("replay missing.jsonl --app a", "'missing.jsonl' does not exist"),
        ("replay . --app a", "'.' is a directory"),
        ("replay good.jsonl", "Missing option '--app'"),
        ("evaluate missing.jsonl", "'missing.jsonl' does not exist"),
        ("evaluate .", "'.' is a directory"),
        ("evaluate good.jsonl -o good.jsonl", "good.jsonl is the input; choose another output"),
        ("statsu", "No such command 'statsu'"),
    ],
)
def test_usage_is_shown_when_a_command_is_mistyped(groundwatch, good_file, command, said):
    assert said in usage(groundwatch(*command.split()))


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("incidents show none", "no incident is named 'none'; see: groundwatch incidents"),
        ("backup no/such.db", "cannot write no/such.db: No such file or directory"),
    ],
)
def test_error_says_what_to_do(groundwatch, command, said):
    groundwatch("migrate")

    result = groundwatch(*command.split())

    assert said in result.err
    assert "Errno" not in result.err


@pytest.mark.parametrize("command", ["web", "otlp"])
def test_port_in_use_is_named(groundwatch, command):
    groundwatch("migrate")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        result = groundwatch(command, "--port", str(port))

    assert only_line(result).startswith(
        f"cannot listen on 127.0.0.1 port {port}: Address already in use; choose"
    )


@pytest.mark.parametrize("app", ["", "a\x1b[31m", "a\x9b31m", "a\x7f", "x" * 201])
def test_invalid_app_name_is_refused(groundwatch, good_file, redis_url, app):
    result = groundwatch("replay", good_file, "--app", app, GROUNDWATCH_REDIS_URL=redis_url)

    assert "app: should be a name of 1 to 200 characters" in usage(result)


def test_input_file_named_as_output_is_left_unchanged(groundwatch, good_file, tmp_path):
    groundwatch("evaluate", good_file, "-o", f"./{good_file}")

    assert (tmp_path / good_file).read_bytes() == record("r1") + b"\n"


@pytest.mark.parametrize("command", ["evaluate good.jsonl -o", "report -o", "export --to xlsx -o"])
def test_output_that_quotes_answers_is_readable_only_by_its_owner(
    groundwatch, good_file, tmp_path, command
):
    groundwatch("migrate")

    groundwatch(*command.split(), "out.file")

    assert (tmp_path / "out.file").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("command", ["evaluate good.jsonl -o", "report -o", "export --to xlsx -o"])
def test_unwritable_output_is_named(groundwatch, good_file, command):
    groundwatch("migrate")

    line = only_line(groundwatch(*command.split(), "no/such/folder.txt"))

    assert line.startswith("no/such/folder.txt: No such file or directory; choose another place")


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("empty.jsonl", b"", "empty; it should have one JSON object a line"),
        (
            "cut.jsonl.gz",
            gzip.compress(b"\n".join(record(f"r{i}") for i in range(999)), mtime=0)[:-9],
            (
                "damaged (Compressed file ended before the end-of-stream marker was reached);"
                " copy or compress it again"
            ),
        ),
    ],
)
def test_unusable_file_sends_and_writes_nothing(groundwatch, redis_url, tmp_path, name, data, said):
    (tmp_path / name).write_bytes(data)

    replayed = groundwatch("replay", name, "--app", "a", GROUNDWATCH_REDIS_URL=redis_url)
    scored = groundwatch("evaluate", name, "-o", "scores.jsonl")

    assert only_line(replayed) == only_line(scored) == f"{name}: {said}"
    assert not redis.Redis.from_url(redis_url).exists(names.SAMPLES)
    assert not (tmp_path / "scores.jsonl").exists()


#: Lines of a file as they come in life; None marks the good ones.
LINES = [
    (record("r1"), None),
    (b'{"id": "x", ', "not_json"),
    (b"", ""),
    (record("r2"), None),
    (b'{"id": "no output", "query": "q"}', "missing_field"),
    (b'{"id": "seven", "output": 7}', "wrong_type"),
    (b'{"id": "[/red]", "output": "x", "tags": {"[/bold]": 7}}', "wrong_type"),
    (b'[{"id": "x", "output": "y"}]', "not_an_object"),
    (b'{"id": "x", "output": "\xff\xfe"}', "not_json"),
    (b" \t", ""),
    (record("r2"), None),
    (record("big", contexts=["Refunds take five working days. " * 330_000]), None),
    (b'{"id": "x", "output": ' + b"[" * 200_000 + b"]" * 200_000 + b"}", "not_json"),
    (record("half a pair", output="It takes \ud83d days."), None),
    (record("last"), None),
]
BAD = "7 (not_json 3, missing_field 1, wrong_type 2, not_an_object 1)"


@pytest.fixture
def mixed_file(tmp_path):
    lines = [line for line, _ in LINES]
    (tmp_path / "mixed.jsonl").write_bytes(b"\n".join(lines))
    good = [json.loads(line)["query"] for line, reason in LINES if reason is None]
    return "mixed.jsonl", good


def test_every_valid_line_is_delivered_from_a_mixed_file(groundwatch, redis_url, mixed_file):
    name, good = mixed_file

    result = groundwatch("replay", name, "--app", "a", GROUNDWATCH_REDIS_URL=redis_url)

    entries = redis.Redis.from_url(redis_url).xrange(names.SAMPLES)
    bodies = [json.loads(fields[names.FIELD_BODY.encode()]) for _, fields in entries]
    assert [body["interaction"]["query"] for body in bodies] == good
    assert result.code == 1
    said = [" ".join(row.split()) for row in result.out.splitlines()]
    assert said[:2] == [f"records sent {len(good)} 1 of them cut to size", f"bad lines {BAD}"]
    assert "line 12: " in result.err


def test_records_are_sent_when_the_hook_of_the_app_is_switched_off(
    groundwatch, redis_url, good_file
):
    settings = {"GROUNDWATCH_REDIS_URL": redis_url, "GROUNDWATCH_ENABLED": "false"}

    result = groundwatch("replay", good_file, "--app", "a", **settings)

    assert result.code == 0
    assert redis.Redis.from_url(redis_url).xlen(names.SAMPLES) == 1


def test_replay_sends_nothing_when_no_worker_is_alive(groundwatch, redis_url, good_file):
    groundwatch("migrate")

    wait = ("--wait", "--worker-within", "1s")
    result = groundwatch("replay", good_file, "--app", "a", *wait, GROUNDWATCH_REDIS_URL=redis_url)

    told, refused = result.err.splitlines()
    assert result.code == 3
    assert told == "no worker is alive; waiting up to 1 s, in case it is starting"
    assert refused == (
        "groundwatch: no worker is alive; nothing was sent; start everything with: groundwatch up"
    )
    assert not redis.Redis.from_url(redis_url).exists(names.SAMPLES)


def test_first_mistakes_are_reported_with_line_numbers_when_a_file_has_many(
    groundwatch, mixed_file
):
    told = groundwatch("evaluate", mixed_file[0], "-o", "scores.jsonl").err.splitlines()

    assert [line.split(": ")[0] for line in told if "passed over" in line] == [
        f"mixed.jsonl line {number}" for number in (2, 5, 6, 7, 8)
    ]
    assert any("further bad lines are counted" in line for line in told)


def test_output_has_exactly_the_valid_lines_of_a_mixed_file(groundwatch, mixed_file, tmp_path):
    name, good = mixed_file

    result = groundwatch("evaluate", name, "-o", "scores.jsonl")

    written = [json.loads(line) for line in (tmp_path / "scores.jsonl").read_text().splitlines()]
    assert [item["id"] for item in written] == good
    assert {len(item["evaluations"]) for item in written} == {2}
    assert f"bad lines {BAD}" in result.err
    assert result.code == 1


def test_unreachable_channel_is_named_without_its_secret(groundwatch):
    url = "http://127.0.0.1:1/services/T/B/SECRET"

    result = groundwatch("alerts", "test", "slack", GROUNDWATCH_SLACK_WEBHOOK_URL=url)

    assert (result.code, result.out) == (1, "")
    assert result.err == (
        "slack: not delivered: Slack: ConnectError (http:ConnectError);"
        " check GROUNDWATCH_SLACK_WEBHOOK_URL and the network\n"
    )


def test_refusal_of_a_deleted_webhook_is_quoted(groundwatch):
    with SlackReceiver(path="/services/T/B/SECRET") as slack:
        slack.script(SlackAnswer.NO_SERVICE)
        result = groundwatch("alerts", "test", "slack", GROUNDWATCH_SLACK_WEBHOOK_URL=slack.url)

    assert (result.code, result.out) == (1, "")
    assert result.err == (
        "slack: not delivered: Slack refused: no_service;"
        " check GROUNDWATCH_SLACK_WEBHOOK_URL (no_service)\n"
    )


def test_listed_settings_contain_no_secret_and_no_markup(groundwatch):
    result = groundwatch(
        "config",
        GROUNDWATCH_APP="[/red]\x1b[31m",
        GROUNDWATCH_REDIS_URL="redis://:SECRET@host:1/0",
        OPENAI_API_KEY="sk-SECRET",
    )

    assert result.code == 0
    assert "[/red][31m" in result.out
    assert "redis://:***@host:1/0" in result.out


@pytest.mark.parametrize("command", ["web", "up"])
def test_missing_package_names_what_to_install(tmp_path, command):
    code = (
        "import sys; sys.modules['jinja2'] = None; from monitor.cli import main;"
        f" sys.argv = ['groundwatch', {command!r}]; main()"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "GROUNDWATCH_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert ended.returncode == 3
    [line] = ended.stderr.splitlines()
    assert "pip install 'groundwatch[server]'" in line
    assert "jinja2" in line

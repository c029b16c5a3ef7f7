"""What docs/threat-model.md claims of the code at large; what it says of its tests is true."""

import re
from pathlib import Path

from kombu.serialization import registry

from monitor.queue import names
from monitor.settings import Settings
from workers import celery
from workers.celery import make_app

ROOT = Path(__file__).parents[2]
MODEL = (ROOT / "docs" / "threat-model.md").read_text(encoding="utf-8")
#: What turns bytes of others into objects or code.
DANGEROUS = re.compile(
    r"\b(?:pickle|marshal|shelve|dill)\.|yaml\.(?:load|unsafe_load)\(|(?<![\w.])(?:eval|exec)\("
    r"|shell=True|os\.system\("
)


def test_workers_accept_only_json_and_no_remote_control():
    conf = make_app(Settings()).conf
    assert list(conf.accept_content) == ["json"]
    assert (conf.task_serializer, conf.worker_enable_remote_control) == ("json", False)
    assert registry.name_to_type["json"] == "application/json"


def test_exactly_one_celery_task_is_registered():
    app = make_app(Settings())
    app.finalize()
    ours = {name for name in app.tasks if not name.startswith("celery.")}
    assert ours == {names.TASK_SCORE} == {celery.score.name}


def test_no_code_deserialises_or_executes_foreign_data():
    found = {
        (path.relative_to(ROOT).as_posix(), match[0])
        for package in ("monitor", "workers", "alerts")
        for path in (ROOT / package).rglob("*.py")
        for match in DANGEROUS.finditer(path.read_text(encoding="utf-8"))
    }
    assert found == set()


def test_every_test_named_by_the_threat_model_exists():
    named = re.findall(r"`((?:tests/)[\w/.]+)`", MODEL)
    assert len(named) > 20
    assert [name for name in named if not (ROOT / name).exists()] == []

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


def test_workers_take_json_alone_and_no_orders():
    conf = make_app(Settings()).conf
    assert list(conf.accept_content) == ["json"]
    assert (conf.task_serializer, conf.worker_enable_remote_control) == ("json", False)
    assert registry.name_to_type["json"] == "application/json"


def test_one_task_of_ours_is_registered():
    app = make_app(Settings())
    app.finalize()
    ours = {name for name in app.tasks if not name.startswith("celery.")}
    assert ours == {names.TASK_SCORE} == {celery.score.name}


def test_nothing_turns_data_of_others_into_objects_or_code():
    found = {
        (path.relative_to(ROOT).as_posix(), match[0])
        for package in ("monitor", "workers", "alerts")
        for path in (ROOT / package).rglob("*.py")
        for match in DANGEROUS.finditer(path.read_text(encoding="utf-8"))
    }
    assert found == set()


def test_every_test_that_the_threat_model_names_is_there():
    named = re.findall(r"`((?:tests/)[\w/.]+)`", MODEL)
    assert len(named) > 20
    assert [name for name in named if not (ROOT / name).exists()] == []

"""The hook's options agree with the settings, and a wrong one is said clearly."""

from pathlib import Path

import pytest

from monitor.hook.options import Options, check, resolve
from monitor.settings import Settings, setting_field

SHARED = [name for name in Options.__dataclass_fields__ if name not in {"mask", "home", "sampling"}]


@pytest.mark.parametrize("name", SHARED)
def test_default_is_the_settings(name):
    assert getattr(Options(), name) == setting_field(name).default


def test_home_is_the_settings():
    assert Path(Options().home).expanduser() == Settings().home


@pytest.mark.parametrize(
    ("name", "raw"),
    [("APP", "bot"), ("SAMPLE_RATE", "0.25"), ("ENABLED", "off"), ("ENABLED", "TRUE"),
     ("QUEUE_LIMIT", "7"), ("RELEASE", "v1"), ("REDIS_URL", "redis://h:1/0"), ("HOME", "/tmp/x")],
)  # fmt: skip
def test_variable_is_read_as_the_settings_read_it(name, raw):
    environ = {f"GROUNDWATCH_{name}": raw}
    ours, theirs = resolve({}, environ), Settings.from_env(environ)
    assert str(getattr(ours, name.lower())) == str(theirs.value_of(name.lower()))


def test_value_comes_from_a_file_when_the_variable_says_so(tmp_path):
    (tmp_path / "url").write_text("redis://secret@h/0\n")
    environ = {"GROUNDWATCH_REDIS_URL_FILE": str(tmp_path / "url")}
    assert resolve({}, environ).redis_url == "redis://secret@h/0"


def test_argument_wins_over_variable():
    assert resolve({"sample_rate": 0}, {"GROUNDWATCH_SAMPLE_RATE": "0.5"}).sample_rate == 0


@pytest.mark.parametrize(
    ("variable", "raw"),
    [("SAMPLE_RATE", "2"), ("SAMPLE_RATE", "nan"), ("SAMPLE_RATE", "5 %"), ("ENABLED", "maybe"),
     ("BUFFER_SAMPLES", "0"), ("QUEUE_LIMIT", "many"), ("REDIS_URL", "http://u:hunter2@h")],
)  # fmt: skip
def test_message_names_the_variable_when_it_is_wrong(variable, raw):
    with pytest.raises(ValueError, match=f"^GROUNDWATCH_{variable}: should be ") as caught:
        resolve({}, {f"GROUNDWATCH_{variable}": raw})
    assert "hunter2" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "wrong",
    [{"sample_rate": 1.1}, {"sample_rate": True}, {"sample_rate": "0.5"}, {"app": ""},
     {"app": "x" * 201}, {"app": "a\n"}, {"mask": "no"}, {"enabled": 1},
     {"queue_limit": 1.5}, {"release": 3}],
)  # fmt: skip
def test_message_names_the_argument_when_it_is_wrong(wrong):
    with pytest.raises(ValueError, match=f"^{next(iter(wrong))}: should be "):
        check(wrong)


def test_message_proposes_a_name_when_the_argument_is_unknown():
    with pytest.raises(ValueError, match="did you mean sample_rate"):
        check({"sampel_rate": 0.1})


def test_repr_hides_the_redis_address():
    assert "hunter2" not in repr(Options(redis_url="redis://:hunter2@h/0"))

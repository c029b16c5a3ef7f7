"""The hook's options agree with the settings, and a wrong one is said clearly."""

from pathlib import Path

import pytest

from monitor.hook.options import Options, check, resolve
from monitor.settings import Settings, setting_field

SHARED = [name for name in Options.__dataclass_fields__ if name not in {"mask", "home", "sampling"}]


@pytest.mark.parametrize("name", SHARED)
def test_option_default_equals_the_settings_default(name):
    assert getattr(Options(), name) == setting_field(name).default


def test_home_option_equals_the_settings_home():
    assert Path(Options().home).expanduser() == Settings().home


@pytest.mark.parametrize(
    ("name", "raw"),
    [("APP", "bot"), ("SAMPLE_RATE", "0.25"), ("ENABLED", "off"), ("ENABLED", "TRUE"),
     ("QUEUE_LIMIT", "7"), ("RELEASE", "v1"), ("REDIS_URL", "redis://h:1/0"), ("HOME", "/tmp/x")],
)  # fmt: skip
def test_hook_variable_is_parsed_like_the_setting(name, raw):
    environ = {f"GROUNDWATCH_{name}": raw}
    ours, theirs = resolve({}, environ), Settings.from_env(environ)
    assert str(getattr(ours, name.lower())) == str(theirs.value_of(name.lower()))


def test_hook_option_can_be_read_from_a_file(tmp_path):
    (tmp_path / "url").write_text("redis://secret@h/0\n")
    environ = {"GROUNDWATCH_REDIS_URL_FILE": str(tmp_path / "url")}
    assert resolve({}, environ).redis_url == "redis://secret@h/0"


FILE = """
app = "from-file"
sample_rate = 0.25
sample_rules = '[{"sample_rate": 1.0, "user_id": "u"}]'
keep_nothing_of_this = 3
[hook_limits]
queue_limit = 7
[retention]
keep_texts_days = 14
"""


@pytest.mark.parametrize("named", [True, False])
def test_settings_file_is_read_and_variables_win(tmp_path, monkeypatch, named):
    file = tmp_path / ("other.toml" if named else "groundwatch.toml")
    file.write_text(FILE)
    monkeypatch.chdir(tmp_path)
    if named:
        monkeypatch.setenv("GROUNDWATCH_CONFIG", str(file))
    monkeypatch.setenv("GROUNDWATCH_APP", "from-variable")
    found = resolve({"sample_rate": 0.5})
    assert (found.app, found.sample_rate, found.queue_limit) == ("from-variable", 0.5, 7)
    assert [rule.user_id for rule in found.sampling.rules] == ["u"]
    monkeypatch.delenv("GROUNDWATCH_APP")
    assert (resolve({}).app, resolve({}).sample_rate) == ("from-file", 0.25)


def test_settings_file_reads_as_the_settings_do(tmp_path):
    file = tmp_path / "settings.toml"
    file.write_text(FILE.replace("keep_nothing_of_this = 3", 'enabled = "off"\nhome = "~/here"'))
    environ = {"GROUNDWATCH_CONFIG": str(file)}
    ours, theirs = resolve({}, environ), Settings.from_env(environ)
    for name in SHARED:
        assert getattr(ours, name) == theirs.value_of(name)
    assert Path(ours.home).expanduser() == theirs.home


@pytest.mark.parametrize(
    ("text", "says"),
    [("sample_rate = 2", "settings.toml: sample_rate: should be a number from 0 to 1"),
     ("sample_rate = ", "settings.toml: cannot read the settings: "),
     ("sample_rate = " + "[" * 5_000, "settings.toml: cannot read the settings: "),
     ("sample_rate = true", "settings.toml: sample_rate: should be "),
     (None, "settings.toml: cannot read the settings: ")],
)  # fmt: skip
def test_invalid_settings_file_is_named(tmp_path, text, says):
    file = tmp_path / "settings.toml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ValueError, match=says):
        resolve({}, {"GROUNDWATCH_CONFIG": str(file)})


def test_argument_wins_over_variable():
    assert resolve({"sample_rate": 0}, {"GROUNDWATCH_SAMPLE_RATE": "0.5"}).sample_rate == 0


@pytest.mark.parametrize(
    ("variable", "raw"),
    [("SAMPLE_RATE", "2"), ("SAMPLE_RATE", "nan"), ("SAMPLE_RATE", "5 %"), ("ENABLED", "maybe"),
     ("BUFFER_SAMPLES", "0"), ("QUEUE_LIMIT", "many"), ("REDIS_URL", "http://u:hunter2@h")],
)  # fmt: skip
def test_message_names_the_invalid_variable(variable, raw):
    with pytest.raises(ValueError, match=f"^GROUNDWATCH_{variable}: should be ") as caught:
        resolve({}, {f"GROUNDWATCH_{variable}": raw})
    assert "hunter2" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "wrong",
    [{"sample_rate": 1.1}, {"sample_rate": True}, {"sample_rate": "0.5"}, {"app": ""},
     {"app": "x" * 201}, {"app": "a\n"}, {"mask": "no"}, {"enabled": 1},
     {"queue_limit": 1.5}, {"queue_limit": True}, {"queue_limit": 0}, {"release": 3}],
)  # fmt: skip
def test_message_names_the_invalid_argument(wrong):
    with pytest.raises(ValueError, match=f"^{next(iter(wrong))}: should be "):
        check(wrong)


def test_message_suggests_a_name_for_an_unknown_argument():
    with pytest.raises(ValueError, match="did you mean sample_rate"):
        check({"sampel_rate": 0.1})


def test_repr_hides_the_redis_address():
    assert "hunter2" not in repr(Options(redis_url="redis://:hunter2@h/0"))

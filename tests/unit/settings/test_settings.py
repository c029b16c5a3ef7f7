"""Settings from the environment: read, checked all at once, and shown without secrets."""

from pathlib import Path

import pytest

from monitor.errors import SettingsError
from monitor.settings import (
    DEFAULT_REDIS_URL,
    TABLE_OF,
    Settings,
    masked_url,
    redis_url_file,
    resolve_redis_url,
    setting_field,
    variable,
)

SECRETS = {
    "OPENAI_API_KEY": "sk-TOPSECRET",
    "GROUNDWATCH_SLACK_WEBHOOK_URL": "https://hooks.slack.com/services/T/B/TOPSECRET",
    "GROUNDWATCH_SMTP_URL": "smtp://bot:TOPSECRET@mail.example.org:587",
    "GROUNDWATCH_EMAIL_TO": "oncall@example.org",
    "GROUNDWATCH_REDIS_URL": "rediss://bot:TOP@SECRET@redis.example.org:6379/0",
    "GROUNDWATCH_DATABASE_URL": "postgresql+psycopg://bot:TOPSECRET@db.example.org/gw",
}


def mistakes(**environ):
    with pytest.raises(SettingsError) as refused:
        Settings.from_env(environ)
    return str(refused.value).splitlines()


def test_every_setting_has_a_default_and_a_description():
    Settings.from_env({})

    assert [name for name in TABLE_OF if not setting_field(name).description] == []


def test_each_mistake_is_reported_on_its_own_line():
    lines = mistakes(
        GROUNDWATCH_SAMPLE_RATE="2",
        GROUNDWATCH_MIN_N="few",
        GROUNDWATCH_SCORER="oracle",
        GROUNDWATCH_NONSENSE="1",
        GROUNDWATCH_REDIS_URL="localhost:6379",
        GROUNDWATCH_SLACK_WEBHOOK_URL_FILE="/does/not/exist",
    )

    assert sorted(line.split(":")[0] for line in lines) == [
        "GROUNDWATCH_NONSENSE",
        "GROUNDWATCH_SLACK_WEBHOOK_URL_FILE",
        "Invalid GROUNDWATCH_MIN_N 'few'",
        "Invalid GROUNDWATCH_REDIS_URL",
        "Invalid GROUNDWATCH_SAMPLE_RATE '2'",
        "Invalid GROUNDWATCH_SCORER 'oracle'",
    ]


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("SAMPLE_RATE", "lots", "a number from 0 to 1"),
        ("MIN_N", "0", "a whole number of at least 1"),
        ("EVALUATE_EVERY_S", "inf", "a number above 0"),
        ("BUDGET_USD_PER_DAY", "-1", "a number above 0 and of at most 1,000,000,000"),
        ("WINDOWS_S", "hour", "a whole number"),
        ("WEB_REQUIRE_AUTHENTICATION", "perhaps", "true or false"),
        ("DIGEST", "hourly", "off, daily or weekly"),
    ],
)
def test_message_names_the_value_and_what_was_expected(name, value, expected):
    line = f"Invalid GROUNDWATCH_{name} '{value}': expected {expected}"
    assert mistakes(**{f"GROUNDWATCH_{name}": value}) == [line]


def test_message_names_the_part_of_a_list_that_is_wrong():
    assert mistakes(GROUNDWATCH_OBJECTIVES='[{"app": "x"}]') == [
        "Invalid GROUNDWATCH_OBJECTIVES: 0.detect: missing"
    ]
    wrong = '[{"detect": "15 points in 2h", "false_alarms_per_month": -1}]'
    assert mistakes(GROUNDWATCH_OBJECTIVES=wrong) == [
        "Invalid GROUNDWATCH_OBJECTIVES: 0.false_alarms_per_month: expected a value greater than 0"
    ]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("GROUNDWATCH_SAMPEL_RATE", "GROUNDWATCH_SAMPLE_RATE"),
        ("GROUNDWATCH_SLACK_WEBHOOK", "GROUNDWATCH_SLACK_WEBHOOK_URL"),
        ("GROUNDWATCH_SMTP_URI_FILE", "GROUNDWATCH_SMTP_URL_FILE"),
        ("GROUNDWATCH_OPENAI_API_KEY", "OPENAI_API_KEY"),
    ],
)
def test_misspelt_setting_suggests_the_closest_name(written, meant):
    assert mistakes(**{written: "1"}) == [f"{written}: no such setting; did you mean {meant}?"]


def test_list_of_settings_is_named_when_no_name_is_close():
    (line,) = mistakes(GROUNDWATCH_XYZZY="1")

    assert line.endswith("no such setting; `groundwatch config` lists them all")


def test_every_inconsistency_is_reported_on_its_own_line():
    lines = mistakes(
        GROUNDWATCH_CRITICAL_RATE="0.9",
        GROUNDWATCH_SMTP_URL="smtp://localhost:25",
        GROUNDWATCH_BUCKET_S="600",
    )

    assert lines == [
        "GROUNDWATCH_CRITICAL_RATE must not be above GROUNDWATCH_WARNING_RATE",
        "GROUNDWATCH_SMTP_URL needs GROUNDWATCH_EMAIL_TO: who shall get the mail?",
        (
            "a window of 300 s is not a multiple of GROUNDWATCH_BUCKET_S, 600 s;"
            " correct GROUNDWATCH_WINDOWS_S or GROUNDWATCH_STATUS_WINDOW_S"
        ),
    ]


def test_setting_can_be_read_from_a_named_file(tmp_path):
    (tmp_path / "key").write_text("sk-from-file\n")

    key = Settings.from_env({"OPENAI_API_KEY_FILE": str(tmp_path / "key")}).openai_api_key

    assert key is not None
    assert key.get_secret_value() == "sk-from-file"


@pytest.mark.parametrize("turned", [False, True])
def test_variable_wins_over_its_file_variant(tmp_path, turned):
    (tmp_path / "app").write_text("from-file")
    environ = {"GROUNDWATCH_APP": "from-env", "GROUNDWATCH_APP_FILE": str(tmp_path / "app")}

    items = reversed(environ.items()) if turned else environ.items()

    assert Settings.from_env(dict(items)).app == "from-env"


def test_file_is_named_when_it_cannot_be_read(tmp_path):
    (tmp_path / "key").write_bytes(b"\xff\xfe\x00")

    found = mistakes(
        GROUNDWATCH_APP_FILE=str(tmp_path / "none"),
        GROUNDWATCH_RELEASE_FILE=str(tmp_path),
        OPENAI_API_KEY_FILE=str(tmp_path / "key"),
    )

    assert found == [
        f"GROUNDWATCH_APP_FILE: cannot read {tmp_path / 'none'}: No such file or directory",
        f"GROUNDWATCH_RELEASE_FILE: cannot read {tmp_path}: Is a directory",
        f"OPENAI_API_KEY_FILE: cannot read {tmp_path / 'key'}: it is not UTF-8 text",
    ]


def test_default_stays_when_a_variable_is_empty():
    assert Settings.from_env({"GROUNDWATCH_MIN_N": "", "OPENAI_API_KEY_FILE": ""}).min_n == 30


def test_variables_of_other_programs_are_ignored():
    assert Settings.from_env({"OPENAI_ORG_ID": "x", "PATH": "/bin", "HOME_FILE": "/no"})


@pytest.mark.parametrize(
    "shown", [repr, str, Settings.model_dump_json, lambda s: str(s.model_dump(mode="json"))]
)
def test_displayed_settings_contain_no_secret(shown):
    text = shown(Settings.from_env(SECRETS))

    assert "SECRET" not in text
    assert "redis.example.org" in text


@pytest.mark.parametrize("name", [name for name in SECRETS if "EMAIL" not in name])
def test_wrong_value_is_reported_without_its_secret(name):
    wrong = {name: "gopher://TOPSECRET", "GROUNDWATCH_NONSENSE": "1"}

    assert "SECRET" not in "\n".join(mistakes(**wrong))


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://:pw@h:1/0", "redis://:***@h:1/0"),
        ("redis://u:p@ss/w:rd@h:1/0", "redis://u:***@h:1/0"),
        ("redis://h:1/0", "redis://h:1/0"),
        ("postgresql://h/db?user=u&password=pw&x=1", "postgresql://h/db?user=u&password=***&x=1"),
        ("sqlite:////data/a@b.db", "sqlite:////data/a@b.db"),
        ("plain text", "plain text"),
    ],
)
def test_only_the_password_is_masked_when_an_address_is_shown(url, shown):
    assert masked_url(url) == shown


def test_openai_settings_use_the_vendors_variable_names():
    environ = {"OPENAI_API_KEY": "sk-1", "OPENAI_BASE_URL": "http://localhost:1/v1"}

    assert Settings.from_env(environ).openai_base_url == "http://localhost:1/v1"
    assert variable("openai_api_key") == "OPENAI_API_KEY"
    assert variable("min_n") == "GROUNDWATCH_MIN_N"


def test_lists_are_read_when_separated_by_commas():
    settings = Settings.from_env(
        {"GROUNDWATCH_METRICS": " a, b ,,", "GROUNDWATCH_WINDOWS_S": "60,120"}
    )

    assert settings.metrics == ("a", "b")
    assert settings.windows.windows_s == (60, 120)


def test_home_is_absolute_when_it_is_given_with_a_tilde():
    home = Settings.from_env({"GROUNDWATCH_HOME": "~/data"}).home

    assert home == Path.home() / "data"


@pytest.mark.parametrize(
    ("name", "value", "hint"),
    [
        ("GROUNDWATCH_REDIS_URL", "http://localhost:6379", "redis://host:6379/0"),
        ("GROUNDWATCH_SLACK_WEBHOOK_URL", "hooks.slack.com/x", "https://hooks.slack.com"),
        ("GROUNDWATCH_SMTP_URL", "mail.example.org:587", "smtp://user:password@host:587"),
    ],
)
def test_wrong_address_shows_the_expected_form(name, value, hint):
    (line,) = mistakes(**{name: value})

    assert line.startswith(f"Invalid {name}: expected ")
    assert hint in line


def test_redis_address_comes_from_the_setting(tmp_path):
    redis_url_file(tmp_path).write_text("redis://127.0.0.1:7777/0\n")

    assert resolve_redis_url("redis://given:1/0", tmp_path) == "redis://given:1/0"


def test_redis_address_defaults_to_the_one_up_wrote(tmp_path):
    redis_url_file(tmp_path).write_text("redis://127.0.0.1:7777/0\n")

    assert resolve_redis_url(None, tmp_path) == "redis://127.0.0.1:7777/0"


@pytest.mark.parametrize("left", [None, "", "\n"])
def test_redis_address_defaults_to_localhost(tmp_path, left):
    if left is not None:
        redis_url_file(tmp_path).write_text(left)

    assert resolve_redis_url(None, tmp_path) == DEFAULT_REDIS_URL


def test_store_is_in_the_home_folder_when_no_database_is_given(tmp_path):
    settings = Settings.from_env({"GROUNDWATCH_HOME": str(tmp_path)})

    assert settings.sql_url == f"sqlite:///{tmp_path / 'groundwatch.db'}"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("GROUNDWATCH_SMTP_URL", "smtp://user:hunter2#x@host:25"),
        ("GROUNDWATCH_SMTP_URL", "smtp://host:99999"),
        ("GROUNDWATCH_SLACK_WEBHOOK_URL", "https://host:hunter2/x"),
        ("GROUNDWATCH_EMAIL_TO", "no-at-sign"),
        ("GROUNDWATCH_EMAIL_TO", "ann@example.org\nBcc: evil@example.org"),
    ],
)
def test_wrong_address_is_refused_without_its_secret(name, value):
    with pytest.raises(SettingsError) as caught:
        Settings.from_env({name: value})
    assert str(caught.value).removeprefix("Invalid ").startswith(f"{name}: ")
    assert "hunter2" not in str(caught.value)


def from_toml(tmp_path, text, **environ):
    file = tmp_path / "groundwatch.toml"
    file.write_text(text)
    return Settings.from_env({"GROUNDWATCH_CONFIG": str(file), **environ})


def test_file_sets_top_level_and_table_settings(tmp_path):
    settings = from_toml(tmp_path, 'app = "bot"\nmin_n = 5\n[retention]\nkeep_texts_days = 3\n')
    assert (settings.app, settings.min_n, settings.retention.keep_texts_days) == ("bot", 5, 3)
    assert settings.retention.keep_audit_days == 400


def test_variable_wins_over_the_file_inside_a_table_too(tmp_path):
    text = "[retention]\nkeep_texts_days = 3\nkeep_audit_days = 10\n"
    settings = from_toml(tmp_path, text, GROUNDWATCH_KEEP_TEXTS_DAYS="7")
    assert settings.retention.keep_texts_days == 7
    assert settings.retention.keep_audit_days == 10


def test_file_in_the_current_directory_is_read(tmp_path, monkeypatch):
    (tmp_path / "groundwatch.toml").write_text('app = "here"\n')
    monkeypatch.chdir(tmp_path)
    assert Settings.from_env().app == "here"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sampel_rate = 0.1", "sampel_rate: no such setting; did you mean sample_rate?"),
        ("[retention]\nkeep_text_days = 1", "did you mean keep_texts_days?"),
        ('openai_api_key = "sk-x"', "openai_api_key is a secret; set OPENAI_API_KEY"),
        ("min_n = 0", "Invalid groundwatch.toml: min_n '0': expected a whole number of at least 1"),
        ("app = ", "cannot read the settings"),
        ("app = " + "9" * 5_000, "cannot read the settings"),
        ("app = " + "[" * 5_000, "cannot read the settings"),
    ],
)
def test_mistake_in_the_settings_file_is_named(tmp_path, text, said):
    with pytest.raises(SettingsError, match=r"groundwatch\.toml") as refused:
        from_toml(tmp_path, text)
    assert said in str(refused.value)
    assert "sk-x" not in str(refused.value)


def test_table_setting_may_be_given_as_a_keyword():
    assert Settings(keep_texts_days=2, retention={"keep_audit_days": 9}).retention.model_dump(
        include={"keep_texts_days", "keep_audit_days"}
    ) == {"keep_texts_days": 2, "keep_audit_days": 9}


def test_setting_counts_as_changed_only_if_it_differs_from_the_default():
    settings = Settings(min_n=50, warning_rate=0.85, keep_texts_days=2)
    assert settings.scorer == "local"  # which `auto` stands for here
    changed = [name for name in TABLE_OF if settings.is_changed(name)]
    assert changed == ["min_n", "keep_texts_days"]


def test_there_are_at_most_sixty_settings_and_tables():
    assert len(Settings.model_fields) <= 60

"""docker-compose.yml says what it means: hardened, bounded, in order, and in settings we know."""

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml
from sqlalchemy.engine import make_url
from typer.main import get_command

from monitor.cli.app import app
from monitor.settings import PREFIX, TABLE_OF, Settings, variable
from workers import supervise

ROOT = Path(__file__).parents[2]
FILE = ROOT / "docker-compose.yml"
TEXT = FILE.read_text(encoding="utf-8")
COMPOSE = yaml.safe_load(TEXT)
SERVICES = COMPOSE["services"]
OURS = {"migrate", "worker", "scheduler", "web"}
#: May be there only once: its port is published.
ONE = {"migrate", "web"}
ONE_SHOT = {"migrate"}
ASKED_OF_THE_USER = {"POSTGRES_PASSWORD": "p@ss/w:rd"}
#: ${NAME}, ${NAME:?message}, ${NAME:-default}, as Compose fills them in.
VARIABLE = re.compile(r"\$\{(\w+)(?::(?:\?|-)([^}]*))?\}")

every_service = pytest.mark.parametrize("name", sorted(SERVICES))
every_service_of_ours = pytest.mark.parametrize("name", sorted(OURS))


def filled_in(value: str) -> str:
    return VARIABLE.sub(lambda match: ASKED_OF_THE_USER[match[1]], value)


def environment(name: str) -> dict[str, str]:
    return {key: filled_in(value) for key, value in SERVICES[name]["environment"].items()}


def parse_command(arguments: list[str]) -> None:
    """Parse arguments as `groundwatch` would, without running anything."""
    name, *rest = arguments
    get_command(app).get_command(None, name).make_context(name, rest)


def pairs(flags: list[str]) -> dict[str, str]:
    return dict(zip(flags[::2], flags[1::2], strict=True))


def mebibytes(size: str) -> int:
    number, unit = re.fullmatch(r"(\d+)([mg])b?", size).groups()
    return int(number) * {"m": 1, "g": 1024}[unit]


def seconds(text: str) -> int:
    return int(re.fullmatch(r"(\d+)s", text)[1])


@every_service
def test_services_are_read_only_and_unprivileged(name):
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert not {"privileged", "cap_add", "devices", "pid", "ipc", "network_mode"} & set(service)


@every_service
def test_user_is_not_root(name):
    assert str(SERVICES[name]["user"]).split(":")[0] not in {"", "0", "root"}


@every_service
def test_image_is_pinned_to_a_patch_version(name):
    assert re.fullmatch(r"[a-z]+:\d+\.\d+(\.\d+)?(-[a-z0-9.]+)?", SERVICES[name]["image"])


@every_service_of_ours
def test_image_tag_is_the_distribution_version(name):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert SERVICES[name]["image"] == f"{project['name']}:{project['version']}"


@every_service
def test_memory_processes_and_logs_are_bounded(name):
    service = SERVICES[name]
    assert mebibytes(service["mem_limit"]) > 0
    assert service["pids_limit"] > 0
    assert {"max-size", "max-file"} <= set(service["logging"]["options"])


@every_service
def test_long_running_services_have_a_health_check(name):
    assert ("healthcheck" in SERVICES[name]) == (name not in ONE_SHOT)


@every_service
def test_long_running_services_restart(name):
    assert SERVICES[name]["restart"] == ("no" if name in ONE_SHOT else "unless-stopped")


@every_service
def test_ports_are_published_on_loopback_only(name):
    ports = SERVICES[name].get("ports", [])
    assert all(str(port).startswith("127.0.0.1:") for port in ports)


@every_service
def test_services_wait_for_conditions_that_can_be_met(name):
    for other, wanted in SERVICES[name].get("depends_on", {}).items():
        condition = wanted["condition"]
        assert condition == (
            "service_completed_successfully" if other in ONE_SHOT else "service_healthy"
        )


@every_service
def test_service_shares_a_network_with_its_dependencies(name):
    mine = set(SERVICES[name]["networks"])
    assert mine <= set(COMPOSE["networks"])
    for other in set(SERVICES[name].get("depends_on", {})) - ONE_SHOT:
        assert mine & set(SERVICES[other]["networks"])


@every_service
def test_volumes_are_named_and_declared(name):
    for volume in SERVICES[name].get("volumes", []):
        assert volume.split(":")[0] in COMPOSE["volumes"]


def test_tables_are_migrated_before_anything_uses_them():
    assert "postgres" in SERVICES["migrate"]["depends_on"]
    assert all("migrate" in SERVICES[name]["depends_on"] for name in OURS - ONE_SHOT)


@every_service_of_ours
def test_every_setting_is_known_and_valid(name):
    ours = {key: value for key, value in environment(name).items() if key.startswith(PREFIX)}
    settings = Settings.from_env(ours)
    assert settings.redis_url == "redis://redis:6379/0"
    url = make_url(settings.database_url)
    assert (url.drivername, url.host, url.port) == ("postgresql+psycopg", "postgres", 5432)


@every_service_of_ours
def test_database_url_names_the_database_postgresql_creates(name):
    server, url = environment("postgres"), make_url(environment(name)["GROUNDWATCH_DATABASE_URL"])
    assert (url.username, url.database) == (server["POSTGRES_USER"], server["POSTGRES_DB"])
    assert environment(name)["PGPASSWORD"] == server["POSTGRES_PASSWORD"]


def test_compose_file_contains_no_secret():
    secrets = re.compile(r"PASSWORD|SECRET|TOKEN|_KEY$|WEBHOOK|SMTP_URL")
    for service in SERVICES.values():
        for key, value in service.get("environment", {}).items():
            if secrets.search(key):
                assert VARIABLE.fullmatch(value), key
    assert not re.search(r"://[^/\s:]*:[^/\s@]+@", TEXT)


def test_missing_password_is_reported_in_one_clear_line():
    messages = [match[2] for match in VARIABLE.finditer(TEXT) if match[1] == "POSTGRES_PASSWORD"]
    assert len(messages) == 1
    assert "POSTGRES_PASSWORD=" in messages[0]
    assert ".env" in messages[0]


def test_compose_file_asks_only_for_known_settings():
    # .env reaches our containers whole, and an unknown GROUNDWATCH_ variable stops them.
    known = {variable(field) for field in TABLE_OF}
    asked = {match[1] for match in VARIABLE.finditer(TEXT)}
    assert asked == set(ASKED_OF_THE_USER)
    assert not {name for name in asked if name.startswith(PREFIX)} - known


@every_service_of_ours
def test_command_exists(name):
    parse_command(SERVICES[name]["command"])


@pytest.mark.parametrize("name", sorted(OURS - ONE))
def test_health_check_is_a_command_that_exists(name):
    kind, program, *arguments = SERVICES[name]["healthcheck"]["test"]
    assert (kind, program) == ("CMD", "groundwatch")
    parse_command(arguments)


@pytest.mark.parametrize("name", sorted(OURS - ONE))
def test_scalable_services_bind_no_host_resources(name):
    assert not {"container_name", "hostname", "ports"} & set(SERVICES[name])


def test_worker_stop_period_covers_work_in_progress():
    assert seconds(SERVICES["worker"]["stop_grace_period"]) >= 40


def test_scheduler_stop_period_covers_a_delivery():
    timeout_s = Settings.model_fields["delivery_timeout_s"].default
    assert seconds(SERVICES["scheduler"]["stop_grace_period"]) > timeout_s


def test_redis_persists_and_never_evicts():
    flags = pairs(SERVICES["redis"]["command"])
    assert flags["--appendonly"] == "yes"
    assert flags["--appendfsync"] == "everysec"
    assert flags["--save"] == ""
    assert flags["--maxmemory-policy"] == "noeviction"
    assert any(volume.endswith(":" + flags["--dir"]) for volume in SERVICES["redis"]["volumes"])


def test_redis_memory_limit_is_twice_its_maxmemory():
    flags = pairs(SERVICES["redis"]["command"])
    assert mebibytes(SERVICES["redis"]["mem_limit"]) >= 2 * mebibytes(flags["--maxmemory"])


def test_redis_is_configured_like_the_one_of_up(tmp_path):
    theirs, ours = SERVICES["redis"]["command"], supervise.command(tmp_path, 6379)
    same = ("--appendonly", "--appendfsync", "--save", "--maxmemory", "--maxmemory-policy")
    assert {flag: pairs(theirs)[flag] for flag in same} == {
        flag: pairs(ours[1:])[flag] for flag in same
    }


def test_real_server_accepts_the_command_line_of_redis(tmp_path):
    flags = SERVICES["redis"]["command"]
    port = supervise.free_port()
    moved = [str(tmp_path) if flag == "/data" else flag for flag in flags]
    server = subprocess.Popen(
        [supervise.find_binary(), *moved, "--port", str(port), "--bind", "127.0.0.1"],
        stdout=subprocess.DEVNULL,
    )
    try:
        supervise.wait_until_ready(f"redis://127.0.0.1:{port}/0", server)
        assert (tmp_path / "appendonlydir").is_dir()
    finally:
        server.terminate()
        server.wait(timeout=100)


def compose_is_there() -> bool:
    docker = shutil.which("docker")
    return (
        bool(docker)
        and not subprocess.run(
            [docker, "compose", "version"], capture_output=True, check=False, timeout=100
        ).returncode
    )


def compose_config(folder: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    path = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(folder)}
    return subprocess.run(
        ["docker", "compose", "--file", FILE, "--project-directory", folder, "config", "--quiet"],
        capture_output=True, text=True, check=False, timeout=100, env=path | environ,
    )  # fmt: skip


@pytest.mark.skipif(not compose_is_there(), reason="no `docker compose` on this machine")
def test_docker_compose_requires_a_password(tmp_path):
    assert compose_config(tmp_path, **ASKED_OF_THE_USER).returncode == 0
    refused = compose_config(tmp_path)
    assert refused.returncode != 0
    assert "POSTGRES_PASSWORD" in refused.stderr

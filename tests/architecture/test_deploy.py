"""The manifests of deploy/ are valid, hardened, and in settings and commands that we know."""

import shutil
import subprocess
import tomllib
from pathlib import Path

import kubernetes_validate
import pytest
import yaml
from typer.main import get_command

from monitor.cli.app import app
from monitor.queue import names
from monitor.settings import FILE_SUFFIX, TABLE_OF, Settings, setting_field, variable

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "kubernetes"
BASE, KEDA = FOLDER / "base", FOLDER / "keda"
#: The oldest that is tried, and one that is newer than any cluster of its time.
VERSIONS = ("1.29", "1.34")
SECRETS = "/run/secrets/groundwatch/"


def read(path):
    return [item for item in yaml.safe_load_all(path.read_text(encoding="utf-8")) if item]


FILES = {path: read(path) for path in FOLDER.rglob("*.yaml")}
OBJECTS = [
    item for path, items in FILES.items() if path.name != "kustomization.yaml" for item in items
]
DEPLOYMENTS = {
    item["metadata"]["name"].removeprefix("groundwatch-"): item["spec"]
    for item in OBJECTS
    if item["kind"] == "Deployment"
}
(BASE_SETTINGS,) = FILES[BASE / "kustomization.yaml"]
LITERALS = dict(text.split("=", 1) for text in BASE_SETTINGS["configMapGenerator"][0]["literals"])
every_deployment = pytest.mark.parametrize("name", sorted(DEPLOYMENTS))


def pod(name):
    return DEPLOYMENTS[name]["template"]["spec"]


def containers(name):
    return [*pod(name).get("initContainers", []), *pod(name)["containers"]]


def identity(item):
    return f"{item['kind']}/{item['metadata']['name']}"


def the(kind, name):
    (found,) = [item for item in OBJECTS if identity(item) == f"{kind}/{name}"]
    return found


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "item", [o for o in OBJECTS if not o["apiVersion"].startswith("keda.sh/")], ids=identity
)
def test_manifest_satisfies_the_kubernetes_schema(item, version):
    kubernetes_validate.validate(item, version, strict=True)


@pytest.mark.parametrize("folder", [BASE, KEDA], ids=lambda path: path.name)
def test_kustomization_names_every_file_beside_it(folder):
    (settings,) = FILES[folder / "kustomization.yaml"]
    here = {path.name for path in folder.glob("*.yaml")} - {"kustomization.yaml"}
    assert {name for name in settings["resources"] if name.endswith(".yaml")} == here


@pytest.mark.skipif(not shutil.which("kubectl"), reason="no kubectl on this machine")
def test_kubectl_builds_the_manifests_and_selectors_match():
    done = subprocess.run(
        ["kubectl", "kustomize", KEDA], capture_output=True, text=True, check=False, timeout=200
    )
    assert done.returncode == 0, done.stderr
    built = list(yaml.safe_load_all(done.stdout))
    assert len(built) == len(OBJECTS) + 1  # and the settings
    for item in built:
        if item["kind"] == "Deployment":
            labels = item["spec"]["template"]["metadata"]["labels"]
            wanted = item["spec"]["selector"]["matchLabels"]
            assert wanted.items() <= labels.items()
            assert len(wanted) == 2


@every_deployment
def test_pods_are_read_only_and_unprivileged(name):
    spec = pod(name)
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] == 10001
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in containers(name):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }


@every_deployment
def test_containers_limit_memory_and_request_cpu(name):
    for container in containers(name):
        assert container["resources"]["limits"]["memory"]
        assert set(container["resources"]["requests"]) == {"cpu", "memory"}


@every_deployment
def test_image_tag_is_the_version_of_this_tree(name):
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert {container["image"] for container in containers(name)} == {f"groundwatch:{version}"}


@every_deployment
def test_manifest_commands_exist(name):
    group = get_command(app)
    for container in containers(name):
        commands = [container["args"]]
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            program, *rest = container.get(probe, {}).get("exec", {}).get("command", [None])
            if program:
                assert program == "groundwatch"
                commands.append(rest)
        for command, *arguments in commands:
            group.get_command(None, command).make_context(command, list(arguments))


@every_deployment
def test_readiness_is_probed(name):
    assert "readinessProbe" in pod(name)["containers"][0]


def test_web_probe_uses_an_endpoint_without_login():
    (container,) = pod("web")["containers"]
    paths = {
        probe: container[probe]["httpGet"]["path"]
        for probe in ("startupProbe", "livenessProbe", "readinessProbe")
    }
    assert paths == {
        "startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/readyz"
    }  # fmt: skip
    (port,) = container["ports"]
    assert port["containerPort"] == Settings.model_fields["web_port"].default


@every_deployment
def test_disruption_budget_allows_one_pod_at_a_time(name):
    budget = the("PodDisruptionBudget", f"groundwatch-{name}")["spec"]
    assert budget["maxUnavailable"] == 1
    assert budget["selector"] == DEPLOYMENTS[name]["selector"]


def test_stopping_pod_has_time_to_finish():
    grace = {name: pod(name)["terminationGracePeriodSeconds"] for name in DEPLOYMENTS}
    assert grace["worker"] >= setting_field("judge_timeout_s").default + 15
    assert grace["scheduler"] >= setting_field("delivery_timeout_s").default + 10


def settings_of(name):
    own = pod(name)["containers"][0].get("env", [])
    return LITERALS | {item["name"]: item["value"] for item in own}


@every_deployment
def test_manifest_settings_are_known_and_secrets_come_from_files(name, tmp_path):
    plain, known = {}, {variable(field) for field in TABLE_OF}
    for key, value in settings_of(name).items():
        if key.endswith(FILE_SUFFIX):
            assert value.startswith(SECRETS)
            assert key.removesuffix(FILE_SUFFIX) in known
        else:
            plain[key] = value
    assert Settings.from_env(plain)
    assert not {"GROUNDWATCH_REDIS_URL", "GROUNDWATCH_DATABASE_URL"} & set(plain)


def test_manifests_contain_no_secret():
    assert "Secret" not in {item["kind"] for item in OBJECTS}
    for path in FILES:
        assert "://" not in "".join(
            line for line in path.read_text().splitlines() if not line.lstrip().startswith("#")
        )


def test_network_policy_admits_only_the_web_page():
    assert the("NetworkPolicy", "groundwatch")["spec"]["ingress"] == []
    (rule,) = the("NetworkPolicy", "groundwatch-web")["spec"]["ingress"]
    assert [port["port"] for port in rule["ports"]] == [8642]


def test_keda_scales_the_worker_by_stream_backlog():
    scaled = the("ScaledObject", "groundwatch-worker")["spec"]
    # As https://keda.sh/docs/latest/reference/scaledobject-spec/ names them.
    assert set(scaled) <= {
        "scaleTargetRef", "minReplicaCount", "maxReplicaCount", "pollingInterval",
        "cooldownPeriod", "fallback", "advanced", "triggers",
    }  # fmt: skip
    assert scaled["scaleTargetRef"]["name"] == "groundwatch-worker"
    assert "replicas" not in DEPLOYMENTS["worker"], "kubectl apply would undo KEDA's number"
    (trigger,) = scaled["triggers"]
    assert trigger["type"] == "redis-streams"
    metadata = trigger["metadata"]
    assert set(metadata) <= {"address", "databaseIndex", "stream", "streamLength", "enableTLS"}
    assert all(isinstance(value, str) for value in metadata.values())
    assert metadata["stream"] == names.SAMPLES
    found = the("TriggerAuthentication", trigger["authenticationRef"]["name"])
    for item in found["spec"]["secretTargetRef"]:
        assert set(item) == {"parameter", "name", "key"}

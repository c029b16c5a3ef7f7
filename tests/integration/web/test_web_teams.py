"""A token that sees one app: no route shows or changes anything of the others."""

import re
from datetime import UTC, datetime, timedelta

import pytest

from alerts.queries import incidents_since
from alerts.routing import parse_all
from alerts.silencing import add_silence, expire_silence
from alerts.store import acknowledgements, silences_after
from monitor.settings import Settings
from monitor.store.feedback import feedback_of
from monitor.store.labels import labels_of
from monitor.store.tokens import create_token, revoke_token
from monitor.store.verdicts import read_release_marks
from monitor.web.auth import SCOPES, Access, GuardedRoute, Principal, Role, password_entry

MINE, OTHER = "support-bot", "shop"
#: Stands in what the other app answered and was told, and in its name.
OF_OTHERS = re.compile(r"\bshop\b|lighthouse|bots/")
#: What stands for a part of a path: of the other app first, then of the one that may be seen.
PARTS = {
    "app": (OTHER, MINE), "metric": ("groundedness",), "form": ("jsonl", "csv"),
    "name": ("style.css",), "status": ("critical",),
}  # fmt: skip
#: What is sent about the other app, and where from a form.
SILENCE = {"matchers": [f"app={OTHER}"], "comment": "none of mine", "hours": 1}
FORM = {"label": "pass", "metric": "groundedness", "hours": "8", "app": OTHER, "lasts": "1 h",
        "matchers": f"app={OTHER}", "comment": "none of mine", "channel": "slack"}  # fmt: skip


def routes(client):
    """Every route with its methods, as the application itself lists them."""
    found = client.app.routes
    assert all(isinstance(route, GuardedRoute) for route in found)
    return [(m, route.path) for route in found for m in sorted(route.methods - {"HEAD"})]


@pytest.fixture(scope="module")
def parts(world):
    now = datetime.now(UTC)
    with world.store.write() as connection:
        silence = add_silence(
            connection, parse_all([f"app={OTHER}"]), now=now, ends_at=now + timedelta(hours=1),
            author="ann of the shop", comment="the lighthouse is closed",
        )  # fmt: skip
        incident = incidents_since(connection, now - timedelta(days=1), app=OTHER)[0]
    yield PARTS | {
        "sample_id": (world.samples[OTHER], world.samples[MINE]),
        "incident_id": (incident.incident_id,), "silence_id": (silence.silence_id,),
    }  # fmt: skip
    with world.store.write() as connection:
        expire_silence(connection, silence.silence_id, datetime.now(UTC))


@pytest.fixture
def team(world, client_with):
    """A client with a token or a password that may do anything, to one app."""

    def make(*, password="", **given):
        given = {"role": "operator", "apps": {MINE}, "scopes": ()} | given
        if password:
            users = (
                f"zoe:viewer:{'0' * 64},{password_entry('team', Role.OPERATOR, password, [MINE])}"
            )
            client = client_with(GROUNDWATCH_WEB_USERS=users)
            client.auth = ("team", password)
            client.headers["Sec-Fetch-Site"] = "same-origin"
            return client
        with world.store.write() as connection:
            revoke_token(connection, "team", datetime.now(UTC))
            secret = create_token(
                connection, "team", **given, created_by="me", now=datetime.now(UTC)
            )
        client = client_with()
        client.headers["Authorization"] = f"Bearer {secret}"
        return client

    return make


def paths(path, parts):
    """The address with each part filled in by what stands for it."""
    found = [path]
    for name in re.findall(r"{(\w+)}", path):
        assert name in parts, f"say in PARTS what may stand for {{{name}}} of {path}"
        found = [one.replace(f"{{{name}}}", value) for one in found for value in parts[name]]
    return found


@pytest.mark.parametrize("password", ["", "of the bots"])
def test_no_route_shows_or_changes_another_teams_app(world, team, parts, password):
    client, sample = team(password=password), world.samples[OTHER]
    bodies = {
        "/api/v1/silences": SILENCE, "/api/v1/labels": [{"sample_id": sample, "label": 1}],
        "/api/v1/deploys": {"app": OTHER, "release": "v13"},
        "/api/v1/test-cases": {"sample_ids": [sample]},
        "/api/v1/feedback": {"app": OTHER, "trace_id": f"{OTHER}-1", "good": False},
        "/api/v1/incidents/{incident_id}/acknowledgements": {"note": "mine now"},
    }  # fmt: skip
    asked = 0
    for method, path in routes(client):
        for address in paths(path, parts):
            if method == "GET":
                queries = ["", f"?app={OTHER}", f"?app={OTHER}&metric=groundedness",
                           f"?sample={sample}", f"?matchers=app%3D{OTHER}",
                           f"?app={MINE}&metric=groundedness&decided={sample}"]  # fmt: skip
                answers = [client.get(address + query) for query in queries]
            elif method == "POST" and path.startswith("/api/"):
                assert path in bodies, f"say in bodies what is sent to {path}"
                answers = [client.post(address, json=bodies[path])]
            elif method == "POST":
                token = client.site.access.form_token(Principal("team", Role.VIEWER))
                answers = [client.post(address, data=FORM | {"sample_id": sample, "token": token})]
            else:
                answers = [client.request(method, address)]
            for answer in answers:
                asked += 1
                assert answer.status_code < 500, (method, address)
                # What was asked for may be repeated; an id of another app's sample is one.
                said = re.sub(r'(value|href|name)="[^"]*"|app=shop', "", answer.text)
                said = said.replace(
                    f"nothing was scored as 'groundedness' for an app '{OTHER}'", ""
                )
                assert not OF_OTHERS.search(said), (method, str(answer.url), OF_OTHERS.search(said))
    assert asked > 200
    with world.store.read() as connection:
        assert "team" not in {label.labelled_by for label in labels_of(connection, sample)}
        assert "v13" not in {mark.release for mark in read_release_marks(connection, app=OTHER)}
        assert "team" not in {one.author for one in silences_after(connection, datetime.now(UTC))}
        assert "team" not in {ack.by for ack in acknowledgements(connection).values()}
        assert not feedback_of(connection, OTHER, f"{OTHER}-1")


def test_team_sees_all_of_its_own_app_and_only_that(world, team):
    client = team()
    assert client.get("/").status_code == 200
    items = client.get("/api/v1/metrics").json()["items"]
    assert {item["app"] for item in items} == {MINE}
    status = client.get("/api/v1/status").json()
    assert sum(status["counts"].values()) == len(items)
    mine = client.get("/api/v1/incidents").json()["items"]
    assert {alert["app"] for item in mine for alert in item["alerts"]} == {MINE}
    assert status["open_incidents"] == len(mine)
    assert (status["pipeline"]["waiting"], status["pipeline"]["cost_today_usd"]) == (None, None)
    samples = client.get("/api/v1/samples?limit=500").json()["items"]
    assert {(item["app"], len(samples)) for item in samples} == {(MINE, 12)}
    figures = client.get("/metrics").text
    assert f'groundwatch_status{{app="{MINE}",metric="groundedness"}} 0.0' in figures
    assert "groundwatch_judge_cost" not in figures
    assert client.get(f"/app/{MINE}").status_code == 200
    assert client.get("/channels").status_code == 403


def test_viewer_with_a_scope_writes_only_within_that_scope(world, team):
    deploy, silence = {"app": MINE, "release": "v7"}, SILENCE | {"matchers": [f"app={MINE}"]}
    for scope in ("deploys", "silences"):
        client = team(role="viewer", scopes={scope})
        codes = [
            client.post("/api/v1/deploys", json=deploy).status_code,
            (made := client.post("/api/v1/silences", json=silence)).status_code,
            client.post("/api/v1/test-cases", json={"sample_ids": ["x"]}).status_code,
        ]
        assert codes == [
            200 if scope == "deploys" else 403,
            200 if scope == "silences" else 403,
            403,
        ]
    listed = client.get("/api/v1/silences").json()["items"]
    assert [item["silence_id"] for item in listed] == [made.json()["silence_id"]]
    assert client.delete(f"/api/v1/silences/{made.json()['silence_id']}").json()["author"] == "team"
    assert client.get("/api/v1/deploys").json()["items"][0]["release"] == "v7"
    assert set(SCOPES) >= {"deploys", "silences"}


def test_ci_records_a_deploy_acknowledges_and_makes_test_cases(world, team):
    client = team(apps=())
    incident = client.get(f"/api/v1/incidents?app={OTHER}").json()["items"][0]["incident_id"]
    acked = client.post(
        f"/api/v1/incidents/{incident}/acknowledgements", json={"note": "on it", "hours": 2}
    )
    assert (acked.json()["by"], acked.json()["note"]) == ("team", "on it")
    asked = {"sample_ids": [world.samples[OTHER], "gone"], "tags": ["night"]}
    made = client.post("/api/v1/test-cases", json=asked).json()
    assert made["items"][0]["tags"][::2] == ["production", "night"]  # between them what people said
    assert made["left_out"] == [{"sample_id": "gone", "reason": "unknown_sample"}]
    ahead = {"app": OTHER, "release": "v1", "at": "2099-01-01T00:00:00Z"}
    for body, said in (
        (ahead, "still to come"), ({"app": OTHER}, "release: missing"),
        ({"app": "", "release": "v1"}, "app:"), ([], "body:"),
    ):  # fmt: skip
        answer = client.post("/api/v1/deploys", json=body)
        assert (answer.status_code, answer.headers["content-type"]) == (
            400,
            "application/problem+json",
        )
        assert said in answer.json()["detail"]


def test_revoked_and_expired_tokens_grant_no_access(world, team, client_with):
    client, now = team(), datetime.now(UTC)
    assert client.get("/").status_code == 200
    with world.store.write() as connection:
        assert revoke_token(connection, "team", now)
        secret = create_token(
            connection, "short", role="viewer", apps=(), scopes=(), created_by="me",
            now=now - timedelta(days=2), expires_at=now - timedelta(days=1),
        )  # fmt: skip
    assert client.get("/").status_code == 401
    client.headers["Authorization"] = f"Bearer {secret}"
    assert client.get("/").status_code == 401
    assert client_with().get("/").status_code == 200  # this machine itself


def test_groups_from_a_trusted_proxy_see_their_apps(client_with):
    client = client_with(
        GROUNDWATCH_WEB_PROXY_USER_HEADER="X-User", GROUNDWATCH_WEB_PROXY_GROUPS_HEADER="X-Groups",
        GROUNDWATCH_WEB_GROUP_APPS=f"bots={MINE},ops=*",
    )  # fmt: skip
    seen = {}
    for groups in ("bots", "bots, ops", "nobody", ""):
        headers = {"X-User": "ann", "X-Groups": groups}
        items = client.get("/api/v1/metrics", headers=headers).json()["items"]
        seen[groups] = len({item["app"] for item in items})
    assert seen == {"bots": 1, "bots, ops": 3, "nobody": 0, "": 0}


def test_authentication_can_be_required_of_local_requests_too():
    assert Access(Settings.from_env({})).is_open
    assert not Access(Settings.from_env({"GROUNDWATCH_WEB_REQUIRE_AUTHENTICATION": "true"})).is_open

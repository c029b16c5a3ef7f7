"""Who may come in, what they may do, and that nobody acts through somebody else's browser."""

import os
import re
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from starlette.requests import Request

from monitor.errors import SettingsError
from monitor.settings import Settings
from monitor.store.labels import labels_of
from monitor.store.samples import newest_acts
from monitor.web.auth import Access, Principal, Role, new_token, password_entry, path_of
from monitor.web.time_range import sample_path

SAME = {"Sec-Fetch-Site": "same-origin"}


@pytest.fixture
def form(world, server):
    """The fields of the form on the page of a failed sample, and its address."""
    path = sample_path(world.samples["shop"])
    with server.client() as client:
        page = client.get(path).text
        forms = [dict(re.findall(r'name="(\w+)" value="([^"]*)"', f)) for f in page.split("<form")]
        fields = next(f for f in forms if f.get("metric") == "groundedness")
        yield client, f"{path}/label", fields | {"label": "pass"}


def run_web(*arguments, **environment):
    keep = {key: value for key, value in os.environ.items() if not key.startswith("GROUNDWATCH_")}
    return subprocess.run(
        [sys.executable, "-m", "monitor", "web", *arguments], env=keep | environment,
        capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip


def test_label_is_stored_and_shown(world, form):
    client, path, fields = form
    done = client.post(path, data=fields | {"note": "it is a joke"}, headers=SAME)
    assert done.status_code == 303
    with world.store.read() as connection:
        label = labels_of(connection, world.samples["shop"])[-1]
        acts = newest_acts(connection)
    assert (label.judge_passed, label.human_passed, label.note) == (False, True, "it is a joke")
    assert acts[0].act == "labelled pass"
    page = client.get(done.headers["location"]).text
    assert "labelled it pass, unlike the evaluator: it is a joke" in page


@pytest.mark.parametrize(
    "headers",
    [{"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, {"Origin": "https://x.example"},
     {"Origin": "null"}, {}],
)  # fmt: skip
def test_form_from_another_site_changes_nothing(form, headers):
    client, path, fields = form
    assert client.post(path, data=fields, headers=headers).status_code == 403


def test_form_with_our_own_origin_header_is_accepted(form, server):
    client, path, fields = form
    assert client.post(path, data=fields, headers={"Origin": server.url}).status_code == 303


@pytest.mark.parametrize("token", ["", "x", "a.1.b", "a.99999999999.b", "a.\u00b2.b"])
def test_form_without_its_token_changes_nothing(form, token):
    client, path, fields = form
    assert client.post(path, data=fields | {"token": token}, headers=SAME).status_code == 403


def test_form_token_is_valid_only_within_its_deployment():
    ann = Principal("ann", Role.OPERATOR)

    def page(**settings):
        return Access(Settings(web_proxy_user_header="x-user", **settings))

    url = "postgresql+psycopg://u:{}@h/d"
    token = page(database_url=url.format("secret")).form_token(ann)
    assert page(database_url=url.format("secret")).form_is_ours(token, ann)
    assert not page(database_url=url.format("other")).form_is_ours(token, ann)
    assert not page().form_is_ours(page().form_token(ann), ann)
    guessed = {"database_url": "postgresql+psycopg://u@h/d"}
    assert not page(**guessed).form_is_ours(page(**guessed).form_token(ann), ann)


@pytest.mark.parametrize("path", ["/channels/test", "/sample/x/label"])
def test_get_requests_change_nothing(get, path):
    assert get(path).status_code == 405


def test_channel_can_be_tested_from_its_page(server, slack):
    with server.client() as client:
        token = re.search(r'name="token" value="([^"]+)"', client.get("/channels").text)[1]
        fields = {"token": token, "channel": "slack"}
        done = client.post("/channels/test", data=fields, headers=SAME)
        assert "Test sent by slack" in client.get(done.headers["location"]).text
    assert "TEST" in str(slack.messages[-1])


def test_foreign_host_header_is_answered_with_421(get):
    assert get("/", headers={"Host": "evil.example"}).status_code == 421


def test_binding_other_addresses_requires_authentication(world):
    done = run_web("--host", "0.0.0.0", GROUNDWATCH_HOME=world.home)
    assert done.returncode != 0
    assert "without authentication" in done.stderr
    assert "Traceback" not in done.stderr


def test_each_role_has_exactly_its_permissions(world, client_with):
    made = {role: new_token(role, role.name.lower()) for role in Role}
    client = client_with(GROUNDWATCH_WEB_TOKENS=",".join(entry for _, entry in made.values()))
    sample = sample_path(world.samples["shop"])
    codes = {}
    for role, (token, _) in made.items():
        bearer = {"Authorization": f"Bearer {token}"}
        paths = ("/", sample, "/audit")
        codes[role.name] = [client.get(path, headers=bearer).status_code for path in paths]
        codes[role.name] += [client.post(f"{sample}/label", headers=bearer).status_code]
        page = client.get("/app/shop/groundedness", headers=bearer).text
        assert ("lighthouse" in page) == (role >= Role.READER)
    assert codes == {
        "VIEWER": [200, 403, 403, 403], "READER": [200, 200, 403, 403],
        "OPERATOR": [200, 200, 200, 400],
    }  # fmt: skip
    with world.store.read() as connection:
        assert ("reader", "saw sample") in {(act.who, act.act) for act in newest_acts(connection)}


def test_without_a_token_only_pages_without_data_open(client_with):
    client = client_with(GROUNDWATCH_WEB_TOKENS=new_token(Role.READER, "ci")[1])
    assert client.get("/healthz").status_code == 200
    for path in ("/", "/api/v1/status", "/metrics", "/badge/shop.svg", "/config"):
        assert client.get(path).status_code == 401, path
        assert client.get(path, headers={"Authorization": "Bearer x"}).status_code == 401, path


def test_forged_host_header_grants_no_access(client_with):
    client = client_with(GROUNDWATCH_WEB_TOKENS=new_token(Role.READER, "ci")[1])
    assert client.get("/", headers={"Host": "127.0.0.1/static/"}).status_code == 401


def test_guard_and_router_use_the_same_path():
    scope = {"type": "http", "method": "GET", "scheme": "http", "path": "/config", "root_path": "",
             "query_string": b"", "server": ("127.0.0.1", 80),
             "headers": [(b"host", b"127.0.0.1/static/")]}  # fmt: skip
    assert path_of(Request(scope)) == "/config"


def test_many_wrong_passwords_are_throttled_and_delay_nobody_else(client_with):
    client = client_with(GROUNDWATCH_WEB_USERS=password_entry("ann", Role.VIEWER, "right"))
    with ThreadPoolExecutor(40) as pool:
        wrong = [pool.submit(client.get, "/", auth=("ann", str(i))) for i in range(60)]
        codes = Counter(future.result().status_code for future in wrong)
    assert set(codes) == {401, 429}
    assert codes[429] > codes[401]
    assert client.get("/", auth=("ann", "right")).status_code == 200


def test_right_password_opens_and_a_wrong_one_does_not(client_with):
    client = client_with(GROUNDWATCH_WEB_USERS=password_entry("ann", Role.READER, "correct horse"))
    codes = [
        client.get("/", auth=auth).status_code
        for auth in [("ann", "correct horse"), ("ann", "wrong"), ("bob", "correct horse")]
    ]
    assert codes == [200, 401, 401]
    assert "Basic" in client.get("/").headers["www-authenticate"]


@pytest.mark.parametrize(("proxies", "code"), [("127.0.0.0/8", 200), ("192.0.2.1", 401)])
def test_only_a_trusted_proxy_may_name_users(client_with, proxies, code):
    client = client_with(
        GROUNDWATCH_WEB_PROXY_USER_HEADER="X-Forwarded-User",
        GROUNDWATCH_WEB_TRUSTED_PROXIES=proxies,
    )
    assert client.get("/").status_code == 401
    assert client.get("/", headers={"X-Forwarded-User": "ann"}).status_code == code


def test_new_token_is_shown_once_and_kept_as_a_hash():
    done = run_web("--new-token", "ci:viewer")
    token, entry = done.stdout.split()
    assert entry.startswith("ci:viewer:")
    assert token not in entry


@pytest.mark.parametrize("entry", ["ann", "ann:king:" + "0" * 64, "ann:viewer:secret"])
def test_malformed_token_entry_is_refused_without_printing_it(entry):
    with pytest.raises(SettingsError, match="entry 1 is not name:role:hash") as refused:
        Access(Settings.from_env({"GROUNDWATCH_WEB_TOKENS": entry}))
    assert "secret" not in str(refused.value)

"""Sheets in a Google spreadsheet, against a server that speaks its API."""

import json
import time

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from google.auth import jwt
from google.oauth2.service_account import Credentials

from monitor.contrib.google_sheets import write_google
from monitor.errors import DeliveryError, SettingsError
from monitor.report.sheets import Sheet
from support.sheets_server import SheetsServer

EMAIL = "gw@project.iam.gserviceaccount.com"


@pytest.fixture(scope="session")
def private_key():
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@pytest.fixture
def server():
    with SheetsServer() as found:
        yield found


@pytest.fixture
def account(server, private_key, tmp_path):
    pem = private_key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()
    found = {
        "type": "service_account", "client_email": EMAIL, "private_key": pem,
        "private_key_id": "1", "token_uri": f"{server.url}/token",
    }  # fmt: skip
    path = tmp_path / "account.json"
    path.write_text(json.dumps(found))
    return path


@pytest.fixture(autouse=True)
def _stays_on_this_machine(monkeypatch):
    """Newer versions of google-auth also ask Google where the account may be used from."""
    name = "_maybe_start_regional_access_boundary_refresh"
    monkeypatch.setattr(Credentials, name, lambda *_: None, raising=False)


@pytest.fixture
def write(server, account):
    waited = []

    def write_(*sheets, spreadsheet="spreadsheet-1"):
        return write_google(
            sheets, spreadsheet, account, api_url=server.api_url, sleep=waited.append
        )

    write_.waited = waited
    return write_


def sheet(*rows, name="windows", columns=("app", "n", "rate")):
    return Sheet(name, columns, rows, key=("app", "n"))


def test_sheets_are_made_with_a_header_and_their_rows(server, write):
    done = write(sheet(["shop", 1, 0.5]), sheet(["x", 1, None], name="series"))
    assert server.grids["windows"] == [["app", "n", "rate"], ["shop", 1, 0.5]]
    assert server.grids["series"] == [["app", "n", "rate"], ["x", 1, ""]]
    assert [tuple(item) for item in done] == [("windows", 1, 0), ("series", 1, 0)]


def test_unchanged_rerun_writes_nothing_to_the_sheet(server, write):
    rows = [["shop", n, n / 7] for n in range(300)]
    write(sheet(*rows))
    before = [list(row) for row in server.grids["windows"]]
    server.calls.clear()
    assert write(sheet(*rows)) == [("windows", 0, 0)]
    assert server.grids["windows"] == before
    assert [verb for method, verb in server.calls if method != "GET"] == []


def test_changed_rows_are_updated_in_place_and_new_rows_appended(server, write):
    write(sheet(["a", 1, 0.1], ["b", 1, 0.2]))
    assert write(sheet(["b", 1, 0.9], ["c", 1, 0.3])) == [("windows", 1, 1)]
    assert server.grids["windows"][1:] == [["a", 1, 0.1], ["b", 1, 0.9], ["c", 1, 0.3]]


def test_thousands_of_rows_go_in_few_calls(server, write):
    write(sheet(*(["shop", n, 0.5] for n in range(4_500))))
    assert len(server.grids["windows"]) == 4_501
    assert [row[1] for row in server.grids["windows"][1:]] == list(range(4_500))
    assert len(server.calls) == 1 + 1 + 3


def test_effect_of_a_failed_call_is_not_repeated(server, write):
    server.script(200, 200, 500)
    write(sheet(["a", 1, 0.1], ["b", 1, 0.2]))
    assert len(server.grids["windows"]) == 3


def test_rate_limited_call_waits_as_long_as_google_says(server, write):
    server.script(429, 503, 429)
    write(sheet(["a", 1, 0.1]))
    assert write.waited == [7.0, 2.0, 7.0]
    assert server.grids["windows"][1:] == [["a", 1, 0.1]]


def test_endless_rate_limiting_ends_as_a_transient_error(server, write):
    server.script(*[429] * 20)
    with pytest.raises(DeliveryError, match="Google answers 429") as caught:
        write(sheet())
    assert caught.value.transient
    assert len(server.calls) == 8


def test_user_columns_to_the_right_are_left_unchanged(server, write):
    write(sheet(["a", 1, 0.1]))
    server.sizes["windows"] = (2, 4)
    server.grids["windows"] = [["app", "n", "rate", "note"], ["a", 1, 0.1, "mine"]]
    write(sheet(["a", 1, 0.2]))
    assert server.grids["windows"][1] == ["a", 1, 0.2, "mine"]


def test_sheet_with_other_columns_is_not_overwritten(server, write):
    server.grids["windows"], server.sizes["windows"] = [["my", "own"]], (10, 10)
    with pytest.raises(SettingsError, match="'windows' has other columns"):
        write(sheet(["a", 1, 0.1]))
    assert server.grids["windows"] == [["my", "own"]]


@pytest.mark.parametrize(
    ("status", "said"), [(403, f"share the spreadsheet with {EMAIL}"), (404, "no such spreadsheet")]
)
def test_refusal_says_what_to_do(server, write, status, said):
    if status == 403:
        server.script(403)
    with pytest.raises(SettingsError, match=said):
        write(sheet(), spreadsheet="spreadsheet-1" if status == 403 else "another")


def test_google_token_request_is_signed_by_the_service_account(server, write, private_key):
    write(sheet())
    public = private_key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    claims = jwt.decode(server.assertions[0], certs=public.decode(), audience=None)
    assert claims["iss"] == EMAIL
    assert claims["scope"] == "https://www.googleapis.com/auth/spreadsheets"
    assert claims["exp"] > time.time()


def test_invalid_key_file_is_reported_in_one_line_without_its_content(server, tmp_path):
    wrong = tmp_path / "account.json"
    wrong.write_text('{"type": "service_account", "private_key": "hunter2"}')
    with pytest.raises(SettingsError, match="is not a key file") as caught:
        write_google([], "x", wrong, api_url=server.api_url)
    assert "hunter2" not in str(caught.value)

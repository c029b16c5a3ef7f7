"""Silences and acknowledgements made on the page: previewed, written down, refused to others."""

import re
from datetime import UTC, datetime, timedelta

import pytest

from alerts.queries import noise_since, open_incidents
from alerts.store import acknowledgements, silences_after
from monitor.store.samples import newest_acts

SAME = {"Sec-Fetch-Site": "same-origin"}
FIELDS = {"matchers": "app=shop\nseverity=critical", "lasts": "2 h", "comment": "being mended"}


@pytest.fixture
def token(get):
    return re.search(r'name="token" value="([^"]+)"', get("/silences").text)[1]


@pytest.fixture
def post(server, token):
    with server.client() as client:

        def post(path, headers=SAME, **fields):
            return client.post(path, data={"token": token} | fields, headers=headers)

        yield post


def active(world):
    with world.store.read() as connection:
        return silences_after(connection, datetime.now(UTC))


@pytest.fixture
def incident(world):
    with world.store.read() as connection:
        return next(i for i in open_incidents(connection) if i.app == "shop")


def test_preview_shows_what_would_be_silenced_and_creates_nothing(world, get):
    before = active(world)
    text = get("/silences", params=FIELDS).text
    held = text.split('role="status"')[-1].split("</div>")[0]
    assert re.search(r"Matches [1-9]\d* of \d+ firing alerts", held)
    assert "shop, groundedness" in held
    assert active(world) == before


def test_preview_warns_when_nothing_matches(get):
    assert "no app or metric matches" in get("/silences", params={"matchers": "app=sohp"}).text


def test_silence_is_added_listed_and_ended(world, post, get):
    assert post("/silences", **FIELDS).status_code == 303
    (made,) = active(world)
    assert (made.comment, made.author) == ("being mended", "this machine")
    assert timedelta(hours=1, minutes=59) < made.ends_at - datetime.now(UTC) <= timedelta(hours=2)
    assert "being mended" in get("/silences").text
    assert post(f"/silences/{made.silence_id}/end").status_code == 303
    assert active(world) == []
    with world.store.read() as connection:
        assert [act.act for act in newest_acts(connection)[:2]] == [
            "ended silence",
            "added silence",
        ]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"matchers": ""}, "needs a matcher"),
        ({"matchers": "nonsense"}, "nonsense"),
        ({"matchers": "app=~("}, "app"),
        ({"comment": ""}, "who wants it, and why"),
        ({"lasts": "for ever"}, "end before it begins"),
    ],
)
def test_mistake_is_shown_and_the_form_keeps_its_input(world, post, wrong, said):
    answer = post("/silences", **(FIELDS | wrong))
    assert answer.status_code == 400
    assert "Nothing was changed" in answer.text
    assert said in answer.text.split('role="alert"')[1].split("</div>")[0]
    assert (FIELDS | wrong)["comment"] in answer.text
    assert active(world) == []


@pytest.mark.parametrize("headers", [{"Sec-Fetch-Site": "cross-site"}, {}])
def test_another_site_can_neither_silence_nor_acknowledge(world, post, incident, headers):
    path = f"/incidents/{incident.incident_id}/ack"
    assert post("/silences", headers, **FIELDS).status_code == 403
    assert post(path, headers, hours="8").status_code == 403
    assert active(world) == []


def test_unknown_silence_cannot_be_ended(post):
    assert post("/silences/nothing/end").status_code == 404


def test_acknowledgement_is_shown_and_counts_as_acted_on(world, post, get, incident):
    path = f"/incidents/{incident.incident_id}"
    assert post(f"{path}/ack", hours="8", note="at it").status_code == 303
    assert "acknowledged this: at it" in get(path).text
    now = datetime.now(UTC)
    with world.store.read() as connection:
        assert acknowledgements(connection)[incident.group_id].note == "at it"
        found = noise_since(connection, now - timedelta(days=7), now)
    of_shop = next(n for n in found if n.key[:2] == (incident.app, incident.metric))
    assert (of_shop.fired, of_shop.acted_on, of_shop.by_itself, of_shop.still_open) == (1, 1, 0, 1)
    row = get("/noise?days=7").text.split("shop, groundedness")[1].split("</tr>")[0]
    assert re.findall(r'data-label="acknowledged">(\d+)', row) == ["1"]


def test_acknowledgement_that_is_too_long_or_of_no_incident_is_refused(post, incident):
    assert post(f"/incidents/{incident.incident_id}/ack", hours="9999").status_code == 400
    assert post("/incidents/nothing/ack", hours="8").status_code == 404


def test_maintenance_windows_of_the_routes_file_are_listed(client_with, tmp_path, slack):
    routes = tmp_path / "alerts.toml"
    routes.write_text(
        '[[routes]]\nchannels = ["slack"]\n'
        '[[maintenance]]\nname = "rebuild"\nmatch = ["app=shop"]\nfrom = "00:00"\n'
        'to = "23:59"\n'
    )
    client = client_with(
        GROUNDWATCH_ALERTS_FILE=str(routes), GROUNDWATCH_SLACK_WEBHOOK_URL=slack.url
    )
    text = client.get("/silences").text.split("Maintenance windows")[1]
    assert "rebuild" in text
    assert "app=shop" in text

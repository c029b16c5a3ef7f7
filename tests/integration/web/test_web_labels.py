"""The label queue on the page, blind until decided; labels that programs send; agreement."""

import re

import pytest

from monitor.store.labels import labels_of
from monitor.web.auth import Role, new_token

SAME = {"Sec-Fetch-Site": "same-origin"}
QUEUE = "/labels?app=shop&metric=relevance"


@pytest.fixture
def client(server):
    with server.client() as client:
        yield client


def fields_of(page):
    return dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', page))


def test_queue_shows_texts_and_no_verdict_until_one_is_given(world, client):
    page = client.get(QUEUE).text
    assert "Wire four ducats" in page
    assert not re.search(r"passed|failed|■ |score", page.split("<main")[1].split("</main")[0])
    fields = fields_of(page)
    done = client.post("/labels", data=fields | {"label": "fail"}, headers=SAME)
    assert done.status_code == 303
    after = client.get(done.headers["location"]).text
    assert re.search(r"You said fail, (and so did|the evaluator said)", after)
    assert fields_of(after)["sample_id"] != fields["sample_id"]
    with world.store.read() as connection:
        (label,) = (
            x for x in labels_of(connection, fields["sample_id"]) if x.metric == "relevance"
        )
    assert (label.drawn, label.human_passed) == (True, False)


def test_queue_names_the_source_of_each_passage(client):
    shown = client.get("/labels", params={"app": "shop", "metric": "groundedness"}).text
    assert '<p class="soft small">1 · source terms.pdf</p>' in shown


def test_skipped_sample_is_not_offered_again(client):
    fields = fields_of(client.get(QUEUE).text)
    done = client.post("/labels", data=fields | {"label": "skip"}, headers=SAME)
    assert fields_of(client.get(done.headers["location"]).text)["sample_id"] != fields["sample_id"]


def test_overview_leads_to_queues_and_shows_agreement(client):
    fields = fields_of(client.get(QUEUE).text)
    client.post("/labels", data=fields | {"label": "fail"}, headers=SAME)
    page = client.get("/labels").text
    assert "/labels?app=shop&amp;metric=groundedness" in page
    assert "Agreement of evaluators and people" in page


@pytest.fixture
def script(client_with):
    """A client with a token of the role, for each role."""
    made = {role: new_token(role, role.name.lower()) for role in Role}
    client = client_with(GROUNDWATCH_WEB_TOKENS=",".join(entry for _, entry in made.values()))

    def post(role, **sent):
        token = {"Authorization": f"Bearer {made[role][0]}"}
        return client.post("/api/v1/labels", headers=token, **sent)

    return post


def test_label_api_reports_refused_labels(world, script):
    sample_id = world.samples["support-bot"]
    done = script(
        Role.OPERATOR,
        json=[
            {"sample_id": sample_id, "label": 0, "annotator": "ann"},
            {"sample_id": "gone", "label": 1},
        ],
    )
    assert done.status_code == 200
    found = done.json()
    assert (found["stored"] + found["duplicate"], len(found["refused"])) == (1, 1)
    assert found["refused"][0] == {
        "index": 1, "reason": "unknown_sample", "detail": "no sample gone",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        ({"content": b"{", "headers": None}, 400),
        ({"json": []}, 400),
        ({"json": [{"sample_id": "x", "label": 1}] * 1001}, 400),
        ({"data": {"sample_id": "x"}}, 415),
    ],
)
def test_bad_body_is_refused_whole(script, sent, code):
    if "content" in sent:
        sent = {"content": sent["content"]}
        code = 415
    assert script(Role.OPERATOR, **sent).status_code == code


def test_reader_may_not_send_labels(script):
    assert script(Role.READER, json={"sample_id": "x", "label": 1}).status_code == 403


def test_api_returns_agreement(client):
    found = client.get("/api/v1/labels", params={"app": "nobody"}).json()
    assert found == {"items": []}

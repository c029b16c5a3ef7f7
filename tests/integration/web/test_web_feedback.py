"""Feedback over HTTP: off for other sites until they are named; bounded; beside its sample."""

import pytest

from monitor.store.feedback import Feedback, feedback_of, save_feedback
from monitor.store.samples import read_sample
from monitor.web.auth import Role, new_token

SHOP = "https://app.example.com"
SAID = {"app": "shop", "trace_id": "t-web", "good": False, "comment": "made up"}


def stored(world, trace_id):
    with world.store.read() as connection:
        return feedback_of(connection, "shop", trace_id)


def test_other_origin_may_not_send_feedback_until_allowed(world, client_with):
    client = client_with()
    said = SAID | {"trace_id": "t-refused"}
    answer = client.post("/api/v1/feedback", json=said, headers={"Origin": SHOP})
    assert answer.status_code == 403
    assert "access-control-allow-origin" not in answer.headers
    assert stored(world, "t-refused") == []


def test_allowed_origin_can_only_send_feedback(world, client_with):
    _token, entry = new_token(Role.OPERATOR, "ci")
    client = client_with(GROUNDWATCH_FEEDBACK_ORIGINS=SHOP, GROUNDWATCH_WEB_TOKENS=entry)
    headers = {"Origin": SHOP}
    asked = client.options("/api/v1/feedback", headers=headers)
    assert (asked.status_code, asked.headers["access-control-allow-origin"]) == (204, SHOP)
    for expected in ({"stored": 1, "duplicate": 0}, {"stored": 0, "duplicate": 1}):
        answer = client.post("/api/v1/feedback", json=SAID, headers=headers)
        assert answer.json() == expected
        assert answer.headers["access-control-allow-origin"] == SHOP
    (found,) = stored(world, "t-web")
    assert (found.good, found.comment) == (False, "made up")
    assert client.get("/api/v1/status", headers=headers).status_code == 401
    assert client.post("/api/v1/labels", json=[], headers=headers).status_code == 401
    other = client.post("/api/v1/feedback", json=SAID, headers={"Origin": "https://evil.example"})
    assert other.status_code == 401


@pytest.mark.parametrize(
    ("said", "code"),
    [(SAID | {"app": "no such app"}, 404), (SAID | {"trace_id": ""}, 400),
     (SAID | {"good": "perhaps"}, 400), (SAID | {"comment": "x" * 3000}, 400), ("text", 400)],
)  # fmt: skip
def test_invalid_feedback_of_a_page_is_refused(client_with, said, code):
    client = client_with(GROUNDWATCH_FEEDBACK_ORIGINS=SHOP)
    answer = client.post("/api/v1/feedback", json=said, headers={"Origin": SHOP})
    assert answer.status_code == code


def test_flood_of_feedback_is_answered_with_429(client_with, monkeypatch):
    monkeypatch.setattr("monitor.web.labelling._MOST_A_SECOND", 3)  # a busy machine sends no more
    client = client_with(GROUNDWATCH_FEEDBACK_ORIGINS=SHOP)
    codes = {
        client.post("/api/v1/feedback", json={}, headers={"Origin": SHOP}).status_code
        for _ in range(200)
    }
    assert codes == {400, 429}


def test_feedback_by_token_needs_the_operator_role(client_with):
    made = {role: new_token(role, role.name.lower()) for role in Role}
    client = client_with(GROUNDWATCH_WEB_TOKENS=",".join(entry for _, entry in made.values()))
    for role, code in ((Role.READER, 403), (Role.OPERATOR, 200)):
        headers = {"Authorization": f"Bearer {made[role][0]}"}
        assert client.post("/api/v1/feedback", json=SAID, headers=headers).status_code == code


def test_local_program_needs_no_token_when_authentication_is_off(client_with):
    assert client_with().post("/api/v1/feedback", json=SAID).status_code == 200


def test_script_may_be_loaded_by_other_sites(get):
    answer = get("/static/feedback.js")
    assert answer.headers["cross-origin-resource-policy"] == "cross-origin"
    assert get("/static/page.js").headers["cross-origin-resource-policy"] == "same-origin"


def test_comment_is_shown_on_the_sample_page_and_the_labels_page(world, get):
    sample_id = world.samples["shop"]
    with world.store.write() as connection:
        found = read_sample(connection, sample_id)
        it = found.sample.interaction
        item = Feedback(
            feedback_id="page", app="shop", trace_id=it.trace_id, good=False,
            comment="<b>wrong</b>", given_at=found.received_at,
        )  # fmt: skip
        save_feedback(connection, [item], source="hook", now=found.received_at, bucket_s=60)
    assert "▼ bad: &lt;b&gt;wrong&lt;/b&gt;" in get(f"/sample/{sample_id}").text
    page = get("/labels").text
    assert "were sampled" in page
    assert f'href="/sample/{sample_id}"' in page

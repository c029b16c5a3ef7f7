"""Names in addresses come back whole; claims are found in the texts that carry them."""

from hypothesis import given
from hypothesis import strategies as st

from monitor.web.samples import claims_of, marked_output, marked_passages
from monitor.web.time_range import slug, unslug


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_any_name_survives_its_url_encoding(name):
    part = slug(name)
    assert unslug(part) == name
    assert part.isascii()
    assert not set(part) & set("/%?#&\\ ")
    assert part not in {".", ".."}


def claim(text, verdict="supported", **fields):
    return {"text": text, "verdict": verdict, "support": 0.9, **fields}


def kinds(pieces):
    return [(piece.text, piece.kind) for piece in pieces]


def test_claims_are_marked_in_the_order_of_the_text():
    claims = claims_of({"claims": [claim("It rains.", "contradicted"), claim("It is cold.")]})
    assert kinds(marked_output("It is cold. It rains.", claims)) == [
        ("It is cold.", "supported"), (" ", ""), ("It rains.", "contradicted"),
    ]  # fmt: skip


def test_claim_is_found_despite_markup_and_line_breaks():
    claims = claims_of({"claims": [claim("Refunds take five days.")]})
    marked = [p.text for p in marked_output("Well: **Refunds** take\nfive days.", claims) if p.kind]
    assert marked == ["Refunds** take\nfive days"]


def test_evidence_is_marked_in_its_own_passage_only():
    claims = claims_of({"claims": [claim("x", evidence="five days", context_index=1)]})
    found = marked_passages(["five days", "in five days"], claims)
    assert [[p.kind for p in pieces] for pieces in found] == [[""], ["", "supported"]]


def test_malformed_claims_are_left_out():
    assert claims_of(None) == []
    assert claims_of({"claims": "x"}) == []
    assert claims_of({"claims": [1, {"text": 3}, {"verdict": "supported"}]}) == []
    assert claims_of({"claims": [{"text": "a", "verdict": "new"}]})[0].kind == "no claim"


texts = st.text("ab .", max_size=40)


@given(texts, st.lists(texts, max_size=5))
def test_marking_loses_no_character(output, claimed):
    claims = claims_of({"claims": [claim(text) for text in claimed]})
    assert "".join(piece.text for piece in marked_output(output, claims)) == output

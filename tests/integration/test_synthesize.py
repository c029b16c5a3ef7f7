"""Test sets from documents, with a real endpoint that a script answers."""

import json
from collections import Counter

import pytest
from typer.testing import CliRunner

from monitor.cli.app import app
from monitor.errors import JudgeError, RecordError
from monitor.scoring.registry import make_chat
from monitor.settings import Settings
from monitor.testsets import TestSet
from monitor.testsets.synthesis import Synthesizer, chunks_of, counts_of, read_documents
from support.judge_server import JudgeServer

TOWNS = [
    "Arbon", "Brixen", "Celle", "Dornbirn", "Eutin", "Fulda", "Goslar", "Husum", "Idstein", "Jena",
    "Kassel", "Lindau", "Murten", "Norden", "Olten", "Passau", "Quedlin", "Ronneby", "Soest",
    "Trier",
]  # fmt: skip
FACTS = ("market", "harbour", "library", "bridge", "school", "museum")
FACTS_BY_N = list(enumerate(FACTS))


def document():
    """Twenty long passages, one a town, each with the founding year of six buildings."""
    filler = " ".join(["Nothing else is known of those days."] * 80)
    return "\n\n".join(
        f"{town}. "
        + " ".join(f"The {name} of {town} opened in {1500 + 10 * n}." for n, name in FACTS_BY_N)
        + f" Write to clerk@{town.lower()}.example for more. {filler}"
        for town in TOWNS
    )  # fmt: skip


def read(request):
    return json.loads(request["messages"][-1]["content"])


def scripted(asked, **spoil):
    """Ask for one building of the first passage, another one at every attempt; check truly."""
    given = read(asked)
    first = given["passages"]["1"]
    town = first.split(".")[0].strip()
    if given["task"] == "check":
        known = any(
            f"The {fact} of" in text
            for fact in FACTS
            for text in given["passages"].values()
            if f" {fact} " in given["question"]
        )
        return {"answerable": known, "answer": "1500", "difficulty": "easy"}  # fmt: skip
    n = spoil.get("fact", lambda g: (asked["seed"] + g["attempt"]) % len(FACTS))(given)
    if given["kind"] == "unanswerable":
        who = f"painter number {asked['seed']}"
        return {"question": f"Which {who} was born in {town}?", "answer": "", "quotes": []}
    question = f"When did the {FACTS[n]} of {town} open, for reason {given['kind']}?"
    quote = f"The {FACTS[n]} of {town} opened in {1500 + 10 * n}."
    written = {"question": question, "answer": str(1500 + 10 * n), "quotes": [quote]}
    return written | {key: value for key, value in spoil.items() if key in written}


@pytest.fixture
def judge(monkeypatch):
    with JudgeServer() as server:
        server.reply = scripted
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "key")
        yield server


def made(n=20, seed=0, shares=None):
    chat = make_chat(Settings.from_env())
    try:
        maker = Synthesizer(chat, seed=seed)
        return maker.run(chunks_of({"towns.md": document()}), n, shares or {"single_hop": 1.0})
    finally:
        chat.close()


def test_set_has_the_requested_question_types(judge):
    shares = {"single_hop": 0.4, "multi_hop": 0.2, "conditional": 0.2, "unanswerable": 0.2}
    found = made(25, shares=shares)
    kinds = Counter(case.question_type for case in found.cases)
    assert len(found.cases) == 25
    for kind, share in shares.items():
        assert abs(kinds[kind] / 25 - share) <= 0.05
    answered = next(case for case in found.cases if case.question_type == "single_hop")
    assert answered.expected["answer"].isdigit()
    assert answered.expected["relevant"] == answered.metadata["sources"]
    assert answered.difficulty == "easy"
    unanswerable = next(case for case in found.cases if case.question_type == "unanswerable")
    assert unanswerable.expected["unanswerable"]


def test_same_seed_makes_the_same_set_and_another_seed_another(judge):
    one, two, other = made(8, seed=3), made(8, seed=3), made(8, seed=4)
    assert [case.query for case in one.cases] == [case.query for case in two.cases]
    assert [case.query for case in one.cases] != [case.query for case in other.cases]


def test_duplicates_are_removed_and_asked_again(judge):
    judge.reply = lambda asked: scripted(asked, fact=lambda given: min(given["attempt"], 3) - 1)
    found = made(45)
    assert len({case.query for case in found.cases}) == len(found.cases) == 45
    assert found.taken["duplicate"] > 0


def test_unanswerable_question_is_dropped_when_an_answer_is_required(judge):
    judge.reply = lambda asked: scripted(asked) | {"answerable": False}
    found = made(4)
    assert found.cases == []
    assert found.taken["not_answerable"] > 0
    assert found.missing == {"single_hop": 4}


def test_answerable_question_is_dropped_when_none_is_required(judge):
    judge.reply = lambda asked: scripted(asked) | {"answerable": True}
    found = made(3, shares={"unanswerable": 1.0})
    assert found.cases == []
    assert found.taken["answerable"] > 0


def test_question_whose_quote_is_in_no_passage_is_dropped(judge):
    judge.reply = lambda asked: scripted(asked, quotes=["The harbour opened in 1999."])
    found = made(3)
    assert found.cases == []
    assert found.taken["not_grounded"] == 3 * 4


def test_question_that_does_not_retrieve_its_passage_is_dropped(judge):
    judge.reply = lambda asked: scripted(asked, question="Why is it so quiet on Sundays?")
    found = made(2)
    assert found.taken["round_trip"] >= 1
    assert found.cases == []


def test_malformed_reply_is_counted_and_loses_nothing_else(judge):
    judge.reply = lambda asked: {"nonsense": 1} if read(asked)["attempt"] == 1 else scripted(asked)
    found = made(5)
    assert len(found.cases) == 5
    assert found.taken["unreadable"] == 5


def test_personal_data_is_never_sent_and_is_in_no_case(judge):
    judge.reply = lambda asked: scripted(asked, answer="Ask anna@example.org")
    found = made(4)
    assert "clerk@" not in json.dumps(judge.requests)
    assert "anna@example.org" not in "".join(case.model_dump_json() for case in found.cases)
    assert found.masked >= 4


def test_failing_endpoint_ends_the_run_and_keeps_finished_cases(judge):
    judge.script(["ok"] * 40 + ["401"] * 40)
    found = made(40)
    assert 0 < len(found.cases) < 40
    assert found.stopped


def test_endpoint_that_requests_a_long_wait_is_not_called_again(judge):
    judge.always = "429_long"
    with pytest.raises(JudgeError):
        made(n=1)
    assert len(judge.requests) == 1


def test_synthesis_stops_at_the_judge_budget(judge, redis_url, monkeypatch, tmp_path):
    monkeypatch.setenv("GROUNDWATCH_REDIS_URL", redis_url)
    monkeypatch.setenv("GROUNDWATCH_BUDGET_USD_PER_DAY", "0.05")
    (tmp_path / "towns.md").write_text(document())
    monkeypatch.chdir(tmp_path)
    found = CliRunner().invoke(app, ["synthesize", "towns.md", "-n", "40", "-o", "set.jsonl"])
    assert found.exit_code == 1
    assert "stopped early: the judge's budget of $0.05 a day" in found.stdout.replace("\n", " ")
    assert 0 < len(TestSet.read(tmp_path / "set.jsonl")) < 40


def test_command_writes_a_set_that_eval_can_read(judge, tmp_path, monkeypatch):
    (tmp_path / "towns.md").write_text(document())
    monkeypatch.chdir(tmp_path)
    words = ["synthesize", ".", "-n", "10", "--share", "unanswerable=30%", "-o", "set.jsonl"]
    found = CliRunner().invoke(app, words)
    assert found.exit_code == 0, found.output
    cases = list(TestSet.read(tmp_path / "set.jsonl"))
    assert sum(case.question_type == "unanswerable" for case in cases) == 3
    assert "personal data was masked" in found.stdout


@pytest.mark.parametrize("share", ["nonsense=3%", "single_hop", "single_hop=120%"])
def test_invalid_share_is_refused(judge, tmp_path, share):
    (tmp_path / "a.txt").write_text(document())
    found = CliRunner().invoke(app, ["synthesize", str(tmp_path), "--share", share])
    assert found.exit_code == 2


def test_documents_without_text_are_refused(tmp_path):
    (tmp_path / "a.txt").write_text(" ")
    with pytest.raises(RecordError, match="no document has any text"):
        read_documents([tmp_path])
    (tmp_path / "b.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(RecordError, match="not UTF-8"):
        read_documents([tmp_path])


def test_chunks_are_cut_at_paragraphs_and_lose_no_text():
    text = "\n\n".join(f"Paragraph {n}. " + "Some words follow here. " * 60 for n in range(12))
    chunks = chunks_of({"a.md": text, "b.md": "x. " * 4_000})
    assert all(len(chunk.text) <= 3_600 for chunk in chunks)
    joined = " ".join(chunk.text for chunk in chunks)
    assert all(f"Paragraph {n}." in joined for n in range(12))
    assert chunks[0].chunk_id == "a.md#1"


def test_counts_of_kinds_add_up():
    assert counts_of(7, {"single_hop": 1, "multi_hop": 1, "summary": 1}).total() == 7

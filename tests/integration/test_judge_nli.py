"""The NLI judge runs real ONNX code, on a model so small that its verdicts are known."""

import json
import subprocess
import sys

import onnx
import pytest
from onnx import TensorProto, helper
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from monitor.contrib.nli import NliJudge, NliModel
from monitor.errors import SettingsError
from monitor.scoring.pipeline import JudgementScorer
from monitor.scoring.registry import make_scorer, resolve_metrics
from monitor.settings import Settings
from monitor.testing import make_interaction

SENTENCE = "refunds take five days not never the shop opens at nine cards are blue x y z ? ."
WORDS = SENTENCE.split()
NOT = WORDS.index("not")
THREE_WAY = ("entailment", "neutral", "contradiction")
FACT, OTHER = "refunds take five days", "the shop opens at nine"


def node(kind, *inputs, to, **attributes):
    return helper.make_node(kind, list(inputs), [to], **attributes)


def graph(columns, steep):
    """
    Entailed: every token of the claim is in the premise; contradicted: the premise has "not".

    ``columns`` orders the three scores as the labels are.
    """
    scores = {"entailment": "entails", "neutral": "half", "contradiction": "against"}
    nodes = [
        node("Equal", "token_type_ids", "one", to="in_claim"),
        helper.make_node("Cast", ["in_claim"], ["claim"], to=TensorProto.FLOAT),
        node("Where", "in_claim", "minus", "input_ids", to="premise"),
        node("Unsqueeze", "premise", "last", to="rows"),
        node("Unsqueeze", "input_ids", "middle", to="cells"),
        node("Equal", "rows", "cells", to="same"),
        helper.make_node("Cast", ["same"], ["same_f"], to=TensorProto.FLOAT),
        node("ReduceMax", "same_f", "middle", to="there", keepdims=0),
        node("Mul", "there", "claim", to="found"),
        node("ReduceSum", "found", "middle", to="founds", keepdims=1),
        node("ReduceSum", "claim", "middle", to="claims", keepdims=1),
        node("Div", "founds", "claims", to="share"),
        node("Sub", "share", "most", to="over"),
        node("Mul", "over", "steep", to="entails_raw"),
        node("Equal", "premise", "not_id", to="negated"),
        helper.make_node("Cast", ["negated"], ["negated_f"], to=TensorProto.FLOAT),
        node("ReduceMax", "negated_f", "middle", to="denied", keepdims=1),
        node("Mul", "denied", "steep", to="against"),
        node("Sub", "entails_raw", "against", to="entails"),
        node("Mul", "share", "zero", to="half"),
        node("Concat", *(scores[each] for each in columns), to="logits", axis=1),
    ]  # fmt: skip
    constants = {
        "one": (TensorProto.INT64, [1]),
        "minus": (TensorProto.INT64, [-1]),
        "not_id": (TensorProto.INT64, [NOT + 4]),
        "last": (TensorProto.INT64, [2]),
        "middle": (TensorProto.INT64, [1]),
        "most": (TensorProto.FLOAT, [0.9]),
        "steep": (TensorProto.FLOAT, [steep]),
        "zero": (TensorProto.FLOAT, [0.0]),
    }
    shape = ["batch", "tokens"]
    return helper.make_graph(
        nodes,
        "overlap",
        [
            helper.make_tensor_value_info(name, TensorProto.INT64, shape)
            for name in ("input_ids", "token_type_ids")
        ],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", len(columns)])],
        [helper.make_tensor(name, kind, [1], values) for name, (kind, values) in constants.items()],
    )


def save(folder, *, columns=THREE_WAY, labels=None, longest=32, place="model.onnx", steep=40.0):
    """Write a model as exporters lay it out."""
    tokens = {"[PAD]": 0, "[CLS]": 1, "[SEP]": 2, "[UNK]": 3}
    vocabulary = tokens | {word: number for number, word in enumerate(WORDS, start=4)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 1), ("[SEP]", 2)],
    )
    folder.mkdir(exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {"id2label": dict(enumerate(labels or columns)), "max_position_embeddings": 514}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    told = json.dumps({"model_max_length": longest})
    (folder / "tokenizer_config.json").write_text(told, encoding="utf-8")
    made = helper.make_model(graph(columns, steep), opset_imports=[helper.make_opsetid("", 18)])
    made.ir_version = 9
    onnx.checker.check_model(made)
    (folder / place).parent.mkdir(exist_ok=True)
    onnx.save(made, str(folder / place))
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save(tmp_path_factory.mktemp("nli") / "tiny")


@pytest.fixture(scope="module")
def judge(folder):
    return NliJudge(NliModel(str(folder)), str(folder))


def judged(judge, output, *contexts):
    return judge.judge(make_interaction(output=output, contexts=list(contexts)))


def test_best_passage_counts_when_there_are_several(judge):
    [claim] = judged(judge, FACT, OTHER, FACT, "cards are blue").claims
    assert (claim.verdict, claim.context_index, claim.evidence) == ("supported", 1, FACT)
    assert claim.support > 0.9


def test_claim_against_a_passage_is_contradicted(judge):
    [claim] = judged(judge, FACT, OTHER, "refunds take not five days").claims
    assert (claim.verdict, claim.context_index) == ("contradicted", 1)
    assert claim.support < 0.1


def test_claim_absent_from_the_passages_is_not_found(judge):
    assert judged(judge, FACT, OTHER).claims[0].verdict == "not_found"


def test_nli_score_is_the_mean_over_claims(folder):
    scorer = make_scorer(Settings(scorer="nli", nli_model=str(folder), metrics=("groundedness",)))
    [evaluation] = scorer.score(
        make_interaction(output=f"{FACT}.\ncards are blue?\n{OTHER}.", contexts=[f"{FACT}."])
    )
    supports = [c["support"] for c in evaluation.metadata["claims"] if c["verdict"] != "no_claim"]
    assert len(supports) == 2
    assert evaluation.score == pytest.approx(sum(supports) / 2, abs=1e-4)
    assert evaluation.score == pytest.approx(0.5, abs=0.05)
    assert evaluation.evaluator_version.startswith("nli-tiny-")


def test_citation_is_right_if_the_model_finds_that_its_passage_entails_the_claim(folder):
    settings = Settings(scorer="nli", nli_model=str(folder), metrics=("citation_accuracy",))
    # Of the last the local scorer, which counts words by sentences, would say that it does.
    contexts = [f"{FACT}.", "", f"cards {FACT}.", f"{FACT}. cards are not blue."]
    marks = make_interaction(output=f"{FACT} [1][3][4].", contexts=contexts)
    [found] = make_scorer(settings).score(marks)
    assert found.metadata["verdicts"] == [1.0, 1.0, 0.0]


CONTRADICTING = [f"{FACT}.", f"{OTHER}.", "refunds take not five days."]


@pytest.mark.parametrize(
    "metrics", [("passage_contradictions",), ("faithfulness", "passage_contradictions")]
)
def test_passages_contradict_each_other_if_the_model_finds_it(folder, metrics):
    settings = Settings(scorer="nli", nli_model=str(folder), metrics=metrics)
    *_, found = make_scorer(settings).score(make_interaction(contexts=CONTRADICTING))
    assert found.metadata["pairs"] == [(1, 3)]
    assert found.explanation == "Passages 1 and 3 contradict each other, says the NLI model."
    assert found.evaluator_version.startswith("screen-1+nli-tiny-")
    assert "+local-" in found.evaluator_version


def test_word_rules_find_contradictions_where_the_model_has_no_score_for_them(tmp_path):
    two_way = save(
        tmp_path / "two", columns=("entailment", "neutral"), labels=["entailment", "not_entailment"]
    )
    settings = Settings(scorer="nli", nli_model=str(two_way), metrics=("passage_contradictions",))
    conflicting = ["The tower was completed in 1889.", "The tower was completed in 1920."]
    [found] = make_scorer(settings).score(make_interaction(contexts=conflicting))
    assert (found.score, "numbers, opposites" in found.explanation) == (1.0, True)


@pytest.mark.parametrize("line", [None, 0.5])
def test_claim_is_supported_if_its_groundedness_passes(tmp_path, line):
    settings = Settings(
        scorer="nli",
        nli_model=str(save(tmp_path / "unsure", steep=10.0)),
        metrics=("groundedness",),
    )
    parameters = {} if line is None else {"groundedness": {"pass_score": line}}
    scorer = make_scorer(settings, parameters=parameters)
    [found] = scorer.score(make_interaction(output=f"{FACT}.", contexts=[f"{FACT}."]))
    passes = found.score >= found.criteria["pass_score"]
    assert (0.5 < found.score < 0.7, passes) == (True, line is not None)
    assert found.explanation.startswith("1 of 1" if passes else "0 of 1")


def test_relevance_uses_the_local_scorer(folder):
    settings = {"scorer": "nli", "nli_model": str(folder)}
    both = [make_scorer(Settings.model_validate(each)) for each in (settings, {})]
    scores = [scorer.score(make_interaction(id="a"))[1].score for scorer in both]
    assert scores[0] == scores[1]


@pytest.mark.parametrize("place", ["begin", "middle", "end"])
def test_evidence_is_found_in_a_passage_longer_than_the_model_window(judge, place):
    noise = "x y z " * 60
    text = {
        "begin": f"{FACT} {noise}",
        "middle": f"{noise}{FACT} {noise}",
        "end": f"{noise}{FACT}",
    }[place]
    assert judged(judge, FACT, text).claims[0].verdict == "supported"


def test_window_keeps_room_for_the_premise_when_the_claim_is_endless(judge):
    assert judged(judge, "refunds take " * 100, "refunds take").claims[0].verdict == "supported"


def test_each_passage_is_judged_alone_when_many_fill_several_batches(judge):
    passages = [OTHER] * 40 + [FACT] + ["cards are blue " * 20] * 10
    [claim] = judged(judge, FACT, *passages).claims
    assert (claim.verdict, claim.context_index) == ("supported", 40)


@pytest.mark.parametrize(
    ("columns", "labels"),
    [
        (("contradiction", "entailment", "neutral"), None),
        (("neutral", "contradiction", "entailment"), ["NEUTRAL", "CONTRADICTION", "ENTAILMENT"]),
    ],
)
def test_label_order_is_read_from_the_model(tmp_path, columns, labels):
    name = str(save(tmp_path / "m", columns=columns, labels=labels))
    judge = NliJudge(NliModel(name), name)
    assert judged(judge, FACT, FACT).claims[0].verdict == "supported"
    assert judged(judge, FACT, f"not {FACT}").claims[0].verdict == "contradicted"


def test_two_label_model_contradicts_nothing(tmp_path):
    labels = ["entailment", "not_entailment"]
    name = str(save(tmp_path / "m", columns=("entailment", "neutral"), labels=labels))
    judge = NliJudge(NliModel(name), name)
    assert judged(judge, FACT, FACT).claims[0].verdict == "supported"
    assert judged(judge, FACT, f"not {FACT}").claims[0].verdict == "not_found"


def test_graph_in_the_hub_folder_layout_is_found(tmp_path):
    assert NliModel(str(save(tmp_path / "m", place="onnx/model.onnx")))


def test_version_changes_with_the_model_weights(folder, tmp_path):
    other = save(tmp_path / "tiny", columns=THREE_WAY[::-1])
    assert NliModel(str(other)).fingerprint != NliModel(str(folder)).fingerprint


def test_labels_are_not_guessed_when_a_model_does_not_name_them(tmp_path):
    name = str(save(tmp_path / "m", labels=["LABEL_0", "LABEL_1", "LABEL_2"]))
    with pytest.raises(SettingsError, match="id2label"):
        NliModel(name)


@pytest.mark.parametrize(
    ("columns", "labels"),
    [
        (("entailment",), None),  # softmax of one score is 1, whatever it says
        (("entailment", "neutral"), THREE_WAY),
        (THREE_WAY, ("entailment", "neutral")),
    ],
)
def test_model_is_refused_when_it_does_not_give_a_score_a_label(tmp_path, columns, labels):
    name = str(save(tmp_path / "m", columns=columns, labels=labels))
    with pytest.raises(SettingsError, match=r"GROUNDWATCH_NLI_MODEL.*gives scores of shape"):
        NliModel(name)


def test_nan_score_is_a_failure_and_not_zero(tmp_path):
    name = str(save(tmp_path / "m", steep=float("inf")))  # which is multiplied by 0
    judge = NliJudge(NliModel(name), name)
    [evaluation] = JudgementScorer(
        judge, resolve_metrics(Settings(metrics=("groundedness",)))
    ).score(make_interaction(output=f"{FACT}.", contexts=[FACT]))
    assert (evaluation.status, evaluation.score) == ("failed", None)
    assert evaluation.error.code == "judge_reply_invalid"


def test_missing_graph_names_the_export_command(tmp_path):
    (save(tmp_path / "m") / "model.onnx").unlink()
    with pytest.raises(SettingsError, match="optimum-cli export onnx"):
        NliModel(str(tmp_path / "m"))


def test_model_that_cannot_be_found_is_named(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(SettingsError, match="nobody/nothing is not a folder here"):
        NliModel("nobody/nothing")


def test_missing_model_names_the_setting():
    with pytest.raises(SettingsError, match="GROUNDWATCH_NLI_MODEL"):
        make_scorer(Settings(scorer="nli"))


def test_missing_extra_names_the_pip_command():
    program = (
        "import sys; sys.modules['onnxruntime'] = None\n"
        "from monitor.scoring.registry import make_scorer\n"
        "from monitor.settings import Settings\n"
        "make_scorer(Settings(scorer='nli', nli_model='x'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert "pip install 'groundwatch[nli]'" in done.stderr


def test_code_and_signature_are_no_claims(judge):
    output = f"{FACT}\n\n```\nx y z\n```\n\nKind regards,\nAnna"
    verdicts = [claim.verdict for claim in judged(judge, output, FACT).claims]
    assert verdicts == ["supported", *["no_claim"] * 3]

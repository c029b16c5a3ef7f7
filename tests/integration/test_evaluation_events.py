"""Evaluations as OpenTelemetry events, at a real OTLP/HTTP receiver."""

import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from pydantic import SecretStr

from monitor.contrib.evaluation_events import EvaluationEvents
from monitor.models import ErrorInfo, Evaluation
from monitor.queue.consumer import connect
from monitor.queue.snapshot import read_events
from monitor.settings import Settings
from monitor.testing import make_evaluation, make_interaction, make_sample
from support.waiting import wait_until
from workers.context import Components
from workers.scoring_run import ScoringRules, result_of

RULES = ScoringRules(pass_score=0.7, bucket_s=60)
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


class Receiver:
    """Takes OTLP logs; ``status`` is what it answers, and it waits while ``gate`` is shut."""

    def __init__(self):
        self.requests, self.status, self.gate = [], 200, threading.Event()
        self.gate.set()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.gate.wait(100)
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                if receiver.status == 200:
                    receiver.requests.append(ExportLogsServiceRequest.FromString(body))
                self.send_response(receiver.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()
        self.url = SecretStr(f"http://127.0.0.1:{self.server.server_port}/v1/logs")

    def records(self):
        return [
            record
            for request in self.requests
            for resource in request.resource_logs
            for scope in resource.scope_logs
            for record in scope.log_records
        ]

    def close(self):
        self.gate.set()
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def receiver():
    found = Receiver()
    yield found
    found.close()


def result(*evaluations, **fields):
    sample = make_sample(make_interaction(**fields))
    return result_of(sample, evaluations, RULES, now=sample.sampled_at)


def attributes(record):
    return {
        item.key: getattr(item.value, item.value.WhichOneof("value")) for item in record.attributes
    }


def told(receiver, *results, **options):
    events = EvaluationEvents(receiver.url, **options)
    events.send(results)
    events.close()
    return events.counts()


def test_evaluation_is_an_event_of_the_convention_in_its_trace(receiver):
    evaluation = make_evaluation(score=0.4, explanation="secret words")
    metadata = {"span_id": SPAN, "response_id": "resp-1"}
    found = result(evaluation, id="i-1", app="shop", trace_id=TRACE, metadata=metadata)
    assert told(receiver, found)["sent"] == 1
    (record,) = receiver.records()
    assert record.event_name == "gen_ai.evaluation.result"
    assert (record.trace_id.hex(), record.span_id.hex()) == (TRACE, SPAN)
    got = attributes(record)
    assert got.pop("groundwatch.evaluator.version").startswith("local-1")
    assert got == {
        "gen_ai.evaluation.name": "groundedness",
        "gen_ai.evaluation.score.value": 0.4,
        "gen_ai.evaluation.score.label": "fail",
        "gen_ai.response.id": "resp-1",
        "groundwatch.app": "shop",
        "groundwatch.interaction.id": "i-1",
        "groundwatch.evaluation.id": evaluation.evaluation_id,
    }


def test_explanations_are_exported_only_on_request(receiver):
    found = result(make_evaluation(explanation="it is so"))
    told(receiver, found, explanations=True)
    assert attributes(receiver.records()[0])["gen_ai.evaluation.explanation"] == "it is so"


def test_failed_evaluation_event_has_an_error_and_skipped_ones_none(receiver):
    error = ErrorInfo(type="Timeout", message="", code="judge_timeout")
    common = {"target_event_id": "x", "evaluator_name": "groundedness", "evaluator_version": "1"}
    found = result(
        Evaluation.failed(error=error, **common), Evaluation.skipped(reason="no_contexts", **common)
    )
    assert told(receiver, found)["sent"] == 1
    got = attributes(receiver.records()[0])
    assert got["error.type"] == "judge_timeout"
    assert not [name for name in got if "score" in name]


@pytest.mark.parametrize("trace_id", [None, "", "not-hex" + "0" * 25, "12"])
def test_invalid_trace_id_is_left_out(receiver, trace_id):
    told(receiver, result(make_evaluation(), trace_id=trace_id))
    assert receiver.records()[0].trace_id == b""


def test_events_are_sent_in_batches(receiver):
    told(receiver, *(result(make_evaluation()) for _ in range(1_200)))
    assert len(receiver.records()) == 1_200
    assert len(receiver.requests) <= 4


def test_hanging_receiver_does_not_delay_scoring_and_drops_are_counted(receiver):
    receiver.gate.clear()
    events = EvaluationEvents(receiver.url, most_waiting=50)
    results = [result(make_evaluation()) for _ in range(200)]
    events.send(results)  # returns, though nobody takes anything
    assert events.counts() == {"sent": 0, "failed": 0, "dropped": 150, "waiting": 50}
    receiver.gate.set()
    events.close()
    assert events.counts() == {"sent": 50, "failed": 0, "dropped": 150, "waiting": 0}
    assert len(receiver.records()) == 50


def test_events_a_receiver_refuses_are_counted_as_failed(receiver):
    receiver.status = 400
    assert told(receiver, result(make_evaluation())) == {
        "sent": 0, "failed": 1, "dropped": 0, "waiting": 0
    }  # fmt: skip


def test_worker_exports_the_evaluations_it_stored(receiver, store, redis_url):
    from monitor.queue import wire

    context = Components(
        Settings(redis_url=redis_url, evaluation_events_url=receiver.url.get_secret_value())
    )
    context.__dict__["store"] = store
    for _ in range(3):
        context.redis.xadd("groundwatch:samples", wire.encode(make_sample()))
    context.scoring_run(lambda: True).run(budget_s=20)
    wait_until(lambda: len(receiver.records()) >= 6)
    names = [attributes(record)["gen_ai.evaluation.name"] for record in receiver.records()]
    assert sorted(names) == ["groundedness"] * 3 + ["relevance"] * 3
    context.report_events()
    context.__dict__.pop("store")
    context.close()
    with connect(redis_url) as client:
        assert read_events(client) == {"sent": 6}


def test_drops_of_all_workers_are_counted_once(receiver, redis_url):
    receiver.status = 400
    url = receiver.url.get_secret_value()
    for _ in range(2):
        context = Components(Settings(redis_url=redis_url, evaluation_events_url=url))
        context.events.send([result(make_evaluation())])
        context.report_events()
        context.close()
    with connect(redis_url) as client:
        assert read_events(client) == {"failed": 2}


def test_evaluation_events_are_off_by_default():
    assert Components(Settings()).events is None

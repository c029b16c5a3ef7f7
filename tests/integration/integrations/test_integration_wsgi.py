"""The WSGI middleware records what handlers set, and passes everything on as it comes."""

import threading
import urllib.request
from io import BytesIO
from wsgiref.simple_server import WSGIRequestHandler, make_server
from wsgiref.util import FileWrapper, setup_testing_defaults
from wsgiref.validate import validator

import pytest
from flask import Flask, Response, request

from monitor.integrations.wsgi import InteractionMiddleware, current

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.fixture
def flask():
    app = Flask("bot")

    @app.post("/")
    def answer():
        it = current()
        it.query, it.contexts, it.output = request.get_data(as_text=True), ["c"], "a"
        return "a"

    return app


def called(app, **environ):
    """Call an application as a server does: body and whether it was handed on as it was."""
    setup_testing_defaults(environ)
    body = app(environ, lambda status, headers, exc_info=None: lambda data: None)
    try:
        return b"".join(body), body
    finally:
        getattr(body, "close", bool)()


def test_flask_request_is_recorded_with_what_its_headers_say(hook, recorded, flask):
    flask.wsgi_app = InteractionMiddleware(flask.wsgi_app, hook=hook, user_header="X-User")
    headers = {
        "traceparent": f"00-{TRACE}-00f067aa0ba902b7-01", "X-Session-Id": "s", "X-User": "u",
    }  # fmt: skip
    assert flask.test_client().post("/", data="q", headers=headers).text == "a"
    [it] = recorded()
    assert (it.query, it.contexts[0].text, it.output) == ("q", "c", "a")
    assert (it.trace_id, it.session_id, it.user_id) == (TRACE, "s", "u")


def test_streamed_answer_is_not_delayed_by_a_real_server(hook, recorded, flask):
    go_on = threading.Event()

    @flask.get("/stream")
    def stream():
        def parts():
            yield "first "
            go_on.wait(100)
            current().output = "first second"
            yield "second"

        return Response(parts())

    server = make_server(
        "127.0.0.1", 0, InteractionMiddleware(flask, hook=hook), handler_class=Quiet
    )
    thread = threading.Thread(target=server.handle_request)
    thread.start()
    try:
        url = f"http://127.0.0.1:{server.server_port}/stream"
        with urllib.request.urlopen(url, timeout=100) as response:
            assert response.read(6) == b"first "  # while the second is still to be made
            go_on.set()
            assert response.read() == b"second"
    finally:
        thread.join()
        server.server_close()
    assert recorded()[0].output == "first second"


class Quiet(WSGIRequestHandler):
    def log_message(self, *args):
        pass


def test_middleware_satisfies_the_wsgi_validator(hook, recorded):
    def app(environ, start_response):
        start_response("200 OK", [("Content-Type", "text/plain")])
        current().output = "a"
        yield b"a"

    checked = validator(InteractionMiddleware(validator(app), hook=hook))
    body, _ = called(checked, QUERY_STRING="")
    assert body == b"a"
    assert recorded()[0].output == "a"


def test_whole_answers_and_files_pass_unchanged(hook, recorded):
    whole, file = [b"a"], FileWrapper(BytesIO(b"a"))

    def app(environ, start_response):
        start_response("200 OK", [])
        current().output = "a"
        return environ["answer"]

    wrapped = InteractionMiddleware(app, hook=hook)
    for answer in (whole, file):
        _, body = called(wrapped, **{"answer": answer, "wsgi.file_wrapper": FileWrapper})
        assert body is answer
    assert len(recorded()) == 2


def test_application_is_closed_and_counted_once(hook, recorded):
    closed = []

    class Answer:
        def __iter__(self):
            return iter([b"a"])

        def close(self):
            closed.append(True)

    def app(environ, start_response):
        start_response("200 OK", [])
        current().output = "a"
        return Answer()

    _, body = called(InteractionMiddleware(app, hook=hook))
    body.close()
    assert len(closed) == 2  # as often as the server said so
    assert len(recorded()) == 1


def test_exception_of_the_application_is_raised_unchanged(hook, recorded):
    def app(environ, start_response):
        current().output = "half"
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        called(InteractionMiddleware(app, hook=hook))
    assert recorded()[0].output == "half"
    current().output = "x"
    assert current().output is None


def test_internal_error_does_not_reach_the_app(broken, flask):
    flask.wsgi_app = InteractionMiddleware(flask.wsgi_app, hook=broken)
    assert flask.test_client().post("/", data="q").text == "a"


def test_sampling_is_decided_once_for_an_unsampled_request(unsampled, flask):
    flask.wsgi_app = InteractionMiddleware(flask.wsgi_app, hook=unsampled)
    assert flask.test_client().post("/", data="q").text == "a"
    assert (unsampled.asked, unsampled.taken) == (1, [])


def test_sized_response_body_keeps_its_length(hook):
    class Sized(list):
        pass

    for answer, sized in ((Sized([b"a"]), True), (iter([b"a"]), False)):
        wrapped = InteractionMiddleware(lambda environ, start, made=answer: made, hook=hook)
        joined, body = called(wrapped)
        assert joined == b"a"
        assert hasattr(body, "__len__") is sized
        assert not sized or len(body) == 1

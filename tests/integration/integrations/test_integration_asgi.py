"""The ASGI middleware records what handlers set, and passes everything on as it comes."""

import asyncio
import contextlib
import threading
import time

import httpx
import pytest
import uvicorn
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient

from monitor.hook import sender
from monitor.integrations.asgi import InteractionMiddleware, current
from support.waiting import wait_until
from workers.supervise import free_port

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


async def answer(request):
    it = current()
    it.query, it.contexts, it.output = "q", ["c"], "a"
    return JSONResponse({"answer": "a"})


def client_of(app):
    return TestClient(app, raise_server_exceptions=False)


def wrapped(hook, *routes, **options):
    app = Starlette(routes=[Route("/", answer), *routes])
    app.add_middleware(InteractionMiddleware, hook=hook, **options)
    return app


def test_request_is_recorded_with_what_its_headers_say(hook, recorded):
    headers = {
        "traceparent": f"00-{TRACE}-00f067aa0ba902b7-01", "X-Session-ID": "s", "x-customer": "u",
    }  # fmt: skip
    app = wrapped(hook, user_header="X-Customer", tags={"lang": "en"})
    assert client_of(app).get("/", headers=headers).json() == {"answer": "a"}
    [it] = recorded()
    assert (it.query, it.contexts[0].text, it.output) == ("q", "c", "a")
    assert (it.trace_id, it.session_id, it.user_id) == (TRACE, "s", "u")
    assert it.tags == {"lang": "en"}


def test_handler_values_win_over_headers(hook, recorded):
    async def mine(request):
        current().session_id, current().output = "mine", "a"
        return JSONResponse({})

    client_of(wrapped(hook, Route("/mine", mine))).get("/mine", headers={"x-session-id": "theirs"})
    assert recorded()[0].session_id == "mine"


def test_fastapi_handlers_in_threads_reach_the_interaction(hook, recorded):
    app = FastAPI()
    app.add_middleware(InteractionMiddleware, hook=hook)

    @app.get("/{n}")
    def sync(n: str) -> str:
        time.sleep(0.01)
        current().output = n
        return n

    client = client_of(app)
    threads = [threading.Thread(target=client.get, args=(f"/{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(it.output for it in recorded()) == ["0", "1", "2", "3"]


def test_interaction_passes_through_other_middleware(hook, recorded):
    app = Starlette(routes=[Route("/", answer)])
    app.add_middleware(BaseHTTPMiddleware, dispatch=lambda request, call_next: call_next(request))
    app.add_middleware(InteractionMiddleware, hook=hook)
    assert client_of(app).get("/").status_code == 200
    assert recorded()[0].output == "a"


def test_request_without_an_output_is_not_recorded(hook, recorded):
    async def other(request):
        return JSONResponse({})

    client_of(wrapped(hook, Route("/other", other))).get("/other")
    assert recorded() == []
    assert hook.stats()["seen"] == 0


def test_exception_of_the_handler_is_raised_unchanged(hook, recorded):
    async def fails(request):
        current().output = "half"
        raise KeyError("mine")

    client = TestClient(wrapped(hook, Route("/fails", fails)))
    with pytest.raises(KeyError, match="mine"):
        client.get("/fails")
    assert recorded()[0].output == "half"


def test_internal_error_does_not_reach_the_app(broken):
    assert client_of(wrapped(broken)).get("/").json() == {"answer": "a"}


def test_sampling_is_decided_once_for_an_unsampled_request(unsampled):
    client_of(wrapped(unsampled)).get("/")
    assert (unsampled.asked, unsampled.taken) == (1, [])


def test_websockets_pass_unrecorded(hook, recorded):
    async def echo(websocket):
        await websocket.accept()
        current().output = "nobody records this"
        await websocket.send_text("hello")
        await websocket.close()

    with (
        client_of(wrapped(hook, WebSocketRoute("/ws", echo))) as client,
        client.websocket_connect("/ws") as socket,
    ):
        assert socket.receive_text() == "hello"
    assert recorded() == []


def test_current_accepts_values_outside_a_request_and_drops_them():
    current().output = "nobody records this"
    assert current().output is None


def test_streamed_answer_is_not_delayed_by_a_real_server(hook, recorded):
    go_on = threading.Event()

    async def stream(request):
        it = current()

        async def parts():
            yield "first "
            await asyncio.to_thread(go_on.wait, 10)
            it.output = "first second"
            yield "second"

        return StreamingResponse(parts())

    with served(wrapped(hook, Route("/stream", stream))) as url:
        with httpx.stream("GET", f"{url}/stream", timeout=100) as response:
            parts = response.iter_text()
            assert next(parts) == "first "  # while the second is still to be made
            assert hook.stats()["seen"] == 0
            go_on.set()
            assert next(parts) == "second"
        wait_until(lambda: hook.stats()["seen"] == 1)
    assert recorded()[0].output == "first second"


@contextlib.contextmanager
def served(app):
    server = uvicorn.Server(uvicorn.Config(app, port=free_port(), log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        wait_until(lambda: server.started)
        yield f"http://127.0.0.1:{server.config.port}"
    finally:
        server.should_exit = True
        thread.join()


def test_server_exit_does_not_wait_for_app_threads():
    end = threading.Event()

    async def deliver_beside_full_threads():
        for _ in range(100):
            asyncio.get_running_loop().run_in_executor(None, end.wait, 60)
        try:
            await asyncio.wait_for(sender.deliver(), 20)
        finally:
            end.set()

    asyncio.run(deliver_beside_full_threads())

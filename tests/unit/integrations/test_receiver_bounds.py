"""The receiver holds a bounded number of bytes, however many clients send and whatever they do."""

import asyncio
import logging

import pytest

from monitor import ingest as receiver_module
from monitor.ingest import OtlpReceiver, Services

MOST = 100


@pytest.fixture
def receiver():
    return OtlpReceiver(Services(make=None), most_bytes=MOST)


class Client:
    """One request whose body comes as the test says."""

    def __init__(self, receiver):
        self._app = receiver.app()
        self._parts = asyncio.Queue()
        self.status = None
        self.headers = {}
        self.body = b""
        self._task = asyncio.create_task(self._app(self._scope(), self._parts.get, self._send))

    @staticmethod
    def _scope():
        return {
            "type": "http", "method": "POST", "path": "/v1/traces", "query_string": b"",
            "headers": [(b"content-type", b"application/x-protobuf")],
        }  # fmt: skip

    async def _send(self, message):
        self.status = message.get("status", self.status)
        self.headers |= dict(message.get("headers", ()))
        self.body += message.get("body", b"")

    async def sends(self, part, *, more=True):
        await self._parts.put({"type": "http.request", "body": part, "more_body": more})
        for _ in range(20):  # let the receiver read it
            await asyncio.sleep(0)

    async def leaves(self):
        await self._parts.put({"type": "http.disconnect"})

    async def answered(self):
        await asyncio.wait_for(self._task, 10)
        return self.status


def test_client_beyond_the_limit_gets_429_and_can_retry(receiver):
    async def use():
        first = [Client(receiver) for _ in range(4)]
        for client in first:
            await client.sends(b"x" * (MOST - 1))
        late = Client(receiver)
        await late.sends(b"x" * 10)
        assert await late.answered() == 503
        assert late.headers[b"retry-after"] == b"1"
        for client in first:
            await client.leaves()
            await client.answered()
        again = Client(receiver)
        await again.sends(b"", more=False)
        assert await again.answered() == 200

    asyncio.run(use())
    assert receiver.refused == 1


def test_oversized_body_is_refused_before_it_is_read(receiver):
    async def use():
        client = Client(receiver)
        await client.sends(b"x" * (MOST + 1))
        assert await client.answered() == 413

    asyncio.run(use())


def test_client_disconnect_during_the_body_is_not_an_error(receiver, caplog):
    async def use():
        client = Client(receiver)
        await client.sends(b"x")
        await client.leaves()
        assert await client.answered() == 408

    with caplog.at_level(logging.INFO):
        asyncio.run(use())
    assert not caplog.records
    assert receiver.requests == 0


def test_body_that_never_arrives_times_out(receiver, monkeypatch):
    monkeypatch.setattr(receiver_module, "_BODY_WITHIN_S", 0.05)

    async def use():
        client = Client(receiver)
        await client.sends(b"x")
        assert await client.answered() == 408

    asyncio.run(use())

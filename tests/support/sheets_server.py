"""A server on loopback that speaks as much of Google's Sheets API as an export needs."""

from __future__ import annotations

import json
import re
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from monitor.testing.receivers import Serving

_ID = "spreadsheet-1"
_TOKEN = "token-of-the-test"
_BAD, _DENIED, _UNKNOWN, _TOO_MANY = 400, 403, 404, 429


class SheetsServer(Serving):
    """
    One spreadsheet; ``grids`` holds the cells of each sheet, row by row.

    ``script`` queues statuses for the next calls of the API, after which it does what it is
    asked; a queued 429 carries Retry-After. ``calls`` lists methods and paths.
    """

    def __init__(self) -> None:
        self.grids: dict[str, list[list[Any]]] = {}
        self.sizes: dict[str, tuple[int, int]] = {}
        self.calls: list[tuple[str, str]] = []
        self.assertions: list[str] = []
        self._script: deque[int] = deque()
        server = self

        class Handler(BaseHTTPRequestHandler):
            def _answer(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                status, body = server.answer(
                    self.command,
                    self.path,
                    self.rfile.read(length),
                    self.headers.get("Authorization"),
                )
                text = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                if status == _TOO_MANY:
                    self.send_header("Retry-After", "7")
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST = do_PUT = _answer  # noqa: N815

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        """The address; the API is at ``/v4/spreadsheets``, tokens at ``/token``."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def api_url(self) -> str:
        """The address of the API."""
        return f"{self.url}/v4/spreadsheets"

    def script(self, *statuses: int) -> None:
        """Queue statuses for the next calls of the API."""
        self._script.extend(statuses)

    def answer(self, method: str, path: str, body: bytes, bearer: str | None) -> tuple[int, Any]:
        """Answer one request: a status and a document."""
        parts = urlsplit(path)
        if parts.path == "/token":
            self.assertions.append(parse_qs(body.decode())["assertion"][0])
            return 200, {"access_token": _TOKEN, "expires_in": 3600, "token_type": "Bearer"}
        self.calls.append((method, unquote(parts.path)))
        # What comes over the wire while a 500 is scripted may have been done all the same.
        status = self._script.popleft() if self._script else 200
        if status in {_TOO_MANY, _DENIED, 503}:
            return status, _error(status)
        if bearer != f"Bearer {_TOKEN}":
            return 401, _error(401)
        name, _, verb = parts.path.removeprefix("/v4/spreadsheets/").partition(_ID)
        if name or not parts.path.startswith(f"/v4/spreadsheets/{_ID}"):
            return _UNKNOWN, _error(_UNKNOWN)
        done = self._do(verb, parse_qs(parts.query), json.loads(body or b"{}"))
        return done if status == 200 else (status, _error(status))

    def _do(self, verb: str, query: dict[str, list[str]], body: Any) -> tuple[int, Any]:
        if verb == "":
            return 200, {"sheets": [{"properties": self._properties(n)} for n in self.grids]}
        if verb == ":batchUpdate":
            for request in body["requests"]:
                self._change(request)
            return 200, {}
        if verb == "/values:batchGet":
            found = [self._read(place) for place in query["ranges"]]
            return 200, {"valueRanges": [{"values": v} if v else {} for v in found]}
        if verb == "/values:batchUpdate" and body["valueInputOption"] == "RAW":
            written = [self._write(d["range"], d["values"]) for d in body["data"]]
            fits = all(written)
            return (200, {}) if fits else (_BAD, _error(_BAD))
        return _BAD, _error(_BAD)

    def _properties(self, name: str) -> dict[str, Any]:
        rows, columns = self.sizes[name]
        grid = {"rowCount": rows, "columnCount": columns}
        return {"sheetId": list(self.grids).index(name), "title": name, "gridProperties": grid}

    def _change(self, request: dict[str, Any]) -> None:
        kind, change = next(iter(request.items()))
        properties = change["properties"]
        grid = properties["gridProperties"]
        if kind == "addSheet":
            name = properties["title"]
            assert name not in self.grids, "a sheet of that name is there already"
            self.grids[name] = []
        else:
            name = list(self.grids)[properties["sheetId"]]
        self.sizes[name] = (grid["rowCount"], grid["columnCount"])

    def _read(self, place: str) -> list[list[Any]]:
        """Give the values without empty cells at the ends, as Google does."""
        name, _, _, width = _parsed(place)
        rows = [_trimmed(row[:width]) for row in self.grids[name]]
        while rows and not rows[-1]:
            rows.pop()
        return rows

    def _write(self, place: str, values: list[list[Any]]) -> bool:
        name, first, last, width = _parsed(place)
        grid, (height, columns) = self.grids[name], self.sizes[name]
        if last > height or width > columns or len(values) != last - first + 1:
            return False
        while len(grid) < last:
            grid.append([])
        for number, row in enumerate(values, start=first - 1):
            grid[number] = [*row, *grid[number][len(row) :]]
        return True


def _parsed(place: str) -> tuple[str, int, int, int]:
    """Read 'name'!A2:F9, or 'name'!A1:F without an end: name, first row, last row, columns."""
    found = re.fullmatch(r"'([^']+)'!A(\d+):([A-Z]+)(\d*)", place)
    assert found is not None, place
    width = 0
    for letter in found[3]:
        width = 26 * width + ord(letter) - 64
    return found[1], int(found[2]), int(found[4] or 0), width


def _trimmed(row: list[Any]) -> list[Any]:
    while row and row[-1] == "":
        row = row[:-1]
    return row


def _error(status: int) -> dict[str, Any]:
    return {"error": {"code": status, "message": "no", "status": "NO"}}

"""Sheets in a Google spreadsheet: rows that are there are renewed, new ones follow below."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Final, NamedTuple

import gspread
from google.auth.exceptions import GoogleAuthError, TransportError
from google.oauth2.service_account import Credentials
from gspread.exceptions import APIError
from gspread.http_client import HTTPClient
from gspread.urls import SPREADSHEETS_API_V4_BASE_URL
from gspread.utils import absolute_range_name, rowcol_to_a1
from requests.exceptions import RequestException

from monitor.errors import DeliveryError, SettingsError
from monitor.report.sheets import Cell, Sheet
from monitor.retry import retry_after_s

_SCOPES: Final = ("https://www.googleapis.com/auth/spreadsheets",)
_TIMEOUT_S: Final = 60.0
#: Google counts calls by the minute; so long is waited, in all, for it to let one through.
_WAITS_S: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
_LONGEST_WAIT_S: Final = 120.0
_PASSES: Final = frozenset({429, 500, 502, 503, 504})
_ROWS_A_CALL: Final = 2_000
_REFUSED, _NOT_FOUND = 403, 404


class Written(NamedTuple):
    """What became of the rows of one sheet."""

    name: str
    added: int
    renewed: int


class _PatientClient(HTTPClient):
    """Waits where Google says that it is too much, and for as long as it says."""

    api_url = SPREADSHEETS_API_V4_BASE_URL
    sleep: Callable[[float], None] = staticmethod(time.sleep)

    def request(self, method: str, endpoint: str, *args: Any, **more: Any) -> Any:
        """Send a request until it is answered, or refused for good."""
        url = endpoint.replace(SPREADSHEETS_API_V4_BASE_URL, self.api_url, 1)
        for wait_s in _WAITS_S:
            try:
                return super().request(method, url, *args, **more)
            except APIError as error:
                if error.response.status_code not in _PASSES:
                    raise
                asked_s = retry_after_s(error.response.headers) or wait_s
                self.sleep(min(asked_s, _LONGEST_WAIT_S))
        return super().request(method, url, *args, **more)


def write_google(
    sheets: Sequence[Sheet],
    spreadsheet: str,
    account: Path,
    *,
    api_url: str | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> list[Written]:
    """
    Write the sheets into the spreadsheet of that id, as the service account in a file.

    Every row has a key and a place: writing again changes what changed and adds what is
    new, and a call that is repeated writes the same cells. Columns to the right of ours
    are left unchanged. Texts are written as they are, and run as nothing.

    Raises
    ------
    SettingsError
        If the file is not a key of a service account, it may not write there, or a sheet of
        that name has other columns.
    DeliveryError
        If Google cannot be reached, or goes on saying that it is too much.
    """
    try:
        credentials = Credentials.from_service_account_file(  # type: ignore[no-untyped-call]
            str(account), scopes=_SCOPES
        )
    except (OSError, ValueError) as problem:
        raise SettingsError(
            f"{account} is not a key file of a Google service account ({type(problem).__name__})"
        ) from None
    client = gspread.authorize(credentials, http_client=_PatientClient).http_client
    assert isinstance(client, _PatientClient)
    client.api_url, client.sleep = api_url or SPREADSHEETS_API_V4_BASE_URL, sleep
    client.set_timeout(_TIMEOUT_S)
    try:
        return _write(client, spreadsheet, sheets)
    except APIError as error:
        status, address = error.response.status_code, credentials.service_account_email
        if status == _REFUSED:
            raise SettingsError(
                f"Google refuses: share the spreadsheet with {address} as an editor"
            ) from None
        if status == _NOT_FOUND:
            raise SettingsError(
                "Google knows no such spreadsheet; its id is what stands between /d/ and /edit"
            ) from None
        raise DeliveryError(
            f"Google answers {status}", code=f"http_{status}", transient=status in _PASSES
        ) from None
    except (TransportError, RequestException) as error:
        kind = type(error).__name__
        raise DeliveryError(f"Google cannot be reached: {kind}", code=f"http:{kind}") from None
    except GoogleAuthError:
        raise SettingsError(
            f"Google does not take the key in {account}; was it deleted, or is the clock wrong?"
        ) from None


def _write(client: HTTPClient, spreadsheet: str, sheets: Sequence[Sheet]) -> list[Written]:
    found = client.fetch_sheet_metadata(spreadsheet)
    grids = {item["properties"]["title"]: item["properties"] for item in found["sheets"]}
    there = [sheet for sheet in sheets if sheet.name in grids]
    known: dict[str, list[list[Any]]] = {}
    if there:
        answer = client.values_batch_get(
            spreadsheet,
            [_range(sheet, 1, None) for sheet in there],
            {"valueRenderOption": "UNFORMATTED_VALUE"},
        )
        for sheet, values in zip(there, answer["valueRanges"], strict=True):
            known[sheet.name] = values.get("values", [])
    plans = [_Plan.make(sheet, known.get(sheet.name, [])) for sheet in sheets]
    requests = [change for plan in plans if (change := _room(plan, grids))]
    if requests:
        client.batch_update(spreadsheet, {"requests": requests})
    for block in _blocks(plans):
        client.values_batch_update(spreadsheet, {"valueInputOption": "RAW", "data": block})
    return [Written(plan.sheet.name, plan.added, plan.renewed) for plan in plans]


class _Plan(NamedTuple):
    """Which rows of a sheet go where; rows are numbered from 1, and the first is the header."""

    sheet: Sheet
    rows: list[tuple[int, Sequence[Cell]]]
    height: int
    added: int
    renewed: int

    @classmethod
    def make(cls, sheet: Sheet, values: Sequence[Sequence[Any]]) -> _Plan:
        width = len(sheet.columns)
        header = list(values[0]) if values else []
        if header and header[:width] != list(sheet.columns):
            raise SettingsError(
                f"the sheet {sheet.name!r} has other columns; rename or delete it, and a new one"
                " will be made"
            )
        keys = [sheet.columns.index(name) for name in sheet.key]
        places = {
            _key(row, keys): number for number, row in enumerate(values[1:], start=2) if any(row)
        }
        height, whole = max(len(values), 1), range(width)
        rows: dict[int, Sequence[Cell]] = {} if header else {1: list(sheet.columns)}
        added = renewed = 0
        for row in sheet.rows:
            number = places.get(_key(row, keys))
            if number is None:
                height = number = height + 1
                places[_key(row, keys)] = number
                added += 1
            elif number <= len(values) and _key(values[number - 1], whole) == _key(row, whole):
                continue
            else:
                renewed += 1
            rows[number] = row
        return cls(sheet, sorted(rows.items()), height, added, renewed)


def _room(plan: _Plan, grids: dict[str, dict[str, Any]]) -> dict[str, Any] | None:
    """Make the sheet, or make it as large as the rows need; None where it is."""
    height, width = max(plan.height, 2), len(plan.sheet.columns)
    known = grids.get(plan.sheet.name)
    if known is None:
        grid = {"rowCount": height, "columnCount": width, "frozenRowCount": 1}
        return {"addSheet": {"properties": {"title": plan.sheet.name, "gridProperties": grid}}}
    now = known["gridProperties"]
    if now["rowCount"] >= height and now["columnCount"] >= width:
        return None
    grid = {
        "rowCount": max(now["rowCount"], height),
        "columnCount": max(now["columnCount"], width),
    }
    fields = "gridProperties.rowCount,gridProperties.columnCount"
    properties = {"sheetId": known["sheetId"], "gridProperties": grid}
    return {"updateSheetProperties": {"properties": properties, "fields": fields}}


def _blocks(plans: Sequence[_Plan]) -> list[list[dict[str, Any]]]:
    """Put rows that follow each other into one range, and not too many into one call."""
    rows = [(plan.sheet, number, row) for plan in plans for number, row in plan.rows]
    blocks = []
    for start in range(0, len(rows), _ROWS_A_CALL):
        block = []
        # In a run of rows, numbers grow as their places in the list do.
        runs = groupby(
            enumerate(rows[start : start + _ROWS_A_CALL]),
            key=lambda item: (item[1][0].name, item[1][1] - item[0]),
        )
        for _, items in runs:
            run = [row for _, row in items]
            cells = [["" if cell is None else cell for cell in row] for *_, row in run]
            where = _range(run[0][0], run[0][1], run[-1][1])
            block.append({"range": where, "values": cells})
        blocks.append(block)
    return blocks


def _range(sheet: Sheet, first: int, last: int | None) -> str:
    width = len(sheet.columns)
    end = rowcol_to_a1(last or 1, width)
    if last is None:
        end = end.rstrip("0123456789")
    return absolute_range_name(sheet.name, f"A{first}:{end}")


def _key(row: Sequence[Any], places: Sequence[int]) -> tuple[str, ...]:
    """Return cells as texts, 3600 and 3600.0 as one, as they are for Google."""
    cells = (row[place] if place < len(row) else None for place in places)
    return tuple(
        "" if cell is None
        else repr(float(cell)) if isinstance(cell, int | float) else str(cell)
        for cell in cells
    )  # fmt: skip

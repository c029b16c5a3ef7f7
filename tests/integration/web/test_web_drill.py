"""A drill of the alerts is marked as a test wherever it is shown, and is in no export."""

import re
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from alerts.drill import begin_drill
from monitor.models import Status
from monitor.report.sheets import sheets_of
from monitor.settings import Settings
from monitor.store.engine import Store
from monitor.store.schema import migrate
from monitor.store.verdicts import save_verdicts
from monitor.testing import make_verdict
from monitor.web.charts import ChartThresholds
from monitor.web.templating import render_html
from monitor.web.time_range import app_path, incident_path
from workers.reports import read_report

NOW = datetime.now(UTC)


@pytest.fixture
def drilled(client_with, tmp_path):
    """An app that is well, after a drill."""
    settings = Settings.from_env({"GROUNDWATCH_HOME": str(tmp_path)})
    store = Store(settings.sql_url)
    migrate(store)
    with store.write() as connection:
        save_verdicts(connection, [make_verdict(Status.HEALTHY, NOW, app="shop")], {})
    client = client_with(world=SimpleNamespace(home=str(tmp_path)))
    name = begin_drill(store, "shop", NOW).incident_id
    report = read_report(store, settings, now=datetime.now(UTC), window_s=86_400)
    yield SimpleNamespace(get=client.get, incident_id=name, report=report)
    store.close()


def levels(text):
    """Return each mention of a level, with the word before it."""
    return re.findall(r"(\S+) ■ critical", re.sub(r"<[^>]+>", "", text))


@pytest.mark.parametrize("place", ["app", "incidents", "incident"])
def test_drill_is_marked_as_a_test_on_every_page(drilled, place):
    page = {
        "app": app_path("shop"), "incidents": "/incidents",
        "incident": incident_path(drilled.incident_id),
    }[place]  # fmt: skip
    text = drilled.get(page).text
    assert levels(text)
    assert {re.sub(r".*(TEST)$", r"\1", word) for word in levels(text)} == {"TEST"}


def test_title_and_markdown_of_a_drill_say_test(drilled):
    path = incident_path(drilled.incident_id)
    [title] = re.findall("<title>(.*)</title>", drilled.get(path).text)
    assert "TEST critical incident, shop drill" in title
    assert drilled.get(f"{path}.md").text.startswith("# shop, drill: TEST critical")


def test_drill_is_marked_in_the_report_and_left_out_of_exports(drilled):
    page = render_html(drilled.report, ChartThresholds(warning=0.85, critical=0.7))
    assert "drill, TEST critical, resolved after" in page
    [rows] = [sheet.rows for sheet in sheets_of(drilled.report) if sheet.name == "incidents"]
    assert rows == []

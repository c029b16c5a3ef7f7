"""
The story of the demo: what happens, what is waited for, and what must have happened.

It plays on a `Stage`: real servers on loopback, real processes, one folder for everything.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path

from monitor.demo.screen import DemoCheck, Screen
from monitor.models import Status
from monitor.report.model import Report
from monitor.settings import PREFIX, Settings, variable
from monitor.store.engine import Store
from monitor.store.schema import migrate
from monitor.testing.receivers import MailReceiver, SlackReceiver
from workers.reports import read_report
from workers.stack import announced, plan_stack
from workers.supervise import Supervisor

_METRIC = "groundedness"
_LOOK_EVERY_S = 0.25
_LEAST_WINDOW_S = 20
#: What an escalation or a reminder begins with: news of an incident that is known already.
_GOES_ON = ("NOW ", "STILL ")


class DemoFailed(Exception):
    """Something that the demo shows did not happen in time."""


APP = "support-bot"
ON_CALL = "oncall@example.org"

#: A monitor in a hurry: seconds where production has minutes, so that a minute shows it all.
_HURRY = {
    "app": APP,
    "sample_rate": "0.5",
    "bucket_s": "1",
    "status_window_s": "10",
    "windows_s": "10,60",
    "reference_s": "600",
    "min_n": "30",
    "evaluate_every_s": "0.5",
    "warning_for_s": "4",
    "critical_for_s": "2",
    "resolve_after_s": "4",
    "worker_processes": "1",
    "log_format": "json",
    "email_from": "groundwatch@example.org",
    "email_to": ON_CALL,
}


@dataclass(slots=True, kw_only=True)
class Stage:
    """Everything that runs, and the ways to look at it."""

    folder: Path
    settings: Settings
    store: Store
    slack: SlackReceiver
    mail: MailReceiver
    supervisor: Supervisor
    environment: dict[str, str]
    shop: subprocess.Popen[str] | None = None

    def open_shop(self) -> None:
        """Start the app, with nothing but the hook's settings."""
        self.shop = subprocess.Popen(
            [sys.executable, "-P", "-m", "monitor.demo.shop"],
            env=self.environment | {variable("enabled"): "true"},
            stdin=subprocess.PIPE,
            stderr=(self.folder / "shop.log").open("w"),
            text=True,
        )

    def tell_shop(self, command: str) -> None:
        """Break or repair the app's retrieval."""
        assert self.shop is not None
        assert self.shop.stdin is not None
        self.shop.stdin.write(command + "\n")
        self.shop.stdin.flush()

    def close_shop(self) -> None:
        """Close the app; its hook delivers what it still has."""
        if self.shop is None or self.shop.stdin is None or self.shop.poll() is not None:
            return
        self.shop.stdin.close()
        try:
            self.shop.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.shop.kill()
            self.shop.wait()

    @property
    def pids(self) -> dict[str, int]:
        """The process id of everything that was started."""
        shop = {"shop": self.shop.pid} if self.shop is not None else {}
        return self.supervisor.pids | shop


@contextmanager
def built_stage(folder: Path) -> Iterator[Stage]:
    """Build the stage in *folder*, and take it down again whatever happens."""
    with ExitStack() as stack:
        slack = stack.enter_context(SlackReceiver())
        mail = stack.enter_context(MailReceiver())
        usual = {variable("openai_api_key"), variable("openai_base_url")}
        inherited = {
            key: value for key, value in os.environ.items()  # noqa: TID251
            if not key.startswith(PREFIX) and key not in usual
        }  # fmt: skip
        ours = _HURRY | {"home": str(folder), "slack_webhook_url": slack.url, "smtp_url": mail.url}
        environment = inherited | {variable(name): value for name, value in ours.items()}
        settings = Settings.from_env(environment)
        store = Store(settings.sql_url)
        stack.callback(store.close)
        migrate(store)
        plan = plan_stack(settings, environment)
        stack.enter_context(announced(settings, plan))
        supervisor = Supervisor(plan.services, listener=lambda *_: None)
        stack.callback(supervisor.stop)
        stage = Stage(
            folder=folder, settings=settings, store=store, slack=slack, mail=mail,
            supervisor=supervisor, environment=environment,
        )  # fmt: skip
        stack.callback(stage.close_shop)
        supervisor.start()
        yield stage


@dataclass(slots=True)
class Story:
    """Plays the acts on a stage, and remembers what it saw."""

    stage: Stage
    screen: Screen
    pace: float  #: 1 for people, less for machines: how long each state is shown
    seen: list[Status] = field(default_factory=list)
    _opened_s: float = field(default_factory=time.monotonic)
    _n_received: tuple[int, int] = (0, 0)  #: on Slack and by email

    def play(self) -> Report:
        """Play healthy, broken, recovered; return the final report."""
        screen = self.screen
        screen.act("The shop opens: customers ask, the bot answers, every second one is sampled.")
        self.stage.open_shop()
        self._until("the first healthy status", lambda: self._status() is Status.HEALTHY, 40)
        self._look(6)
        screen.act("Retrieval breaks: the index returns the wrong articles. Nobody gets an error.")
        self.stage.tell_shop("break")
        self._until("a critical status", lambda: self._status() is Status.CRITICAL, 30)
        self._until("the alert on Slack and by email", lambda: all(self._titles()), 30)
        self._look(3)
        screen.act("Retrieval is repaired.")
        self.stage.tell_shop("repair")
        self._until("a healthy status again", lambda: self._status() is Status.HEALTHY, 40)
        resolved = lambda: all("RESOLVED" in " ".join(part) for part in self._titles())  # noqa: E731
        self._until("the all-clear on Slack and by email", resolved, 30)
        screen.act("The shop closes; what it sampled is scored to the last one.")
        self.stage.close_shop()
        self._until("the last score", lambda: self._report().apps[0].ledger.queued == 0, 20)
        self._refresh()
        return self._report()

    def checks(self, report: Report) -> list[DemoCheck]:
        """List what must be true for the demo to have succeeded."""
        slack, mail = self._titles()
        ledger = report.apps[0].ledger
        ended = ledger.scored + sum(ledger.failed.values()) + sum(ledger.skipped.values())
        dropped = sum(ledger.dropped.values())
        path = (s for s in self.seen if s in {Status.HEALTHY, Status.CRITICAL})
        story = [status for status, _ in groupby(path)]
        expected = [Status.HEALTHY, Status.CRITICAL, Status.HEALTHY]
        whole = ledger.sampled == dropped + ended and ledger.queued == 0
        where = f"sampled {ledger.sampled:,} = dropped {dropped} + ended {ended:,}"
        adds_up = ledger.seen == ledger.sampled + ledger.not_sampled > 0
        parts = f"{ledger.seen:,} = {ledger.sampled:,} + {ledger.not_sampled:,}"
        return [
            DemoCheck("status", story == expected, " → ".join(story)),
            _notified_once("Slack", slack),
            _notified_once("email", mail),
            DemoCheck("every sample has ended somewhere", whole, where),
            DemoCheck("seen = sampled + not sampled", adds_up, parts),
        ]

    def _status(self) -> Status:
        return self.seen[-1] if self.seen else Status.INSUFFICIENT_DATA

    def _titles(self) -> tuple[list[str], list[str]]:
        slack = [str(message.get("text", "")) for message in self.stage.slack.messages]
        mail = [str(message["Subject"]) for message in self.stage.mail.messages]
        return slack, mail

    def _report(self) -> Report:
        window_s = max(_LEAST_WINDOW_S, int(time.monotonic() - self._opened_s) + 1)
        now = datetime.now(UTC)
        return read_report(self.stage.store, self.stage.settings, now=now, window_s=window_s)

    def _look(self, seconds: float) -> None:
        """Let people look for a while."""
        end = time.monotonic() + seconds * self.pace
        while time.monotonic() < end:
            self._refresh()

    def _until(self, what: str, happened: Callable[[], bool], within_s: float) -> None:
        end = time.monotonic() + within_s
        while not happened():
            if time.monotonic() > end:
                raise DemoFailed(f"{what} did not come within {within_s:.0f} s")
            self._refresh()

    def _refresh(self) -> None:
        self.stage.supervisor.check()
        report = self._report()
        for app in report.apps:
            for change in app.changes:
                self.screen.changed(change)
            current = [m.verdict.status for m in app.metrics if m.metric == _METRIC]
            if app.app == APP and current and (not self.seen or self.seen[-1] is not current[0]):
                self.seen.append(current[0])
        titles = self._titles()
        for where, found, n in zip(("Slack", "email"), titles, self._n_received, strict=True):
            for title in found[n:]:
                self.screen.received(where, title)
        self._n_received = len(titles[0]), len(titles[1])
        self.screen.show(report)
        time.sleep(_LOOK_EVERY_S)


def _notified_once(where: str, titles: list[str]) -> DemoCheck:
    """Return whether the incident was notified once, and its end once."""
    words = [title.lstrip("[") for title in titles]
    ended = sum(word.startswith("RESOLVED") for word in words)
    fired = sum(not word.startswith(("RESOLVED", *_GOES_ON)) for word in words)
    escalated = len(titles) - fired - ended
    more = f", {escalated} of them an escalation" if escalated else ""
    return DemoCheck(
        f"{where}: fired and resolved, once each",
        (fired, ended) == (1, 1),
        f"{len(titles)} messages{more}",
    )


def run(*, quick: bool, keep: bool, picture: Path | None = None) -> bool:
    """Run the demo; tell whether all that it shows happened."""
    started_s = time.monotonic()
    # A job that is cancelled takes the stage down as well.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("demo: stopped"))
    folder = Path(tempfile.mkdtemp(prefix="groundwatch-demo-"))
    screen = Screen()
    screen.begin(folder)
    pids: dict[str, int] = {}
    try:
        with built_stage(folder) as stage, screen:
            story = Story(stage, screen, pace=0.2 if quick else 1.0)
            try:
                report = story.play()
            finally:
                pids = stage.pids
            screen.end()
            if picture is not None:
                screen.save(picture)
            screen.messages(stage.slack.messages, stage.mail.messages)
            screen.report(report)
            checks = story.checks(report)
    except DemoFailed as error:
        screen.failed(str(error), [folder / "shop.log", *sorted((folder / "logs").glob("*.log"))])
        return False
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
    alive = []
    for name, pid in pids.items():
        with suppress(ProcessLookupError):
            os.kill(pid, 0)
            alive.append(name)
    left = alive + ([str(folder)] if folder.exists() and not keep else [])
    found = ", ".join(left) or f"{len(pids)} processes ended"
    checks.append(DemoCheck("nothing left behind", not left, found))
    screen.verdict(checks, time.monotonic() - started_s, folder if keep else None)
    return all(check.holds for check in checks)

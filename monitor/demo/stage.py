"""The stage of the demo: real servers on loopback, real processes, one folder for all of it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from monitor.settings import PREFIX, Settings, variable
from monitor.store.engine import Store, migrate
from monitor.testing.receivers import MailReceiver, SlackReceiver
from workers.stack import announced, plan_stack
from workers.supervise import Supervisor

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
            key: value
            for key, value in os.environ.items()  # noqa: TID251
            if not key.startswith(PREFIX) and key not in usual
        }
        ours = _HURRY | {
            "home": str(folder),
            "slack_webhook_url": slack.url,
            "smtp_url": mail.url,
        }
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
            folder=folder,
            settings=settings,
            store=store,
            slack=slack,
            mail=mail,
            supervisor=supervisor,
            environment=environment,
        )
        stack.callback(stage.close_shop)
        supervisor.start()
        yield stage

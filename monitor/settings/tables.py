"""The settings that few people change, in tables by topic; each is an environment variable too."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    field_validator,
)

from .kinds import (
    Days,
    Dollars,
    Names,
    Seconds,
    a_reference,
    a_zone,
    an_http_url,
    parse_objective,
    read_json,
    split_commas,
)


class Table(BaseModel):
    """Settings that few people change, together; each is an environment variable as well."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class HookLimits(Table):
    """Bounds of the hook: how much it keeps in the app's memory and in Redis."""

    buffer_samples: int = Field(
        2_000, gt=0, description="Samples kept in the app's memory; more are dropped and counted."
    )
    buffer_chars: int = Field(
        16_000_000, gt=0, description="Characters kept in the app's memory; more are dropped."
    )
    max_text_chars: int = Field(
        200_000, gt=0, description="Characters kept of one sample; the rest is cut, with a flag."
    )
    queue_limit: int = Field(
        50_000,
        gt=0,
        description="Samples that may wait in Redis; the hook drops more and counts them.",
    )
    queue_limit_megabytes: int = Field(
        300, gt=0, description="About how much may wait in Redis; keep it well below its maxmemory."
    )


class JudgeLimits(Table):
    """Bounds of one judgement: time, attempts, calls in flight, tokens, and the verdict cache."""

    judge_timeout_s: Seconds = Field(
        30.0, description="Longest time for all of the judge's answers about one sample."
    )
    judge_attempts: int = Field(
        3, ge=1, le=10, description="Tries per sample before it is `failed`."
    )
    judge_concurrency: int = Field(
        50,
        ge=1,
        le=200,
        description="Most judge calls in flight per process; it begins with 8 and adapts.",
    )
    judge_input_tokens: int = Field(
        16_000,
        ge=1_000,
        description="Most tokens of query, passages and output in one judge call; longer passages "
        "are cut to what bears on query and output.",
    )
    judge_pieces: int = Field(
        8,
        ge=0,
        le=1_000,
        description="Pieces of the passages, of about 100 tokens, that the judge is sent for each "
        "sentence and the query where the passages have more than 1,000 tokens; 0 sends all that "
        "fits.",
    )
    verdict_cache_s: int = Field(
        86_400, ge=0, description="How long a verdict is kept for the same texts; 0: not at all."
    )


class JudgeBudget(Table):
    """What the judge may cost, and what happens when that is spent."""

    budget_usd_per_hour: Dollars | None = Field(
        None, description="The judge may cost all workers together this much an hour."
    )
    budget_usd_per_day: Dollars | None = Field(
        None, description="The same a day; a day begins at midnight UTC."
    )
    budget_usd_per_month: Dollars | None = Field(None, description="The same a calendar month.")
    budget_policy: Literal["lower", "local", "stop"] | None = Field(
        None,
        description="As a budget runs out: `lower` the judge's share in time, then stop; `local` "
        "scores alone, then; `stop` skips samples. Unset: `lower` for `cascade`, else `stop`.",
    )


class JudgePrices(Table):
    """What the judge's tokens cost."""

    judge_usd_per_million_input_tokens: float | None = Field(
        None, ge=0, description="Price of the judge's input; unset: the built-in table."
    )
    judge_usd_per_million_output_tokens: float | None = Field(
        None, ge=0, description="Price of the judge's output; unset: the built-in table."
    )
    prices: Path | None = Field(
        None, description="JSON file with prices of models, beside the built-in table."
    )


class WorkerTimers(Table):
    """How long samples may wait, and when a worker counts as dead or stalled."""

    abandoned_after_s: Seconds = Field(
        60.0, description="Silence after which a dead worker's samples are handed to another."
    )
    stall_after_s: float = Field(
        60.0,
        ge=5,
        description="A worker that has begun nothing for so long, while samples wait and Redis "
        "answers, ends itself so that its supervisor starts another.",
    )
    behind_after_s: float = Field(
        300.0,
        gt=0,
        le=300,
        description="Samples that have waited in Redis for so long are scored after those that are "
        "new, and give way first when the queue is full.",
    )
    expire_after_s: Annotated[int, Field(ge=0)] = Field(
        86_400,
        description="Samples that have waited in Redis for so long are not scored any more, but "
        "counted as expired; 0: never.",
    )


class Windows(Table):
    """Buckets, and the windows and the reference that are sums of them."""

    status_window_s: int = Field(3600, gt=0, description="Window of the status that alerts use.")
    windows_s: Annotated[tuple[int, ...], BeforeValidator(split_commas)] = Field(
        (300, 3600, 86_400), description="Windows that are shown, in seconds, separated by commas."
    )
    reference_s: int = Field(
        7 * 86_400, gt=0, description="Length of the reference before the window, for drift."
    )
    bucket_s: int = Field(60, gt=0, description="Width of a bucket; windows are sums of buckets.")
    settle_s: int = Field(
        600, ge=0, description="What comes this long after its bucket's end is counted as late."
    )


class Objective(BaseModel, frozen=True, extra="forbid"):
    """How soon a fall of the pass rate is to be found, of the apps and metrics that it names."""

    app: str | None = None
    metric: str | None = None
    detect: str  #: such as ``15 points in 2h``
    false_alarms_per_month: Annotated[float, Field(gt=0)] | None = None

    @field_validator("detect")
    @classmethod
    def _is_read(cls, value: str) -> str:
        parse_objective(value)
        return value

    @property
    def fall(self) -> float:
        """The fall of the pass rate, in (0, 1)."""
        return parse_objective(self.detect)[0]

    @property
    def within_s(self) -> int:
        """The seconds in which at least half of such falls are to be found."""
        return parse_objective(self.detect)[1]


class StatusRules(Table):
    """What holds for some apps and metrics only: the rule that makes a status, and objectives."""

    status_policies: str | None = Field(
        None,
        description="Other rules for some apps and metrics, as JSON: "
        '`[{"app": "shop", "metric": "relevance", "policy": "wilson"}]`; the first that fits.',
    )
    objectives: Annotated[tuple[Objective, ...], BeforeValidator(read_json)] = Field(
        (),
        description="How soon a fall is to be found, proven every night, as JSON: "
        '`[{"app": "shop", "detect": "15 points in 2h", "false_alarms_per_month": 1}]`; the first '
        "that fits. In `groundwatch.toml`: `[[objectives]]`.",
    )


class DriftDetection(Table):
    """What drift is measured against, and its false-alarm budget."""

    drift_reference: Annotated[str, AfterValidator(a_reference)] = Field(
        "trailing",
        description="What drift is measured against: `trailing` (the days before), `same_hour`"
        " (a week ago), `release:NAME`, or a span as `2026-11-01/2026-11-08`.",
    )
    drift_budget: float = Field(
        1.0, gt=0, description="False findings of drift to expect in 30 days, over everything."
    )


class RetentionTimes(Table):
    """How long each kind of data is kept."""

    keep_texts_days: Days = Field(
        30, description="What users wrote and got is deleted after this; what counts stays."
    )
    keep_evaluations_days: Days = Field(
        90, description="Evaluations with their reasons, and the rest of their samples."
    )
    keep_buckets_days: float = Field(
        2, ge=1, description="Buckets as wide as GROUNDWATCH_BUCKET_S; later only hours are kept."
    )
    keep_hours_days: float = Field(35, ge=10, description="Hours; later only days are kept.")
    keep_days_days: float = Field(400, ge=35, description="Days.")
    keep_incidents_days: Days = Field(
        400, description="Incidents that are over, their timelines, and changes of a status."
    )
    keep_outbox_days: Days = Field(90, description="Messages that were sent or given up.")
    keep_audit_days: Days = Field(400, description="The record of who did and saw what.")
    keep_poison_days: Days = Field(30, description="Entries of the queue that became dead letters.")


class AlertTimers(Table):
    """
    How long a status must last to alert or resolve, and how often an alert is repeated.

    A policy that collects evidence waits only as long as the first three are set to.
    """

    warning_for_s: float = Field(600, ge=0, description="A warning must hold this long to alert.")
    critical_for_s: float = Field(300, ge=0, description="A critical must hold this long to alert.")
    resolve_after_s: float = Field(900, ge=0, description="Healthy this long resolves an alert.")
    repeat_after_s: float = Field(
        14_400, gt=0, description="A critical alert that goes on is repeated this often."
    )
    warning_repeat_after_s: float = Field(
        86_400, gt=0, description="A warning that goes on is repeated this often."
    )
    reopen_within_s: float = Field(
        1_800, ge=0, description="What fires again this soon after it resolved is one incident."
    )


class DeadMansSwitchCalls(Table):
    """A call to an outside service for as long as the whole chain works."""

    dead_mans_switch_url: Annotated[SecretStr, AfterValidator(an_http_url)] | None = Field(
        None, description="Called regularly, and only while the whole chain works; unset: no call."
    )
    dead_mans_switch_every_s: Seconds = Field(60.0, description="How often it is called.")


class DigestSchedule(Table):
    """A page about the day or week, by mail and chat; see docs/reports.md."""

    digest: Literal["off", "daily", "weekly"] = Field(
        "off", description="A page about the day or week, by mail and chat; see docs/reports.md."
    )
    digest_hour: int = Field(
        8, ge=0, le=23, description="Hour of the day at which it comes; weekly ones on Mondays."
    )
    digest_timezone: Annotated[str, AfterValidator(a_zone)] = Field(
        "UTC", description="Time zone of that hour and of its times, such as `Europe/Stockholm`."
    )
    digest_channels: Names = Field(
        (), description="Channels that get it; unset: all but those that only wake people."
    )


class WebAccess(Table):
    """Who may open the page."""

    web_tokens: SecretStr | None = Field(
        None,
        description="Who may come with a bearer token, as `name:role:hash`, separated by commas; "
        "`groundwatch web --new-token NAME:ROLE` makes one. Those of `groundwatch tokens` come "
        "in addition.",
    )
    web_require_authentication: bool = Field(
        False,
        description="Ask this machine as well for a token or a password; tokens of "
        "`groundwatch tokens create` are then enough to listen on other addresses.",
    )
    web_users: SecretStr | None = Field(
        None,
        description="Who may come with a password, as `name:role:hash`, separated by commas, with "
        "`:app+app` behind it who sees some apps only; `groundwatch web --new-password NAME:ROLE` "
        "or `NAME:ROLE:APP+APP` makes one.",
    )
    web_proxy_user_header: str | None = Field(
        None, description="Header in which a proxy that has authenticated people names them."
    )
    web_trusted_proxies: Names = Field(
        ("127.0.0.1", "::1"), description="Addresses of proxies whose header is believed."
    )
    web_proxy_role: Literal["viewer", "reader", "operator"] = Field(
        "reader", description="Role of whoever such a proxy names."
    )
    web_proxy_groups_header: str | None = Field(
        None,
        description="Header in which such a proxy lists somebody's groups, separated by commas; "
        "they then see only the apps of their groups.",
    )
    web_group_apps: Names = Field(
        (), description="Apps of groups, such as `payments=shop,ops=*`; `*` stands for all apps."
    )
    feedback_origins: Names = Field(
        (),
        description="Web pages that may send users' feedback to `/api/v1/feedback` without a "
        "token, such as `https://app.example.com`; without any, none may.",
    )


class EventExport(Table):
    """Evaluations as OpenTelemetry events."""

    evaluation_events_url: Annotated[SecretStr, AfterValidator(an_http_url)] | None = Field(
        None,
        description="Workers send each evaluation as an event there, such as"
        " `http://127.0.0.1:4318/v1/logs`; unset: none. See docs/reports.md.",
    )
    evaluation_events_explanations: bool = Field(
        False, description="Put explanations into these events; they may quote an answer."
    )

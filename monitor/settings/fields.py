"""Every setting of every process: one environment variable each."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

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
    DEFAULT_REDIS_URL,
    Days,
    Dollars,
    Names,
    Rate,
    Seconds,
    a_home,
    a_redis_url,
    a_reference,
    a_zone,
    addresses,
    an_http_url,
    an_smtp_url,
    dimensions,
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
        2, ge=1, description="Buckets as wide as GROUNDWATCH_BUCKET_S; then hours speak for them."
    )
    keep_hours_days: float = Field(35, ge=10, description="Hours; then days speak for them.")
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


def _table(table: type[Table]) -> Any:
    """Return the field of a table: what its docstring says first is its description."""
    return Field(table(), description=(table.__doc__ or "").strip().partition("\n")[0])


class Fields(BaseModel):
    """All settings; the descriptions are the manual."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    home: Annotated[Path, AfterValidator(a_home)] = Field(
        Path("~/.groundwatch"),
        validate_default=True,
        description="Folder for all data of this machine.",
    )
    redis_url: Annotated[str, AfterValidator(a_redis_url)] | None = Field(
        None,
        description="Redis or Valkey; TLS and sentinels: docs/redis.md. Unset: the one that "
        f"`groundwatch up` runs, else `{DEFAULT_REDIS_URL}`.",
    )
    database_url: str | None = Field(
        None, description="Store, as `postgresql+psycopg://...`. Unset: SQLite in the home folder."
    )
    redis_port: int = Field(
        0, ge=0, le=65535, description="Port of the Redis that `up` runs; 0 takes a free one."
    )
    enabled: bool = Field(True, description="Switch the hook off altogether with `false`.")
    app: str = Field("default", min_length=1, description="Name of the app that is watched.")
    sample_rate: Rate = Field(0.05, description="Share of interactions that is sampled.")
    min_rate: Rate = Field(0.0, description="The workers may lower the rate to this.")
    max_rate: Rate = Field(1.0, description="The workers may raise the rate to this.")
    sample_rules: str | None = Field(
        None, description="Other rates for some apps, tags or users, as JSON; see the manual."
    )
    release: str | None = Field(None, description="Version of the app, put on every sample.")
    environment: str | None = Field(None, description="Such as `production`, put on every sample.")
    mask: str | None = Field(
        None,
        description="What is hidden before anything leaves the app: `builtin`, or some of `key`, "
        "`email`, `iban`, `card`, `ip`, `phone`, separated by commas.",
    )
    capture: Literal["full", "metadata"] = Field(
        "full", description="`metadata` sends no texts, only lengths, counts, tags and ids."
    )
    hook_limits: HookLimits = _table(HookLimits)
    metrics: Names = Field(
        ("groundedness", "relevance"), description="Metrics to score, separated by commas."
    )
    metrics_file: Path | None = Field(
        None, description="TOML with parameters of metrics and metrics of your own; see the manual."
    )
    scorer: Literal["auto", "local", "judge", "cascade", "nli"] = Field(
        "auto",
        description="`local` needs no key; `judge` asks the LLM named below; `cascade` scores all "
        "locally and asks the LLM where it tells most; `nli` runs a cross-encoder here; `auto` is "
        "`cascade` where a judge is configured with a budget, else `local`.",
    )
    judge_share: float = Field(
        0.1, gt=0, le=1, description="Share of samples about which a `cascade` asks its judge."
    )
    embedding_model: str | None = Field(
        None,
        description="Folder, or id on the Hugging Face hub, of the sentence-embedding model that "
        "the local scorer uses besides: sentence-transformers/all-MiniLM-L6-v2 "
        "(pip install 'groundwatch[embedding]'); unset: none.",
    )
    nli_model: str | None = Field(
        None, description="Folder or hub id of a cross-encoder with an ONNX file, for `nli`."
    )
    openai_api_key: SecretStr | None = Field(None, description="Key of the judge's endpoint.")
    openai_base_url: str | None = Field(None, description="Any OpenAI-compatible endpoint.")
    judge_model: str = Field("gpt-4.1-mini", min_length=1, description="Model that judges.")
    judge_limits: JudgeLimits = _table(JudgeLimits)
    judge_budget: JudgeBudget = _table(JudgeBudget)
    judge_prices: JudgePrices = _table(JudgePrices)
    worker_processes: int = Field(
        2, ge=1, le=256, description="Processes of the worker that `up` and `worker` start."
    )
    worker_timers: WorkerTimers = _table(WorkerTimers)
    pass_score: Rate = Field(
        0.7,
        description="A score at or above this passes. Unless it is set, the local scorer has lines "
        "of its own: relevance 0.2, groundedness the app's own, from 0.2 to 0.5.",
    )
    warning_rate: Rate = Field(0.85, description="A pass rate below this is a warning.")
    critical_rate: Rate = Field(0.70, description="A pass rate below this is critical.")
    min_n: int = Field(30, ge=1, description="Scores needed before a status is given.")
    status_policy: str = Field(
        "anytime",
        min_length=1,
        description="Rule that makes a status: `anytime`, `anytime_strict`, `wilson`, "
        "`point_min_n`, `point`, an entry point, or `package.module:function`.",
    )
    status_rules: StatusRules = _table(StatusRules)
    false_alarms_per_month: float = Field(
        1.0,
        gt=0,
        description="False alarms of the whole project in 30 days, on average, that `anytime` may "
        "raise; no stream gets more than a tenth. 10 is sensitive, 0.1 is quiet.",
    )
    windows: Windows = _table(Windows)
    segments: Annotated[Names, AfterValidator(dimensions)] = Field(
        ("release", "environment", "model", "prompt_version", "variant", "route", "language"),
        description="Fields and tags by whose values the traffic is also counted apart.",
    )
    experiments: Annotated[Names, AfterValidator(dimensions)] = Field(
        ("variant",),
        description="Tags between whose values `groundwatch.choose` splits traffic, by the pass "
        "rates of the first metric; they are counted apart as well.",
    )
    drift: DriftDetection = _table(DriftDetection)
    evaluate_every_s: Seconds = Field(5.0, description="How often statuses are computed.")
    retention: RetentionTimes = _table(RetentionTimes)
    alert_timers: AlertTimers = _table(AlertTimers)
    slack_webhook_url: Annotated[SecretStr, AfterValidator(an_http_url)] | None = Field(
        None, description="Slack incoming webhook; unset: no Slack."
    )
    smtp_url: Annotated[SecretStr, AfterValidator(an_smtp_url)] | None = Field(
        None, description="`smtp://user:password@host:587`; unset: no email."
    )
    email_from: str = Field("groundwatch@localhost", description="Sender of alert emails.")
    email_to: Annotated[Names, AfterValidator(addresses)] = Field(
        (), description="Receivers of alert emails, separated by commas."
    )
    alert_explanations: bool = Field(
        True,
        description="Send examples and the scorer's explanations to Slack and email; they quote"
        " answers. Channels of the alerts file say `explanations = false`.",
    )
    alerts_file: Annotated[Path, AfterValidator(a_home)] | None = Field(
        None,
        description="Channels, routes and maintenance windows as a TOML file; see docs/routes.md.",
    )
    dead_mans_switch: DeadMansSwitchCalls = _table(DeadMansSwitchCalls)
    delivery_timeout_s: Seconds = Field(20.0, description="Longest time one delivery may take.")
    report_url: str | None = Field(
        None, description="Address of the page (web), for links in alerts; `up` knows its own."
    )
    digest_schedule: DigestSchedule = _table(DigestSchedule)
    web_host: str = Field(
        "127.0.0.1",
        min_length=1,
        description="Address the page listens on; any but this machine's own needs authentication.",
    )
    web_port: int = Field(8642, ge=0, le=65535, description="Port of the page; 0 takes a free one.")
    web_access: WebAccess = _table(WebAccess)
    evaluation_events: EventExport = _table(EventExport)
    otlp_token: SecretStr | None = Field(
        None,
        description="Bearer token that `groundwatch otlp` asks of senders; needed to listen on any "
        "but this machine's own address.",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Least serious log line that is written."
    )
    log_format: Literal["auto", "json", "console"] = Field(
        "auto", description="`auto` is `console` on a terminal and `json` elsewhere."
    )


_FIRST_OF_TOPIC = {
    "home": "Where things are",
    "enabled": "The hook, in your app",
    "metrics": "Scoring",
    "pass_score": "Status",
    "retention": "How long things are kept",
    "alert_timers": "Alerts",
    "web_host": "The page",
    "evaluation_events": "OpenTelemetry",
    "log_level": "Logs",
}


#: Names of settings and tables by topic, in the order of the manual.
TOPICS: dict[str, tuple[str, ...]] = {}
_topic = ""
for _name in Fields.model_fields:
    _topic = _FIRST_OF_TOPIC.get(_name, _topic)
    TOPICS[_topic] = (*TOPICS.get(_topic, ()), _name)

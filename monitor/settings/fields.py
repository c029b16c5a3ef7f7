"""Every setting of every process: one environment variable each."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr

from .kinds import (
    DEFAULT_REDIS_URL,
    Names,
    Rate,
    Seconds,
    a_home,
    a_redis_url,
    addresses,
    an_http_url,
    an_smtp_url,
    dimensions,
)
from .tables import (
    AlertTimers,
    DeadMansSwitchCalls,
    DigestSchedule,
    DriftDetection,
    EventExport,
    HookLimits,
    JudgeBudget,
    JudgeLimits,
    JudgePrices,
    RetentionTimes,
    StatusRules,
    Table,
    WebAccess,
    Windows,
    WorkerTimers,
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
        "the local scorer uses for relevance, and metrics for similarity: "
        "sentence-transformers/all-MiniLM-L6-v2 "
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

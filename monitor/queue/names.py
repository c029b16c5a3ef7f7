"""Every name in Redis and Celery, in one place; all begin with ``groundwatch``."""

from __future__ import annotations

#: The bounded stream of samples, one entry a sample.
SAMPLES = "groundwatch:samples"
#: The bounded stream of users' feedback, and how many of its entries were stored, ever.
FEEDBACK = "groundwatch:feedback"
FEEDBACK_STORED = "groundwatch:feedback:stored"
#: The consumer group through which workers read it.
GROUP = "groundwatch"
#: List of stretches of the stream that are read when nothing new waits, the newest first.
LATER = "groundwatch:later"
#: Sorted set of hook ids by the time of their last heartbeat, in epoch milliseconds.
HOOKS = "groundwatch:hooks"
#: Sorted set of workers by the time, in epoch seconds, at which they were last alive.
WORKERS = "groundwatch:workers"
#: Sorted set of workers by the time, in epoch seconds, at which a drain they woke last began.
ANSWERED = "groundwatch:heard"
#: Hash of the workers that ended themselves: how many, and when and why the last one did.
STALLS = "groundwatch:stalls"
#: How many entries workers have acknowledged and deleted, ever.
ACKNOWLEDGED = "groundwatch:acknowledged"
#: Hash of the judge's calls under way: what was reserved for each, and until when.
BUDGET_HELD = "groundwatch:budget:held"
#: Sorted set of the keys of kept verdicts, by the time they were kept, in epoch seconds.
VERDICTS = "groundwatch:verdicts"
#: Hash of the OpenTelemetry events about evaluations: how many were sent, failed, dropped, ever.
EVENTS = "groundwatch:events"
#: The app of test interactions: stored, but neither scored nor counted anywhere.
DOCTOR_APP = "groundwatch-doctor"
#: Fields of a stream entry.
FIELD_VERSION = "v"
FIELD_APP = "app"
FIELD_BODY = "body"

CELERY_QUEUE = "groundwatch.drain"
TASK_SCORE = "groundwatch.score"
#: Prefix that Celery's own keys get.
CELERY_PREFIX = "groundwatch:celery:"

#: Functions that return a key: the hash with the cumulative counters of one hook,
hook = "groundwatch:hook:{}".format
#: the sampling rate that workers ask the hooks of one app for,
rate = "groundwatch:rate:{}".format
#: the shares of traffic that the variants of an app's experiments get,
experiments = "groundwatch:experiments:{}".format
#: what the judge was charged in the current hour, day or month,
budget = "groundwatch:budget:{}".format
#: one kept verdict,
verdict = "groundwatch:verdict:{}".format
#: the hash with the rate limits of a judge's endpoint,
judge_pace = "groundwatch:judge:pace:{}".format
#: what exists while the judge of an endpoint is out, and holds why,
judge_away = "groundwatch:judge:away:{}".format
#: the stream with a judge's last verdicts, each beside its local score: of app, metric, version,
calibration = "groundwatch:judge:said:{2}:{1}:{0}".format
#: and what a running drain task holds: of a worker and a number.
slot = "groundwatch:slot:{}:{}".format

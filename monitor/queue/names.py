"""Every name in Redis and Celery, in one place; all begin with ``groundwatch``."""

from __future__ import annotations

#: The bounded stream of samples, one entry a sample.
SAMPLES = "groundwatch:samples"
#: The consumer group through which workers read it.
GROUP = "groundwatch"
#: Sorted set of hook ids by the time of their last heartbeat, in epoch milliseconds.
HOOKS = "groundwatch:hooks"
#: Sorted set of workers by the time, in epoch seconds, at which they were last alive.
WORKERS = "groundwatch:workers"
#: How many entries workers have acknowledged and deleted, ever.
ACKNOWLEDGED = "groundwatch:acknowledged"
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


def hook(hook_id: str) -> str:
    """Name the hash with the cumulative counters of one hook."""
    return f"groundwatch:hook:{hook_id}"


def rate(app: str) -> str:
    """Name the key with the sampling rate that the workers ask the hooks of one app for."""
    return f"groundwatch:rate:{app}"


def slot(worker: str, number: int) -> str:
    """Name the key that a running drain task of one worker holds."""
    return f"groundwatch:slot:{worker}:{number}"

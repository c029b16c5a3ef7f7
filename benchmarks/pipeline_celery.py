"""Celery's own ceiling: a task that does nothing, given a sample as its message."""

from __future__ import annotations

import os

from celery import Celery

app = Celery("ceiling", broker=os.environ.get("CEILING_REDIS_URL"))  # noqa: TID251  # a process of its own
app.conf.update(
    task_default_queue="ceiling",
    task_ignore_result=True,
    task_serializer="json",
    accept_content=["json"],
    worker_prefetch_multiplier=50,
    broker_transport_options={"socket_timeout": 15},
)


@app.task(name="nothing")
def nothing(body: str) -> None:
    """Take a sample, and do nothing with it."""

"""The servers that the tests run against, for benchmarks."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from support.judge_replies import completion, judge_by_overlap
from support.judge_server import JudgeServer
from support.page import served_page
from support.postgres_server import PostgresServer
from support.vendor_receiver import VendorReceiver

__all__ = [
    "JudgeServer",
    "PostgresServer",
    "VendorReceiver",
    "completion",
    "judge_by_overlap",
    "served_page",
]

"""Faults in the middle of traffic, through all the real processes: nothing lost or doubled."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
FAULTS = ("redis-stalls", "redis-loses", "disk-full", "redelivery", "network-drips")
TRAFFIC = ("--seconds", "3", "--rate", "60")


@pytest.mark.timeout(600)  # many processes start, on a machine that may be busy
def test_chaos_loses_and_duplicates_no_sample():
    done = subprocess.run(
        [sys.executable, "-m", "support.chaos", "--json", *TRAFFIC, "--fault", *FAULTS],
        cwd=TESTS, capture_output=True, text=True, timeout=580, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    for line in json.loads(done.stdout.splitlines()[-1]):
        assert (line["lost"], line["doubled"], line["reconciled"]) == (0, 0, True), line
        assert line["sampled"] == 180

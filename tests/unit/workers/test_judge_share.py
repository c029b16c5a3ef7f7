"""The share that a cascade's judge is asked about, read from the store now and then."""

from monitor.store.engine import Store
from workers.scoring_run import JudgeShare


def test_judge_share_falls_back_when_the_store_is_unreadable(tmp_path):
    share = JudgeShare(Store(f"sqlite:///{tmp_path}/missing/groundwatch.db"), 0.1)
    assert share("app") == 0.1

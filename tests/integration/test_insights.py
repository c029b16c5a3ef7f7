"""What explains a status: from stored samples to segments, drift, deploys, trend and inputs."""

from collections import Counter
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from sqlalchemy import select

from alerts.routing import Recipient
from monitor.errors import LeaseLostError
from monitor.report.model import Report
from monitor.report.render import render_markdown
from monitor.rolling.baseline import ReferenceSpan
from monitor.settings import Settings
from monitor.stats.intervals import wilson_interval
from monitor.store.drift import bins_by_bucket, read_findings
from monitor.store.engine import acquire
from monitor.store.query import active_streams, series
from monitor.store.rollup import read_inputs
from monitor.store.tables import bucket_bins, buckets, drift_states, input_bins, streams
from monitor.store.verdicts import ReleaseMark, add_mark, read_insights
from monitor.store.write import record
from monitor.testing import make_evaluation, make_interaction, make_sample
from monitor.web.detail import read_app_segments, read_detail
from monitor.web.templating import series_of
from monitor.web.time_range import TimeRange, steps_of
from workers.drift import References
from workers.evaluate import Evaluator
from workers.insights import Explainer
from workers.reports import read_report
from workers.scoring_run import ScoringRules, result_of

NOW = datetime(2026, 1, 8, 12, 0, tzinfo=UTC)
SETTINGS = Settings(min_n=20, status_window_s=3600, segments=("model", "release"))
RULES = ScoringRules(pass_score=0.7, bucket_s=60, dimensions=SETTINGS.segments)


def with_reference(kind):
    drift = SETTINGS.drift.model_copy(update={"drift_reference": kind})
    return SETTINGS.model_copy(update={"drift": drift})


class World:
    """A store, a clock, and an app whose quality the test decides."""

    def __init__(self, store, settings=SETTINGS):
        self.store, self.settings, self.now = store, settings, NOW
        self.rng = np.random.default_rng(1)
        self.lease = acquire(store, "scheduler", "test", ttl_s=86_400)
        self.explainer = Explainer(store=store, settings=settings)
        self.evaluator = Evaluator(
            store=store,
            settings=settings,
            recipients=[Recipient("slack", "")],
        )

    def answers(self, n, mean, *, from_s, to_s, version="local-1", rate=1.0, **interaction):
        """Write n answers, spread over [now + from_s, now + to_s)."""
        results = []
        for k in range(n):
            at = self.now + timedelta(seconds=from_s + (to_s - from_s) * k / n)
            sample = make_sample(
                make_interaction(app="bot", **interaction), sampled_at=at, sample_rate=rate
            )
            score = float(np.clip(self.rng.normal(mean, 0.1), 0, 1))
            evaluation = make_evaluation(score=score, evaluator_version=version)
            results.append(result_of(sample, [evaluation], RULES, now=at))
        with self.store.write() as connection:
            record(connection, results, now=self.now, bucket_s=60)

    def explain(self, after_s=0):
        self.now += timedelta(seconds=after_s)
        return self.explainer.run(self.lease, now=self.now)

    def reference(self):
        """Return what the present window of the only metric is compared with."""
        now_s = int(self.now.timestamp())
        with self.store.read() as connection:
            (stream,) = active_streams(connection, since_s=0)
            references = References(connection, self.settings)
            by_hour = references.goes_by_hour(stream, now_s)
            return references.of(stream, ReferenceSpan(now_s - 3540, now_s), by_hour=by_hour)

    def insight(self):
        with self.store.read() as connection:
            of_metrics, of_apps = read_insights(connection, now=NOW)
        return of_metrics["bot", "groundedness"], of_apps["bot"]


@pytest.fixture
def world(store):
    return World(store)


HOUR, DAY = 3600, 86_400


def test_nothing_is_explained_when_nothing_was_scored(world):
    assert world.explain() == []


def test_guilty_segment_is_named_and_the_onset_located(world):
    for model in ("a", "b"):
        world.answers(300, 0.9, from_s=-2 * DAY, to_s=-HOUR, tags={"model": model})
    world.answers(60, 0.9, from_s=-1800, to_s=0, tags={"model": "a"})
    world.answers(60, 0.4, from_s=-1800, to_s=0, tags={"model": "b"})
    world.evaluator.run(world.lease, now=world.now)
    world.explain()
    insight, _ = world.insight()
    assert [item.segment for item in insight.attribution.named] == ["model=b"]
    assert insight.attribution.since_low <= NOW - timedelta(seconds=1800) + timedelta(minutes=2)
    assert insight.attribution.since_high >= NOW - timedelta(seconds=1800) - timedelta(minutes=2)
    assert set(insight.figures.per_category) == {"model=a", "model=b"}


def test_healthy_app_has_no_attribution_and_no_findings(world):
    world.answers(400, 0.9, from_s=-2 * DAY, to_s=-HOUR, tags={"model": "a"})
    world.answers(60, 0.9, from_s=-HOUR, to_s=0, tags={"model": "a"})
    world.evaluator.run(world.lease, now=world.now)
    assert world.explain() == []
    insight, app = world.insight()
    assert insight.attribution is None
    assert not any(item.moved for item in app.inputs)


def test_fall_of_the_mean_is_found_once_with_its_onset(world):
    world.answers(400, 0.95, from_s=-2 * DAY, to_s=-60)
    world.explain()
    world.answers(120, 0.5, from_s=0, to_s=1800)
    found = world.explain(after_s=1800 + 300)
    (fall,) = [item for item in found if item.test == "score_down" and item.segment == "*"]
    assert fall.onset_low <= NOW + timedelta(minutes=3)
    assert fall.mean_after < 0.6 < fall.mean_before
    world.answers(120, 0.5, from_s=0, to_s=1800)
    again = world.explain(after_s=1800 + 300)
    assert [item for item in again if item.test == "score_down" and item.segment == "*"] == []


def rows_of_histograms(world):
    """Count the rows of histograms that a look of the detectors reads, by stream."""
    rows = Counter()

    def spy(*args, **span):
        found = bins_by_bucket(*args, **span)
        rows.update({stream_id: len(buckets) for stream_id, buckets in found.items()})
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("workers.drift.bins_by_bucket", spy)
        world.explain(after_s=300)
    return rows


def test_returning_stream_reads_only_its_own_histograms(world):
    world.answers(60, 0.9, from_s=-HOUR, to_s=0, tags={"model": "weekends"})
    world.explain()
    world.now += timedelta(days=3)
    world.answers(240, 0.9, from_s=-4 * HOUR, to_s=0, tags={"model": "daily"}, version="local-2")
    world.explain()
    world.answers(5, 0.9, from_s=0, to_s=300, tags={"model": "daily"}, version="local-2")
    world.answers(1, 0.9, from_s=0, to_s=300, tags={"model": "weekends"})
    assert set(rows_of_histograms(world).values()) == {1, 5}


def test_restarted_scheduler_catches_up_in_steps(world, monkeypatch):
    monkeypatch.setattr("workers.drift._MOST_AT_ONCE", 60)
    world.answers(400, 0.95, from_s=-2 * DAY, to_s=-60)
    world.explain()
    world.answers(120, 0.5, from_s=0, to_s=2 * HOUR)
    world.now += timedelta(hours=2)
    looks = [sum(rows_of_histograms(world).values()) for _ in range(4)]
    assert max(looks) == 60
    with world.store.read() as connection:
        found = read_findings(connection, since=NOW)
    assert "score_down" in {item.test for item in found if item.segment == "*"}


def drift_rows(world):
    with world.store.read() as connection:
        of = streams.join(drift_states, streams.c.stream_id == drift_states.c.stream_id)
        query = select(streams.c.segment, drift_states.c.state).select_from(of)
        return {row.segment: row.state for row in connection.execute(query)}


def test_only_streams_with_new_scores_are_written(world):
    for model in ("a", "b"):
        world.answers(300, 0.95, from_s=-2 * DAY, to_s=-60, tags={"model": model})
    world.explain()
    before = drift_rows(world)
    world.answers(20, 0.95, from_s=0, to_s=300, tags={"model": "a"})
    world.explain(after_s=480)
    after = drift_rows(world)
    assert {name for name in after if after[name] != before[name]} == {"*", "model=a"}


def take_over(world, owner):
    """Let another process have the lease, which remembers nothing."""
    acquire(world.store, "scheduler", world.lease.owner, ttl_s=-1)
    world.lease = acquire(world.store, "scheduler", owner, ttl_s=86_400)
    before, world.explainer = world.explainer, Explainer(store=world.store, settings=SETTINGS)
    return before


def test_scheduler_that_takes_over_finds_a_fall_after_a_quiet_time(world):
    world.answers(400, 0.95, from_s=-2 * DAY, to_s=-60)
    for _ in range(3):
        world.explain(after_s=600)
    take_over(world, "another")
    world.answers(120, 0.5, from_s=0, to_s=1800)
    assert "score_down" in {found.test for found in world.explain(after_s=1800 + 300)}


def test_scheduler_that_gets_its_lease_back_repeats_no_finding(world):
    world.answers(400, 0.95, from_s=-2 * DAY, to_s=-60)
    world.explain()
    first = take_over(world, "another")
    world.answers(120, 0.5, from_s=0, to_s=1800)
    world.explain(after_s=1800 + 300)
    take_over(world, "test")
    world.explainer = first
    assert world.explain(after_s=60) == []


def test_shape_change_in_a_closed_chunk_is_reported_once(world):
    world.answers(300, 0.95, from_s=-2 * DAY, to_s=-60)
    world.explain()
    world.answers(60, 0.8, from_s=0, to_s=HOUR)
    tests = [{item.test for item in world.explain(after_s=HOUR + 300)} for _ in range(2)]
    assert {"ks", "mann_whitney"} <= tests[0]
    assert tests[1] == set()
    with world.store.read() as connection:
        kept = {item.test for item in read_findings(connection, since=NOW)}
    assert {"ks", "mann_whitney"} <= kept


def test_new_judge_starts_a_new_series_without_drift(world):
    world.answers(400, 0.95, from_s=-2 * DAY, to_s=-60)
    world.explain()
    world.answers(120, 0.5, from_s=0, to_s=HOUR, version="local-2")
    assert world.explain(after_s=HOUR + 300) == []
    insight, _ = world.insight()
    assert insight.evaluator_version.startswith("local-2")
    assert insight.version_since == NOW


def test_deploy_that_was_marked_is_compared_before_and_after(world):
    world.answers(300, 0.95, from_s=-6 * HOUR, to_s=-1800)
    world.answers(120, 0.5, from_s=-1800, to_s=0)
    mark = ReleaseMark("bot", "v12", NOW - timedelta(seconds=1800), "bigger model", NOW)
    with world.store.write() as connection:
        add_mark(connection, mark)
    world.explain()
    (deploy,) = world.insight()[0].deploys
    assert (deploy.release, deploy.source, deploy.verdict) == ("v12", "mark", "worse")
    assert deploy.change_low <= deploy.at <= deploy.change_high + timedelta(minutes=3)


def test_release_on_samples_counts_as_a_deploy(world):
    world.answers(300, 0.95, from_s=-6 * HOUR, to_s=-1800, release="v1")
    world.answers(120, 0.94, from_s=-1800, to_s=0, release="v2")
    world.explain()
    (deploy,) = world.insight()[0].deploys
    assert (deploy.release, deploy.source, deploy.verdict) == ("v2", "tag", "not decided")


def test_pinned_release_is_the_reference(store):
    world = World(store, with_reference("release:v1"))
    world.answers(100, 0.95, from_s=-6 * DAY, to_s=-5 * DAY, release="v1")
    world.answers(100, 0.5, from_s=-4 * DAY, to_s=-3 * DAY, release="v2")
    world.answers(60, 0.94, from_s=-HOUR, to_s=0, release="v3")
    reference = world.reference()
    assert (reference.described, reference.tally.n) == ("release v1", 100)


def test_changed_questions_are_distinguished_from_worse_answers(world):
    world.answers(200, 0.95, from_s=-2 * DAY, to_s=-HOUR - 60, query="Where is my order now?")
    world.answers(80, 0.95, from_s=-HOUR, to_s=0, query="Which tax is on this invoice?")
    world.explain()
    insight, app = world.insight()
    assert "topic" in {item.feature for item in app.inputs if item.moved}
    assert not insight.findings


def test_older_input_statistics_are_stored_hourly(world):
    world.answers(60, 0.95, from_s=-8 * HOUR, to_s=-5 * HOUR)
    with world.store.read() as connection:
        before = read_inputs(connection, "bot", from_s=0)
    world.explain()
    with world.store.read() as connection:
        starts = set(connection.execute(select(input_bins.c.start_s)).scalars())
        assert read_inputs(connection, "bot", from_s=0) == before
    assert len(starts) == 3
    assert all(start_s % HOUR == 0 for start_s in starts)


def test_report_names_the_guilty_segment(world):
    for model in ("a", "b"):
        world.answers(200, 0.9, from_s=-2 * DAY, to_s=-HOUR, tags={"model": model})
    world.answers(60, 0.9, from_s=-1800, to_s=0, tags={"model": "a"})
    world.answers(60, 0.4, from_s=-1800, to_s=0, tags={"model": "b"})
    world.evaluator.run(world.lease, now=world.now)
    world.explain()
    report = read_report(world.store, SETTINGS, now=NOW, window_s=DAY)
    assert "model=b" in render_markdown(report)
    assert Report.model_validate_json(report.model_dump_json()) == report


def test_report_chart_band_equals_the_pages_for_weighted_samples(world):
    world.answers(60, 0.9, from_s=-1800, to_s=0)
    world.answers(60, 0.6, from_s=-1800, to_s=0, rate=0.1)
    world.evaluator.run(world.lease, now=world.now)
    report = read_report(world.store, SETTINGS, now=NOW, window_s=HOUR)
    drawn = [step for step in series_of(report.apps[0].metrics[0].series).steps if step.n]
    with world.store.read() as connection:
        ids = [stream.stream_id for stream in active_streams(connection, since_s=0)]
        (tallies,) = series(connection, ids, from_s=drawn[0].start_s, step_s=120).values()
    assert drawn == list(steps_of(tallies).values())
    assert len(drawn) >= 15
    plain = [wilson_interval(step.rate * step.n, step.n, alpha=0.1) for step in drawn]
    wider = [s.high - s.low - (p.high - p.low) for s, p in zip(drawn, plain, strict=True)]
    assert max(wider) > 0.02  # as samples of one weight they would seem to say more


def test_explainer_that_lost_the_lease_writes_nothing(world):
    world.answers(100, 0.95, from_s=-HOUR, to_s=0)
    acquire(world.store, "scheduler", "test", ttl_s=-1)
    acquire(world.store, "scheduler", "another", ttl_s=60)
    with pytest.raises(LeaseLostError):
        world.explain()
    with world.store.read() as connection:
        assert read_insights(connection, now=NOW) == ({}, {})


def test_week_old_release_is_not_reported_as_a_new_deploy(world):
    world.answers(12, 0.95, from_s=-10 * DAY, to_s=0, release="v1")
    world.answers(12, 0.95, from_s=-9 * DAY, to_s=0, release="v2")
    for hours in range(3):
        world.explain(after_s=HOUR * hours)
    insight, _ = world.insight()
    assert insight.deploys == []
    assert insight.version_since is None


def hourly(stream_id, start_s, score, n=40):
    """Give a bucket of one score, and its histogram, as they are stored."""
    sums = dict.fromkeys(("sum_w", "sum_w2", "sum_wy", "sum_w2y"), float(n))
    squares = dict.fromkeys(("sum_x2", "sum_wxx"), n * score * score)
    counts = {"n": n, "passed": n, "failed": 0, "skipped": 0, "cost_microusd": 0}
    place = {"stream_id": stream_id, "start_s": start_s}
    scored = {"sum_x": n * score, "sum_wx": n * score}
    return place | counts | sums | squares | scored, place | {"bin": round(100 * score), "count": n}


def test_same_hours_are_compared_when_the_app_has_a_daily_cycle(world):
    world.answers(1, 0.95, from_s=-9 * DAY, to_s=-8 * DAY)
    now_s = int(NOW.timestamp())
    with world.store.write() as connection:
        stream_id = connection.execute(select(streams.c.stream_id)).scalars().first()
        # By day, from noon on, all is well; by night scores are lower, and have always been.
        past = [
            hourly(stream_id, now_s + 3600 * k, (0.95 if k % 24 < 12 else 0.8) + k % 3 / 100)
            for k in range(-8 * 24, 0)
        ]
        for table, place in ((buckets, 0), (bucket_bins, 1)):
            connection.execute(table.insert(), [rows[place] for rows in past])
    world.answers(60, 0.95, from_s=0, to_s=HOUR)
    assert [found.test for found in world.explain(after_s=HOUR)] == []
    described, tally = world.reference()
    assert described == "the same hours of the 7 d before"
    assert 7 * 3 * 40 <= tally.n <= 8 * 3 * 40  # of 7 days of 24 hours
    assert tally.sum_x / tally.n == pytest.approx(0.91, abs=0.01)


@pytest.mark.parametrize(
    ("kind", "described"),
    [
        ("same_hour", "the same time a week before"),
        ("2026-01-01/2026-01-02", "2026-01-01 to 2026-01-02"),
    ],
)
def test_reference_follows_the_setting(store, kind, described):
    world = World(store, with_reference(kind))
    world.answers(80, 0.9, from_s=-7 * DAY - HOUR, to_s=-7 * DAY)
    world.answers(80, 0.2, from_s=-3 * DAY, to_s=-2 * DAY)
    world.answers(60, 0.9, from_s=-HOUR, to_s=0)
    reference = world.reference()
    assert (reference.described, reference.tally.n) == (described, 80)


def test_vanished_segment_is_listed_only_with_its_contribution(world):
    world.answers(60, 0.9, from_s=-9_000, to_s=-4_000, release="v1")
    world.answers(60, 0.9, from_s=-3_000, to_s=0, release="v2")
    world.evaluator.run(world.lease, now=world.now)
    kept = TimeRange.last(86_400, NOW)
    with world.store.read() as connection:
        table = read_app_segments(connection, SETTINGS, "bot", "groundedness", NOW)
    detail = read_detail(
        world.store, SETTINGS, app="bot", metric="groundedness", time_range=kept, now=NOW
    )
    assert [(row.value, row.n) for row in table.rows] == [("v2", 60)]
    assert {(row.value, row.n) for row in detail.segments.rows} == {("v1", 0), ("v2", 60)}

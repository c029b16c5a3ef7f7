"""Judges that change silently: verdicts on old samples, then and now, and on new ones."""

from monitor.stats.judge_shift import ShiftAttribution, ShiftEvidence, attribute_shift


def verdicts(rng, n, *, level, shift=0.0, noise=0.0):
    """Judge *n* samples at a pass rate; return first and second verdicts, *shift* in between."""
    base = rng.random(n) < level
    first, second = (base ^ (rng.random(n) < noise / 2) for _ in range(2))
    moved = rng.random(n)
    if shift < 0:
        second &= ~(moved < -shift / max(second.mean(), 0.01))
    elif shift > 0:
        second |= moved < shift / max(1 - second.mean(), 0.01)
    return first, second


def pairs_until_found(rng, *, shift, noise, most=4_000) -> int | None:
    """Return after how many pairs a change is found; None if it is not."""
    first, second = verdicts(rng, most, level=0.92, shift=shift, noise=noise)
    evidence = ShiftEvidence()
    for number, pair in enumerate(zip(first, second, strict=True), 1):
        evidence = evidence.add([(bool(pair[0]), bool(pair[1]))])
        if evidence.found:
            return number
    return None


def burst(rng, *, shift, noise, before=0.95, now=0.95, n=150) -> ShiftAttribution:
    """Return whose the change is: *n* old samples judged again, *n* new ones."""
    first, second = verdicts(rng, n, level=before, shift=shift, noise=noise)
    _, after = verdicts(rng, n, level=now, shift=shift, noise=noise)
    return attribute_shift(list(first), list(second), list(after))

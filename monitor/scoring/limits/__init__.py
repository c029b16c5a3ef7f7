"""What keeps a judge's use within bounds: budget, rate limits, concurrency, verdict cache."""

"""What stands between the judge and its bill: budget, kept verdicts, rate limits, slots."""

"""The formulas of all metrics: pure functions, values in, values out, each with its source."""

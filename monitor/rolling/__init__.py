"""Step 5 of 7 · rolling: sum buckets to windows, and windows to a status and drift."""

from monitor.rolling.backtesting import backtest

__all__ = ["backtest"]

"""Faults under traffic, through real processes; `python -m support.chaos` runs them."""

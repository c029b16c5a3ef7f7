"""Step 3 of 7 · scoring: turn one interaction into evaluations."""

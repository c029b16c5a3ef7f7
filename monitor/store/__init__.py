"""Step 4 of 7 · store: keep samples, evaluations and buckets where they can be asked for."""

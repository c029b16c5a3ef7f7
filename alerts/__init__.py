"""Step 6 of 7 · alerts: decide who must know, and tell each of them once."""

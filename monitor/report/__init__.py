"""Step 7 of 7 · report: tell people what happened."""

"""What can be counted about a text and its passages; no verdicts here."""

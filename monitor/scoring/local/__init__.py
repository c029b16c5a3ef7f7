"""The local scorer: counted evidence of an answer in its passages, weighed by a small model."""

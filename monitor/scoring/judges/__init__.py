"""Who judges: a local model without any download, or an LLM behind an endpoint."""

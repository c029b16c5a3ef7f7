"""The whole loop in a minute: a small LLM app that is healthy, then breaks, then recovers."""

"""An LLM behind an endpoint as the judge; the local scorer is in ``monitor.scoring.local``."""

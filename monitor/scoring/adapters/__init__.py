"""Metrics of other libraries, when those are installed; one module a library."""

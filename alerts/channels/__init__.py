"""The ways to reach people: one module a vendor, one protocol for all."""

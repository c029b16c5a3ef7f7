"""The history of the tables, one revision a change."""

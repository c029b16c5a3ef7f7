"""The mathematics: pure functions on numbers, each with its source."""

"""Servers on loopback that play the outside world, and the faults they play on request."""

"""Decisions, pure: no I/O, no clock, no torch. Every function is handed the time it needs."""

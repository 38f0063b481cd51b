"""Measures stages with the real engines. See docs/costs.md and docs/partition.md."""

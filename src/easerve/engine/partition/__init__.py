"""Gives parts of one device to the two stages of one process. See docs/partition.md."""

"""The `easerve` command."""

from easerve.cli.app import main

__all__ = ["main"]

"""`python -m easerve` is the same as the `easerve` command."""

from easerve.cli import main

main()

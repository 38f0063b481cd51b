"""What others have published about such systems, set up again in virtual time. See docs/simulation.md."""

"""The serving pipeline in virtual time, over workers that take the time a cost model says. See docs/simulation.md."""

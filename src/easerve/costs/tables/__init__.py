"""Measured kernels: the tables of aiconfigurator-core, asked once per size and kept as curves."""

"""Engines without tensors: the torch engine's scheduling over sizes, and a cost model for how long things take."""

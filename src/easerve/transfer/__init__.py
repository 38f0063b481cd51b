"""Moves tensors between processes: the bytes travel through memory, messages carry only a `TensorRef`."""

"""The shape of a model: layers and widths, and what follows from them (parameters, bytes, work). No weights."""

"""HAS, Hybrid Auto Selection: which devices do what, how large batches get, and how much prefill is offloaded.

See docs/search.md.
"""

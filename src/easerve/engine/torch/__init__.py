"""The embedded engine: transformers' modules with paged attention of our own."""

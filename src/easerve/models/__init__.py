"""Model families: what differs between checkpoints, over the transformers library's module definitions."""

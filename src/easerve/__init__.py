"""EAServe: multimodal language models served with encode, prefill and decode apart."""

__version__ = "0.1.0"

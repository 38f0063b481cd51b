"""The JSON a client reads: whole answers and stream chunks, for chat and for completions."""

from easerve.api.formats.base import Format, collect
from easerve.api.formats.chat import ChatFormat
from easerve.api.formats.completion import CompletionFormat

__all__ = ["ChatFormat", "CompletionFormat", "Format", "collect"]

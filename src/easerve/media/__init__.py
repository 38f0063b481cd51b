"""Media: fetched under guard, decoded off the event loop, named by content, laid down for workers."""

from easerve.media.fingerprint import content_key
from easerve.media.loader import MediaLoader
from easerve.media.options import MediaOptions
from easerve.media.store import PictureStore

__all__ = ["MediaLoader", "MediaOptions", "PictureStore", "content_key"]

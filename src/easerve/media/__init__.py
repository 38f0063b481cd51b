"""Media: fetched under guard, decoded off the event loop, named by content."""

from easerve.media.fingerprint import content_key
from easerve.media.loader import LoadedPicture, MediaLoader
from easerve.media.options import MediaOptions

__all__ = ["LoadedPicture", "MediaLoader", "MediaOptions", "content_key"]

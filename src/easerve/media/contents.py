"""Says in a word what bytes or a content type are, for messages about what is no picture we take."""

from __future__ import annotations

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "AVIF")  # Pillow's names; MPO comes with JPEG
SUPPORTED = "send JPEG, PNG, WebP, GIF, BMP, TIFF or AVIF"

_MAGIC = (
    (b"%PDF", "a PDF document; render the page you mean"),
    (b"PK\x03\x04", "a ZIP archive or an office document"),
    (b"\x1f\x8b", "gzip data"),
    (b"8BPS", "a Photoshop file"),
    (b"\x00\x00\x01\x00", "an icon"),
    (b"\x00\x00\x00\x0cjP  ", "a JPEG 2000 picture"),
    (b"\xff\x0a", "a JPEG XL picture"),
    (b"\x00\x00\x00\x0cJXL ", "a JPEG XL picture"),
    (b"\x1aE\xdf\xa3", "a video"),
)
_HEIF_BRANDS = (b"heic", b"heix", b"mif1", b"msf1", b"heim", b"heis", b"hevc")
_REFUSED_TYPES = {
    "text/html": "an HTML page",
    "application/xhtml+xml": "an HTML page",
    "application/json": "JSON",
    "application/xml": "XML",
    "text/xml": "XML",
    "application/pdf": "a PDF document",
    "image/svg+xml": "an SVG drawing",
}


def name_of(content: bytes | bytearray) -> str:
    """What the bytes are, judged by their beginning, with a remedy where there is a particular one."""
    head = bytes(content[:4096])
    for magic, name in _MAGIC:
        if head.startswith(magic):
            return name
    if head[4:8] == b"ftyp":
        return "a HEIC picture" if head[8:12] in _HEIF_BRANDS else "a video"
    return _name_of_markup(head) or "no picture of a known format"


def _name_of_markup(head: bytes) -> str | None:
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    if not text.startswith(b"<"):
        return None
    if text.startswith((b"<!doctype html", b"<html", b"<head", b"<body")):
        return "an HTML page"
    if b"<svg" in text:
        return "an SVG drawing; render it to PNG first"
    if b"<html" in text:
        return "an HTML page"
    return "an XML document" if text.startswith(b"<?xml") else None


def refused_type(content_type: str) -> str | None:
    """What a content type announces if that cannot be a picture we take; None: the bytes will tell."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind.startswith(("video/", "audio/", "multipart/")):
        return f"{shorten(kind, 40)} data"
    return _REFUSED_TYPES.get(kind)


def shorten(text: str, most: int = 80) -> str:
    """For messages: a value's beginning, quoted, on one line whatever it holds."""
    quoted = repr(text[:most]).encode("ascii", "backslashreplace").decode()
    return quoted if len(text) <= most else f"{quoted}... ({len(text)} characters)"

"""Content of data URIs. Works in pieces, so that another thread gets its turn between them."""

from __future__ import annotations

import binascii
from urllib.parse import unquote, unquote_to_bytes

from easerve.errors import BadRequest, TooLarge
from easerve.media.contents import SUPPORTED, refused_type, shorten

_PIECE = 256 * 1024  # characters; a few tenths of a millisecond
_HEADER = 1024  # characters; what comes before the comma is never longer
_BLANK = b" \t\r\n\f\v"


def inline(url: str, max_bytes: int) -> bytes:
    """The content of a data URI, base64 or percent-encoded; blanks in base64 are ignored.

    Raises BadRequest if it is malformed or announces what is no picture, TooLarge above `max_bytes`.
    """
    comma = url.find(",", 0, _HEADER)
    if comma < 0:
        raise BadRequest(f"{shorten(url, 40)} has no comma between type and data; write data:image/png;base64,...")
    header = url[:comma].partition(":")[2].strip()
    wrong = refused_type(header)
    if wrong:
        raise BadRequest(f"the data URI holds {wrong}, not a picture; {SUPPORTED}")
    if header.lower().replace(" ", "").endswith(";base64"):
        return _from_base64(url, comma + 1, max_bytes)
    if len(url) - comma > 3 * max_bytes + 1:  # each byte takes three characters at most
        raise _too_large(max_bytes)
    return _from_percent(url[comma + 1 :], max_bytes)


def _from_percent(text: str, max_bytes: int) -> bytes:
    try:
        content = unquote_to_bytes(text)
    except ValueError as error:
        raise BadRequest("the data URI holds characters that are no text; percent-encode its bytes") from error
    if len(content) > max_bytes:
        raise _too_large(max_bytes)
    return content


def _from_base64(url: str, start: int, max_bytes: int) -> bytes:
    if "%" in url:
        url, start = unquote(url[start:], encoding="latin-1"), 0
    content = bytearray()
    rest = b""
    try:
        for at in range(start, len(url), _PIECE):
            piece = rest + url[at : at + _PIECE].encode("ascii").translate(None, _BLANK)
            if piece and content and len(content) % 3:  # only the last group may be padded
                raise binascii.Error("data after padding")
            whole = len(piece) - len(piece) % 4
            content += binascii.a2b_base64(piece[:whole], strict_mode=True)
            rest = piece[whole:]
            if len(content) > max_bytes:
                raise _too_large(max_bytes)
        if rest:  # padding left out, as many encoders do
            if len(content) % 3:
                raise binascii.Error("data after padding")
            content += binascii.a2b_base64(rest.ljust(4, b"="), strict_mode=True)
    except ValueError as error:  # binascii.Error and UnicodeEncodeError are ones
        raise BadRequest(
            "the data URI is not valid base64: it holds a wrong character or is cut off; encode the whole file anew"
        ) from error
    if len(content) > max_bytes:
        raise _too_large(max_bytes)
    return bytes(content)


def _too_large(max_bytes: int) -> TooLarge:
    return TooLarge(f"the inline data are larger than {max_bytes} bytes, the most for one item; scale the picture down")

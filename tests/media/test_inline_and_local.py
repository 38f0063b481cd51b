"""Data URIs and local files: what is accepted, and that nothing outside the allowed folder is."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from urllib.parse import quote

import pytest

from easerve.errors import BadRequest, TooLarge
from easerve.media.inline import _PIECE, inline
from easerve.media.local import local

MOST = 10**6


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 255, _PIECE - 1, _PIECE * 3 // 4, _PIECE * 3 // 4 + 1, _PIECE * 2 + 5])
def test_base64_of_any_length(size: int) -> None:
    content = os.urandom(size)
    text = base64.b64encode(content).decode()
    wrapped = "\r\n ".join(text[at : at + 76] for at in range(0, len(text), 76))
    for body in (text, text.rstrip("="), wrapped, quote(text, safe=""), f" {text}\n"):
        assert inline(f"data:image/png;base64,{body}", MOST) == content


@pytest.mark.parametrize("header", ["DATA:image/png;BASE64", "data:;base64", "data:image/png;charset=utf-8;base64"])
def test_headers_as_they_come(header: str) -> None:
    assert inline(f"{header},aGk=", MOST) == b"hi"


def test_percent_encoding() -> None:
    assert inline("data:image/png,%89PNG%0d%0a", MOST) == b"\x89PNG\r\n"


@pytest.mark.parametrize(
    "body", ["a", "a===", "!!!!", "aGk=aGk=", "aGk", "aGk=a", "=aGk", "aG=k", "aGk\u00e9", "\ud800"]
)
def test_wrong_base64(body: str) -> None:
    if body == "aGk":
        assert inline(f"data:;base64,{body}", MOST) == b"hi"
        return
    with pytest.raises(BadRequest, match="not valid base64"):
        inline(f"data:;base64,{body}", MOST)


def test_padding_in_the_middle_is_wrong_wherever_pieces_meet() -> None:
    first = "A" * (_PIECE - 4) + "aGk="
    for second in ("AAAA", "AA"):
        with pytest.raises(BadRequest):
            inline(f"data:;base64,{first}{second}", 10 * MOST)
    with pytest.raises(BadRequest):
        inline(f"data:;base64,AAAA{'AAAA' * _PIECE}!", 10 * MOST)


@pytest.mark.parametrize(
    ("url", "word"),
    [
        ("data:image/png;base64" + "A" * 10**6, "no comma"),
        ("data:text/html;base64,AAAA", "an HTML page"),
        ("data:image/svg+xml,<svg/>", "an SVG drawing"),
        ("data:application/pdf;base64,AAAA", "a PDF"),
        ("data:video/mp4;base64,AAAA", "video/mp4"),
        ("data:image/png,\ud800", "no text"),
    ],
)
def test_data_uris_that_hold_no_picture(url: str, word: str) -> None:
    with pytest.raises(BadRequest, match=word) as caught:
        inline(url, MOST)
    assert len(caught.value.message) < 300


@pytest.mark.parametrize("kind", [";base64", ""])
def test_inline_data_over_the_limit(kind: str) -> None:
    body = base64.b64encode(bytes(100)).decode() if kind else "%00" * 100
    assert inline(f"data:image/png{kind},{body}", 100) == bytes(100)
    with pytest.raises(TooLarge, match="larger than 99 bytes"):
        inline(f"data:image/png{kind},{body}", 99)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    allowed = tmp_path / "allowed"
    (allowed / "sub").mkdir(parents=True)
    (allowed / "a b.png").write_bytes(b"inside")
    (tmp_path / "secret").write_bytes(b"outside")
    (tmp_path / "allowed-too").mkdir()
    (tmp_path / "allowed-too" / "x").write_bytes(b"outside")
    (allowed / "out").symlink_to(tmp_path / "secret")
    (allowed / "up").symlink_to(tmp_path)
    (allowed / "in").symlink_to(allowed / "a b.png")
    (allowed / "circle").symlink_to(allowed / "circle")
    os.mkfifo(allowed / "pipe")
    return allowed


@pytest.mark.parametrize("name", ["a%20b.png", "sub/../a%20b.png", "in"])
def test_files_below_the_folder_are_read(folder: Path, name: str) -> None:
    for host in ("", "localhost"):
        assert local(f"file://{host}{folder}/{name}", folder, MOST) == b"inside"


@pytest.mark.parametrize(
    "name",
    ["../secret", "%2e%2e/secret", "out", "up/secret", "../allowed-too/x", "circle", "pipe", "sub", "", "no", "a%00b",
     "a%20b.png/x", "\ud800"],
)  # fmt: skip
def test_nothing_else_is_and_all_in_the_same_words(folder: Path, name: str) -> None:
    with pytest.raises(BadRequest, match="no readable file below the folder"):
        local(f"file://{folder}/{name}", folder, MOST)


def test_the_folder_itself_may_be_a_link(folder: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(folder)
    assert local(f"file://{link}/a%20b.png", link, MOST) == b"inside"


def test_files_need_a_folder_and_no_host(folder: Path) -> None:
    with pytest.raises(BadRequest, match="--allowed-local-media-path"):
        local(f"file://{folder}/a%20b.png", None, MOST)
    with pytest.raises(BadRequest, match="names a host"):
        local(f"file://elsewhere{folder}/a%20b.png", folder, MOST)
    with pytest.raises(TooLarge, match="larger than 5 bytes"):
        local(f"file://{folder}/a%20b.png", folder, 5)

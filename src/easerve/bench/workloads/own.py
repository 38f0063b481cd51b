"""The user's own requests: a folder of pictures, or a file with a JSON object a line.

A line is a body of the chat API (`messages`, and any other field), or the short form `prompt`, `images` (paths beside
the file, or URLs) and `output_tokens`. In a folder each picture is a request; a text file with its name is its prompt.
"""

from __future__ import annotations

import json
import mimetypes
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, Literal

from pydantic import Field

from easerve.bench.drawing import DRAWN, Draw
from easerve.bench.request import Request, user_message
from easerve.bench.workloads.base import Workload
from easerve.client import data_uri
from easerve.errors import BadRequest

QUESTION = "Describe the picture."


class Own(Workload):
    """Requests of `path` in their order; with `repeat`, over and over, otherwise each once a run."""

    kind: Literal["own"] = "own"
    path: Path
    output_tokens: int | None = Field(default=None, ge=1)  # where a request does not say
    repeat: bool = False

    def requests(self, rng: Random, draw: Draw = DRAWN) -> Iterator[Request]:
        """Raises BadRequest, naming file and line, for what cannot be read."""
        found = self._from_folder() if self.path.is_dir() else self._from_lines()
        if not found:
            raise BadRequest(f"{self.path} holds no requests: give a folder with pictures, or a file of JSON lines")
        yield from found
        while self.repeat:
            yield from found

    def _from_folder(self) -> list[Request]:
        pictures = [path for path in sorted(self.path.iterdir()) if _kind(path).startswith("image/")]
        requests = []
        for path in pictures:
            prompt = path.with_suffix(".txt")
            question = prompt.read_text(encoding="utf-8").strip() if prompt.exists() else QUESTION
            requests.append(Request([user_message(question, [_as_url(path)])], self.output_tokens))
        return requests

    def _from_lines(self) -> list[Request]:
        requests = []
        try:
            lines = self.path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise BadRequest(f"{self.path} cannot be read as a file of JSON lines: {error}") from error
        for number, line in enumerate(lines, 1):
            if line.strip():
                try:
                    requests.append(self._from_line(json.loads(line)))
                except OSError as error:
                    raise BadRequest(f"{self.path}, line {number}: {error.filename}: {error.strerror}") from error
                except (ValueError, TypeError, KeyError, AttributeError) as error:
                    raise BadRequest(f"{self.path}, line {number}: {error!r}; wanted messages, or prompt") from error
        return requests

    def _from_line(self, line: dict[str, Any]) -> Request:
        if "messages" in line:
            fields = dict(line)
            asked = [fields.pop(name, None) for name in ("max_completion_tokens", "max_tokens")]
            output = next((one for one in asked if one), self.output_tokens)
            for ours in ("model", "stream", "stream_options"):
                fields.pop(ours, None)
            return Request(fields.pop("messages"), output, fields)
        urls = [self._url(one) for one in line.get("images", [])]
        return Request([user_message(line["prompt"], urls)], line.get("output_tokens", self.output_tokens))

    def _url(self, given: str) -> str:
        return given if ":" in given.partition("/")[0] else _as_url(self.path.parent / given)


def _as_url(path: Path) -> str:
    return data_uri(path.read_bytes(), _kind(path) or "image/png")


def _kind(path: Path) -> str:
    return mimetypes.guess_type(path.name)[0] or ""

"""From a request's bytes to its typed fields, or to a BadRequest that names the field, the value and the remedy."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails, from_json
from starlette.requests import Request

from easerve.api.schema import CommonFields
from easerve.api.unsupported import refuse_unsupported
from easerve.errors import BadRequest, TooLarge

OFF_LOOP_BYTES = 256 * 1024  # parsing more than this (about 1 ms) happens on a thread
SHOWN = 60  # characters of a wrong value in a message
OBJECT = "Input should be an object"
OBJECT_TYPES = frozenset({"model_type", "dict_type"})  # what pydantic calls it, in words of Python's

Fields = TypeVar("Fields", bound=CommonFields)


async def read_body(request: Request, limit: int) -> bytes:
    """The body, read no further than `limit` bytes. Raises TooLarge, before reading if the length is announced."""
    announced = request.headers.get("content-length", "")
    if announced.isascii() and announced.isdigit() and int(announced) > limit:
        raise _too_large(limit)
    pieces: list[bytes] = []
    size = 0
    async for piece in request.stream():
        size += len(piece)
        if size > limit:
            raise _too_large(limit)
        pieces.append(piece)
    return b"".join(pieces)


def _too_large(limit: int) -> TooLarge:
    return TooLarge(
        f"the body is larger than the limit of {limit} bytes; send pictures smaller or by URL", code="body_too_large"
    )


async def read_fields(request: Request, kind: type[Fields], limit: int) -> Fields:
    """The validated fields of a request's body. Raises BadRequest and TooLarge."""
    body = await read_body(request, limit)
    if len(body) > OFF_LOOP_BYTES:
        return await asyncio.to_thread(parse, kind, body)
    return parse(kind, body)


def parse(kind: type[Fields], body: bytes) -> Fields:
    """Fields of type `kind` from JSON bytes. Raises BadRequest."""
    try:
        value = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise BadRequest(f"the body is not valid JSON: {error}", code="invalid_json") from None
    if not isinstance(value, dict):
        raise BadRequest(f"the body must be a JSON object, not {_shown(value)}", code="invalid_json")
    refuse_unsupported(value)
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        raise _readable(error.errors(include_url=False)[0], value) from None


def _readable(error: ErrorDetails, body: Any) -> BadRequest:
    """The first thing that pydantic found wrong, in a sentence."""
    param = _path(error["loc"], body)
    wanted = OBJECT if error["type"] in OBJECT_TYPES else error["msg"].replace(" after validation", "")
    missing = error["type"] == "missing"
    given = "" if missing or "actual_length" in error.get("ctx", {}) else f", not {_shown(error['input'])}"
    return BadRequest(
        f"{param}: {wanted[0].lower()}{wanted[1:]}{given}",
        param=param,
        code="missing_required_parameter" if missing else "invalid_value",
    )


def _path(location: Sequence[int | str], body: Any) -> str:
    """`messages[0].content[1].text` from pydantic's location, which may hold names of types as well."""
    path = ""
    here = body
    for depth, step in enumerate(location):
        if isinstance(step, int) and isinstance(here, list):
            path += f"[{step}]"
            here = here[step] if step < len(here) else None
        elif isinstance(here, dict) and (step in here or depth == len(location) - 1):
            path += f".{step}" if path else str(step)
            here = here.get(step)
    return path


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."

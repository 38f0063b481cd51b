"""Every failure in OpenAI's error shape: what a client gets for which exception."""

from __future__ import annotations

import logging
import math
from typing import Any

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from easerve.errors import EAServeError, Unavailable

CLIENT_CLOSED = 499  # what a request counts as when its client left first; nobody receives it
RETRY_AFTER = 1.0  # seconds, for refusals that do not say

log = logging.getLogger("easerve.api")


class Unauthorized(EAServeError):
    """The API key is missing or wrong."""

    status = 401
    kind = "invalid_request_error"
    code = "invalid_api_key"


class Stopping(Unavailable):
    """The server ends, and does not wait for this request any longer."""

    def __init__(self) -> None:
        super().__init__("the server is stopping; send the request again", retry_after=5)


class InternalError(EAServeError):
    """What a client sees of an exception that nobody expected; the log has the rest under the same request id."""

    def __init__(self, request_id: str) -> None:
        super().__init__(f"the server failed on this request; its log names the reason under id {request_id}")


def error_body(error: EAServeError) -> dict[str, Any]:
    return {"error": {"message": error.message, "type": error.kind, "param": error.param, "code": error.code}}


def error_response(error: EAServeError) -> JSONResponse:
    headers = {}
    if error.status in (429, 503):
        headers["retry-after"] = str(math.ceil(error.retry_after or RETRY_AFTER))
    if error.status == 401:
        headers["www-authenticate"] = "Bearer"
    return JSONResponse(error_body(error), status_code=error.status, headers=headers)


def as_known(error: Exception, request_id: str) -> EAServeError:
    """`error` itself if it is one of the project's; else InternalError, and the original goes to the log."""
    if isinstance(error, EAServeError):
        if error.status >= 500:
            log.warning("request %s: %s: %s", request_id, type(error).__name__, error.message)
        return error
    log.error("request %s failed", request_id, exc_info=error)
    return InternalError(request_id)


async def _on_known(request: Request, error: Exception) -> Response:
    return error_response(as_known(error, request.state.exchange.request_id))


async def _on_http(request: Request, error: Exception) -> Response:
    """Routing's own refusals: unknown path, wrong method."""
    assert isinstance(error, HTTPException)
    where = f"{request.method} {request.url.path}"
    known = {
        404: ("not_found", f"there is no {where}; see /docs for what there is"),
        405: ("method_not_allowed", f"{where} is not possible; see the Allow header for the methods of this path"),
    }
    code, message = known.get(error.status_code, ("http_error", str(error.detail)))
    body = {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": code}}
    return JSONResponse(body, status_code=error.status_code, headers=error.headers)


async def _on_disconnect(request: Request, error: Exception) -> Response:
    return Response(status_code=CLIENT_CLOSED)


def install(app: FastAPI) -> None:
    """Register the handlers; exceptions of other types end in the exchange middleware."""
    app.add_exception_handler(EAServeError, _on_known)
    app.add_exception_handler(HTTPException, _on_http)
    app.add_exception_handler(ClientDisconnect, _on_disconnect)

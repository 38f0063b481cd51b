"""Every error a user can meet, typed. Each names the value at fault and the remedy.

The API turns `status`, `kind`, `param` and `code` into OpenAI's error shape; nothing else in the project
knows about HTTP. Errors cross process boundaries by class name (`by_name`).
"""

from __future__ import annotations


class EAServeError(Exception):
    """Base of all errors of the project; alone it means that the server is at fault."""

    status: int = 500
    kind: str = "server_error"
    code: str = "internal_error"

    def __init__(
        self,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.code = code or type(self).code
        self.retry_after = retry_after  # seconds; becomes the Retry-After header


class BadRequest(EAServeError):
    """The request is wrong and will stay wrong: bad fields, broken media, a prompt that can never fit."""

    status = 400
    kind = "invalid_request_error"
    code = "invalid_value"


class ModelNotFound(EAServeError):
    """The request names a model that this server does not serve."""

    status = 404
    kind = "invalid_request_error"
    code = "model_not_found"


class TooLarge(EAServeError):
    """A body, a download or a picture is over its limit."""

    status = 413
    kind = "invalid_request_error"
    code = "request_too_large"


class Overloaded(EAServeError):
    """A queue is full; the request was shed before any device work."""

    status = 429
    kind = "rate_limit_error"
    code = "overloaded"


class Unavailable(EAServeError):
    """No worker can take this now."""

    status = 503
    kind = "server_error"
    code = "unavailable"


class WorkerLost(Unavailable):
    """The worker that held the work died or stalled; the work may be redone on another."""

    code = "worker_lost"


class NoRoom(Unavailable):
    """The memory that tensors travel in is full."""

    code = "no_room"


class DeadlineExceeded(EAServeError):
    """A wait ended at its deadline."""

    status = 504
    kind = "server_error"
    code = "deadline_exceeded"


class TransferError(EAServeError):
    """A tensor did not arrive as announced: gone, or of another size."""

    code = "transfer_failed"


class StartupError(EAServeError):
    """The server cannot start: model not found, port taken, a worker died while loading."""

    code = "startup_failed"


class UnsupportedModel(StartupError):
    """The checkpoint's architecture has no family here."""

    code = "unsupported_model"


_BY_NAME: dict[str, type[EAServeError]] = {
    kind.__name__: kind
    for kind in (
        EAServeError, BadRequest, ModelNotFound, TooLarge, Overloaded, Unavailable, WorkerLost, NoRoom,
        DeadlineExceeded, TransferError, StartupError, UnsupportedModel,
    )
}  # fmt: skip


def by_name(
    name: str, message: str, *, param: str | None = None, code: str | None = None, retry_after: float | None = None
) -> EAServeError:
    """The error that another process raised as class `name`; unknown names become the base class."""
    return _BY_NAME.get(name, EAServeError)(message, param=param, code=code, retry_after=retry_after)


def by_status(status: int, message: str) -> EAServeError:
    """The error that a server answered with HTTP `status`."""
    kind = next((kind for kind in _BY_NAME.values() if kind.status == status), EAServeError)
    return kind(message)

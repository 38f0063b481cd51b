"""What the operator may set about the HTTP layer; host and port belong to whoever starts the server."""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1024 * 1024


@dataclass(frozen=True)
class ApiOptions:
    """Limits and access of the HTTP layer."""

    max_body_bytes: int = 64 * MIB  # of a request as received, data URIs included; more is a 413
    limit_images: int = 16  # per prompt
    max_choices: int = 128  # prompts x n of one request
    api_keys: tuple[str, ...] = ()  # any of them opens /v1; none: no key is asked for

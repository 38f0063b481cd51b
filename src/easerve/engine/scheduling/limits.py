"""Which sequences can ever be served: one that cannot would keep all behind it waiting for good."""

from __future__ import annotations

from easerve.errors import BadRequest


def check_length(length: int, produced: int, most_tokens: int) -> None:
    """Raises BadRequest for a prompt that is empty, or that with what is produced and one more token never fits."""
    if length == 0:
        raise BadRequest("The prompt is empty; give at least one token.", param="prompt")
    if length + produced + 1 > most_tokens:
        so_far = f" and {produced} of output so far" if produced else ""
        raise BadRequest(
            f"The prompt is {length} tokens long{so_far}; with at least one more that exceeds the {most_tokens} that "
            "fit (context length and KV pool). Shorten it, or use smaller or fewer pictures.",
            code="context_length_exceeded",
        )

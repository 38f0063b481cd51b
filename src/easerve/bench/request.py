"""One request of a workload, and its body as an OpenAI-compatible server takes it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

Message = Mapping[str, Any]  # of the chat API
MODALITIES = {"image_url": "image", "video_url": "video", "input_audio": "audio", "audio_url": "audio"}


@dataclass(frozen=True)
class Request:
    """A conversation, how many tokens to answer with (None: as the model likes), and fields of the user's own."""

    messages: Sequence[Message]
    output_tokens: int | None
    fields: Mapping[str, Any] = field(default_factory=dict)

    @property
    def media(self) -> int:
        """Media items, repeated ones counted each time."""
        return sum(1 for _ in _media_kinds(self.messages))

    @property
    def modality(self) -> str:
        """`text` for text alone; otherwise the kinds of media, joined by `+`."""
        return "+".join(sorted(set(_media_kinds(self.messages)))) or "text"


def _media_kinds(messages: Sequence[Message]) -> Iterator[str]:
    for message in messages:
        content = message.get("content")
        if isinstance(content, list):
            yield from (MODALITIES[part["type"]] for part in content if part.get("type") in MODALITIES)


@dataclass(frozen=True)
class BodyStyle:
    """What every body of a run carries beside the conversation.

    `ignore_eos` (vLLM's name) makes answers exactly as long as asked for; `timing` asks an EAServe server where its
    time goes.
    """

    model: str
    ignore_eos: bool = True
    timing: bool = False


def body(request: Request, style: BodyStyle) -> bytes:
    """JSON of a streamed, greedy request; the request's own fields win."""
    content: dict[str, Any] = {
        "model": style.model,
        "messages": request.messages,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if request.output_tokens is not None:
        content["max_tokens"] = request.output_tokens
        if style.ignore_eos:
            content["ignore_eos"] = True
    if style.timing:
        content["include_timing"] = True
    return msgspec.json.encode({**content, **request.fields})


def user_message(text: str, urls: Sequence[str] = (), clips: Sequence[str] = ()) -> dict[str, Any]:
    """Pictures (`urls`) and `clips` of sound first, then the text; plain text where there are neither."""
    media = [("image_url", url) for url in urls] + [("audio_url", url) for url in clips]
    if not media:
        return {"role": "user", "content": text}
    parts: list[dict[str, Any]] = [{"type": kind, kind: {"url": url}} for kind, url in media]
    return {"role": "user", "content": [*parts, {"type": "text", "text": text}]}

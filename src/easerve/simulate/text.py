"""How many tokens the text of a request has, chat template included; its pictures count for nothing here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from easerve.api.text import load_codec
from easerve.models.registry import load_family

TextTokens = Callable[[Sequence[Mapping[str, Any]]], int]  # of a conversation, as the chat API takes it

TEMPLATE_TOKENS = 8  # around a message: a role and its marks, as in the templates of the Qwen and Llama families


def by_words(messages: Sequence[Mapping[str, Any]]) -> int:
    """A token a word, as the words of the benchmark's workloads are in nearly every vocabulary."""
    texts = (part["text"] for message in messages for part in parts(message) if part.get("type") == "text")
    return len(messages) * TEMPLATE_TOKENS + sum(len(text.split()) for text in texts)


def by_tokenizer(folder: Path) -> TextTokens:
    """As the model in this folder counts. Raises StartupError if it has no tokenizer."""
    codec, placeholder = load_codec(folder), load_family(str(folder)).image_token_id

    def count(messages: Sequence[Mapping[str, Any]]) -> int:
        asked = [{**message, "content": [_for_template(part) for part in parts(message)]} for message in messages]
        ids = codec.encode_chat(asked, add_generation_prompt=True)
        return len(ids) - ids.count(placeholder)

    return count


def parts(message: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The parts of its content; plain text is one."""
    content = message.get("content")
    if isinstance(content, str):
        yield {"type": "text", "text": content}
    elif content is not None:
        yield from content


def _for_template(part: Mapping[str, Any]) -> Mapping[str, Any]:
    return part if part.get("type") == "text" else {"type": "image"}

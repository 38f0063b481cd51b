"""The model's tokenizer and chat template, without torch: text to token ids and back.

Decides what a special token in somebody's text means: nothing. Such a string is tokenized as the plain characters it
is made of, so no message can open a role or stand for a picture.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, cast

from tokenizers import Tokenizer

from easerve.errors import BadRequest, StartupError

NO_TEMPLATE = (
    "the model folder has no chat template, so messages cannot be turned into a prompt; use /v1/completions, or "
    "put a chat_template.jinja into the model folder"
)


class TextCodec:
    """A tokenizer of the transformers library (its fast kind) with what serving needs of it."""

    def __init__(self, tokenizer: Any, chat_template: str | None = None) -> None:
        self._tokenizer = tokenizer
        self._template = chat_template or tokenizer.chat_template
        self._backend: Tokenizer = tokenizer.backend_tokenizer
        self._backend.no_truncation()
        self._backend.no_padding()
        self._plain: Tokenizer | None = None
        added = tokenizer.added_tokens_decoder
        self._special = frozenset(number for number, token in added.items() if token.special)
        strings = sorted((token.content for token in added.values() if token.special), key=len, reverse=True)
        self._special_strings = re.compile("|".join(map(re.escape, strings)) or r"(?!)")
        self.vocab_size: int = max(len(tokenizer), max(added, default=-1) + 1)

    def token(self, token_id: int) -> str:
        """One token as text, special ones included."""
        return self._backend.decode([token_id], skip_special_tokens=False)

    def decode(self, token_ids: Sequence[int]) -> str:
        return self._backend.decode(token_ids, skip_special_tokens=False)

    def is_visible(self, token_id: int, skip_special_tokens: bool) -> bool:
        if skip_special_tokens and token_id in self._special:
            return False
        return self._backend.id_to_token(token_id) is not None

    def encode(self, text: str) -> list[int]:
        """Token ids of a bare prompt, with the special tokens that the tokenizer puts around a text."""
        return self._backend.encode(text, add_special_tokens=True).ids

    def encode_chat(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> list[int]:
        """Token ids of a conversation: the chat template's special tokens count, those in the messages do not.

        `messages` hold their content as lists of parts; `options` go to the template. Raises BadRequest when the
        model has no template or the template refuses the messages.
        """
        if self._template is None:
            raise BadRequest(NO_TEMPLATE, param="messages", code="no_chat_template")
        guard = _Guard(self._special_strings)
        rendered = self._render([guard.cover_message(one) for one in messages], guard.cover(options))
        ids = [number for piece, trusted in guard.split(rendered) for number in self._encode_piece(piece, trusted)]
        return self._begin(rendered) + ids

    def _render(self, messages: Any, options: Any) -> str:
        try:
            text = self._tokenizer.apply_chat_template(
                messages, chat_template=self._template, tokenize=False, **options
            )
        except Exception as error:  # whatever a template may raise: its own refusals, or fields it did not expect
            raise BadRequest(
                f"the model's chat template refuses these messages: {error}", param="messages", code="chat_template"
            ) from error
        return cast(str, text)

    def _encode_piece(self, text: str, trusted: bool) -> list[int]:
        if trusted:
            return self._backend.encode(text, add_special_tokens=False).ids
        if self._plain is None:  # a copy, because the setting is the tokenizer's and not the call's
            plain = Tokenizer.from_str(self._backend.to_str())
            plain.encode_special_tokens = True
            self._plain = plain
        return self._plain.encode(text, add_special_tokens=False).ids

    def _begin(self, rendered: str) -> list[int]:
        """The beginning-of-sequence token where the tokenizer wants one and the template did not write it."""
        begin = self._tokenizer.bos_token_id
        if begin is None or rendered.startswith(self._tokenizer.bos_token):
            return []
        return [begin] if self.encode("")[:1] == [begin] else []


class _Guard:
    """Covers special-token strings in foreign text with marks that nobody can guess, and finds them again."""

    def __init__(self, special: re.Pattern[str]) -> None:
        self._special = special
        self._covered: list[str] = []
        self._mark = f"\ue000{secrets.token_hex(8)}."

    def cover(self, value: Any) -> Any:
        """`value` with every string in it covered: lists and dictionaries are gone through, keys stay."""
        if isinstance(value, str):
            return self._special.sub(self._cover_one, value)
        if isinstance(value, list):
            return [self.cover(one) for one in value]
        if isinstance(value, dict):
            return {key: self.cover(one) for key, one in value.items()}
        return value

    def cover_message(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """A message covered, also where parts that follow one another would make a special token together."""
        covered: dict[str, Any] = self.cover(dict(message))
        parts = [dict(part) for part in covered.get("content") or []]
        for is_text, run in groupby(parts, key=lambda part: "text" in part):
            texts = list(run)
            if is_text and self._special.search("".join(part["text"] for part in texts)):
                for part in texts[:-1]:
                    part["text"] += self._new_mark("")
        return {**covered, "content": parts}

    def _cover_one(self, match: re.Match[str]) -> str:
        return self._new_mark(match[0])

    def _new_mark(self, text: str) -> str:
        self._covered.append(text)
        return f"{self._mark}{len(self._covered) - 1}\ue001"

    def split(self, rendered: str) -> list[tuple[str, bool]]:
        """(text, whether special tokens in it count) in order."""
        if not self._covered:
            return [(rendered, True)]
        pieces = re.split(f"{re.escape(self._mark)}([0-9]+)\ue001", rendered)
        pairs = ((self._covered[int(piece)], False) if k % 2 else (piece, True) for k, piece in enumerate(pieces))
        return [pair for pair in pairs if pair[0]]


def load_codec(folder: Path) -> TextCodec:
    """Tokenizer and chat template of a checkpoint folder. Raises StartupError naming what is missing.

    A folder with a tokenizer.json is read without importing torch; others need a conversion that imports it.
    """
    try:
        if (folder / "tokenizer.json").is_file():
            from transformers import PreTrainedTokenizerFast

            tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
        else:
            from transformers import AutoTokenizer  # importing this name alone imports torch

            tokenizer = AutoTokenizer.from_pretrained(folder)
    except (OSError, ValueError, TypeError, ImportError) as error:
        raise StartupError(f"no usable tokenizer in {folder} (expected a tokenizer.json): {error}") from error
    if getattr(tokenizer, "backend_tokenizer", None) is None:
        raise StartupError(f"the tokenizer in {folder} is of the slow kind; save it as tokenizer.json")
    return TextCodec(tokenizer, _processor_template(folder))


def _processor_template(folder: Path) -> str | None:
    """The processor's template, which knows pictures; the tokenizer's own may know text only."""
    jinja, older = folder / "chat_template.jinja", folder / "chat_template.json"
    if jinja.is_file():
        return jinja.read_text(encoding="utf-8")
    if older.is_file():
        template = json.loads(older.read_text(encoding="utf-8")).get("chat_template")
        return template if isinstance(template, str) else None
    return None

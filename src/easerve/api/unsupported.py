"""Fields of the OpenAI API that would change the answer and are not supported: refused, with what to do instead."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from easerve.errors import BadRequest


def _asked(value: Any) -> bool:
    return value not in (None, False, [], {}, "")


def _given(value: Any) -> bool:
    return value is not None


def _not_text_only(value: Any) -> bool:
    return _asked(value) and value != ["text"]


def _not_plain_text(value: Any) -> bool:
    return _asked(value) and value != {"type": "text"}


Asked = Callable[[Any], bool]
UNSUPPORTED: Mapping[str, tuple[Asked, str]] = {
    "response_format": (_not_plain_text, "only plain text is; ask for the format in the prompt"),
    "modalities": (_not_text_only, "only text comes out"),
    "audio": (_asked, "only text comes out"),
    "functions": (_asked, "describe them in the prompt"),
    "function_call": (_asked, "describe them in the prompt"),
    "logit_bias": (_asked, "leave it out"),
    "echo": (_asked, "leave it out and put the prompt before the answer yourself"),
    "suffix": (_asked, "leave it out"),
    "prompt_logprobs": (_given, "leave it out"),
    "prompt_embeds": (_asked, "send text or token ids"),
    "use_beam_search": (_asked, "sample with n answers instead"),
    "chat_template": (_asked, "the model folder's own is used"),
    "structured_outputs": (_asked, "ask for the format in the prompt"),
    "guided_json": (_asked, "ask for the format in the prompt"),
    "guided_regex": (_asked, "ask for the format in the prompt"),
    "guided_choice": (_asked, "ask for the format in the prompt"),
    "guided_grammar": (_asked, "ask for the format in the prompt"),
    "structural_tag": (_asked, "ask for the format in the prompt"),
    "web_search_options": (_given, "nothing is searched; put what is known into the prompt"),
    "documents": (_asked, "put them into the messages"),
    "bad_words": (_asked, "leave it out"),
    "allowed_token_ids": (_asked, "leave it out"),
    "logits_processors": (_asked, "leave it out"),
    "truncate_prompt_tokens": (_asked, "shorten the prompt yourself"),
    "mm_processor_kwargs": (_asked, "the model folder's own settings apply; scale the pictures yourself"),
    "return_token_ids": (_asked, "leave it out"),
    "return_tokens_as_token_ids": (_asked, "leave it out"),
}  # field -> (whether its value asks for the feature, what to do instead)


def refuse_unsupported(body: Mapping[str, Any]) -> None:
    """Raises BadRequest for the first field whose value asks for something that is not there."""
    for field, (asked, remedy) in UNSUPPORTED.items():
        if field in body and asked(body[field]):
            raise _unsupported(field, remedy)
    choice = body.get("tool_choice")
    if choice not in (None, "none", "auto"):
        raise _unsupported("tool_choice", 'leave it out, or set it to "none"')
    if body.get("tools") and choice != "none":
        raise _unsupported("tools", 'leave it out, or set tool_choice to "none"')
    best_of = body.get("best_of")
    if best_of is not None and best_of != body.get("n", 1):
        raise _unsupported("best_of", "only best_of equal to n is")


def _unsupported(field: str, remedy: str) -> BadRequest:
    return BadRequest(f"{field} is not supported: {remedy}", param=field, code="unsupported_parameter")

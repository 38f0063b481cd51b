"""The fields a request may have, with their types and ranges, as OpenAI and vLLM name them.

Unknown fields are ignored, as such servers do, but for those that `unsupported` lists. A field that is null was not
given: clients write out what they leave open. `uuid` on content parts is accepted and ignored: items are known by
their content.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

SEED_RANGE = 2**63


def _text_as_part(value: Any) -> Any:
    if isinstance(value, str):
        return [{"type": "text", "text": value}]
    if value is not None and not isinstance(value, list):
        raise PydanticCustomError("content_type", "Input should be a string or a list of content parts")
    return value


def _url_as_object(value: Any) -> Any:
    return {"url": value} if isinstance(value, str) else value


def _one_as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _prompts(value: Any) -> list[str | list[int]]:
    """One prompt or several, as text or as token ids, become a list of prompts."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, list) and value:
        if all(type(one) is int for one in value):
            return [value]
        if all(isinstance(one, str) for one in value):
            return value
        if all(isinstance(one, list) and one and all(type(number) is int for number in one) for one in value):
            return value
    raise PydanticCustomError(
        "prompt_type",
        "Input should be a string, a list of strings, a list of token ids, or a list of lists of token ids, not empty",
    )


class Lenient(BaseModel):
    """Types are taken as they stand ("5" is no number); unknown fields are ignored, and so are those that are null."""

    model_config = ConfigDict(strict=True, extra="ignore")

    @model_validator(mode="before")
    @classmethod
    def _given(cls, value: Any) -> Any:
        return {name: one for name, one in value.items() if one is not None} if isinstance(value, dict) else value


class ImageUrl(Lenient):
    url: Annotated[str, Field(min_length=1)]
    detail: str | None = Field(None, description="Accepted and ignored: the model's own sizes apply.")


class Part(Lenient):
    """One piece of a message: a text or a picture."""

    type: Literal["text", "image_url"]
    text: str | None = Field(None, validate_default=True)
    image_url: Annotated[ImageUrl | None, BeforeValidator(_url_as_object)] = Field(None, validate_default=True)
    uuid: str | None = Field(None, description="Accepted and ignored.")

    @field_validator("text", "image_url")
    @classmethod
    def _present(cls, value: Any, info: ValidationInfo) -> Any:
        if value is None and info.data.get("type") == info.field_name:
            raise PydanticCustomError("missing", "Field required")
        return value


class Message(Lenient):
    role: Literal["system", "user", "assistant", "tool", "developer"]
    content: Annotated[
        Annotated[list[Part], Field(min_length=1)] | None,
        BeforeValidator(_text_as_part, json_schema_input_type=str | list[Part] | None),
    ] = Field(None, validate_default=True)
    name: str | None = None
    tool_calls: list[dict[str, Any]] | None = None
    tool_call_id: str | None = None

    @field_validator("content")
    @classmethod
    def _needed(cls, value: list[Part] | None, info: ValidationInfo) -> list[Part] | None:
        if value is None and info.data.get("role") not in (None, "assistant"):
            raise PydanticCustomError("missing", "Field required")
        return value


class StreamOptions(Lenient):
    include_usage: bool = False


class CommonFields(Lenient):
    """What both kinds of request share."""

    model: str | None = Field(None, description="A name that /v1/models lists; may be left out.")
    n: int = Field(1, ge=1)
    stream: bool = False
    stream_options: StreamOptions | None = None
    max_tokens: int | None = Field(None, ge=1)
    min_tokens: int = Field(0, ge=0)
    temperature: float | None = Field(None, ge=0, le=2, allow_inf_nan=False)
    top_p: float | None = Field(None, gt=0, le=1)
    top_k: int | None = Field(None, ge=-1, description="0 and -1: off.")
    min_p: float | None = Field(None, ge=0, le=1)
    repetition_penalty: float | None = Field(None, gt=0, le=10)
    presence_penalty: float = Field(0.0, ge=-2, le=2)
    frequency_penalty: float = Field(0.0, ge=-2, le=2)
    seed: int | None = Field(None, ge=-SEED_RANGE, lt=SEED_RANGE)
    stop: Annotated[
        Annotated[list[Annotated[str, Field(min_length=1)]], Field(max_length=64)] | None,
        BeforeValidator(_one_as_list, json_schema_input_type=str | list[str] | None),
    ] = None
    stop_token_ids: list[Annotated[int, Field(ge=0)]] | None = None
    include_stop_str_in_output: bool = False
    ignore_eos: bool = False
    skip_special_tokens: bool = True
    include_timing: bool = Field(False, description="Add `timing`: milliseconds per stage, and the workers.")
    user: str | None = Field(None, description="Accepted and ignored.")


class ChatRequest(CommonFields):
    messages: Annotated[list[Message], Field(min_length=1)]
    max_completion_tokens: int | None = Field(None, ge=1, description="Wins over max_tokens.")
    logprobs: bool = False
    top_logprobs: int = Field(0, ge=0, le=20)
    add_generation_prompt: bool = True
    continue_final_message: bool = False
    chat_template_kwargs: dict[str, Any] = Field(default_factory=dict)

    @field_validator("top_logprobs")
    @classmethod
    def _with_logprobs(cls, value: int, info: ValidationInfo) -> int:
        if value and not info.data.get("logprobs"):
            raise PydanticCustomError("needs_logprobs", "Input needs logprobs to be true")
        return value

    @field_validator("continue_final_message")
    @classmethod
    def _one_ending(cls, value: bool, info: ValidationInfo) -> bool:
        if value and info.data.get("add_generation_prompt"):
            raise PydanticCustomError("two_endings", "Input needs add_generation_prompt to be false")
        return value

    @field_validator("chat_template_kwargs")
    @classmethod
    def _not_ours(cls, value: dict[str, Any]) -> dict[str, Any]:
        taken = sorted(TEMPLATE_ARGUMENTS & value.keys())
        if taken:
            raise PydanticCustomError("taken", "Input may not set {names}", {"names": ", ".join(taken)})
        return value


class CompletionRequest(CommonFields):
    prompt: Annotated[
        Any, AfterValidator(_prompts), Field(json_schema_extra={"description": "text or token ids, one or several"})
    ]
    logprobs: int | None = Field(None, ge=0, le=20)


TEMPLATE_ARGUMENTS = frozenset(
    {
        "conversation", "messages", "tools", "documents", "chat_template", "add_generation_prompt",
        "continue_final_message", "tokenize", "padding", "truncation", "max_length", "return_tensors", "return_dict",
        "return_assistant_tokens_mask", "tokenizer_kwargs",
    }
)  # fmt: skip  # apply_chat_template's own

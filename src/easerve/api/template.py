"""Conversations as chat templates expect them, and as the token ids that come of it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from easerve.api.schema import ChatRequest, Message
from easerve.api.text import TextCodec

OFF_LOOP_TEXT = 50_000  # characters; tokenizing more (some 10 ms) happens on a thread


async def tokenize(fields: ChatRequest, codec: TextCodec) -> list[int]:
    """Token ids with one placeholder per picture. Raises BadRequest when there is no template, or it refuses."""
    messages = [_template_message(message) for message in fields.messages]
    options = {
        "add_generation_prompt": fields.add_generation_prompt,
        "continue_final_message": fields.continue_final_message,
        **fields.chat_template_kwargs,
    }
    size = sum(len(part.text or "") for message in fields.messages for part in message.content or [])
    if size > OFF_LOOP_TEXT:
        return await asyncio.to_thread(codec.encode_chat, messages, **options)
    return codec.encode_chat(messages, **options)


def _template_message(message: Message) -> dict[str, Any]:
    """Content as a list of parts, tool arguments as objects."""
    role = "system" if message.role == "developer" else message.role
    parts: list[dict[str, Any]] = [
        {"type": "text", "text": part.text} if part.type == "text" else {"type": "image"}
        for part in message.content or []
    ]
    made: dict[str, Any] = {"role": role, "content": parts}
    if message.name is not None:
        made["name"] = message.name
    if message.tool_calls:
        made["tool_calls"] = [_with_object_arguments(call) for call in message.tool_calls]
    if message.tool_call_id is not None:
        made["tool_call_id"] = message.tool_call_id
    return made


def _with_object_arguments(call: dict[str, Any]) -> dict[str, Any]:
    function = call.get("function")
    if not isinstance(function, dict) or not isinstance(function.get("arguments"), str):
        return call
    try:
        return {**call, "function": {**function, "arguments": json.loads(function["arguments"])}}
    except ValueError:
        return call

"""In front of vLLM servers that encode and vLLM servers that do the rest: what vLLM's example proxy does, written anew.

Every media item of a request goes to an encoder as a request of its own, all at once and round-robin, without text and
with one token to make; when all are answered, the request goes to a prefill/decode server as it came, and its answer
streams back as it comes. Nothing is logged or parsed that need not be, so this proxy is no slower than theirs.

Runs in vLLM's environment, which has aiohttp:

    python proxy.py --port 8000 --encoder http://127.0.0.1:8001 --generator http://127.0.0.1:8002
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from itertools import cycle
from typing import Any

from aiohttp import ClientError, ClientSession, ClientTimeout, TCPConnector, web  # type: ignore[import-not-found]

MEDIA = ("image_url", "video_url", "input_audio", "audio_url")
PATH = "/v1/chat/completions"
LONGEST_BODY = 256 * 2**20
JSON = {"content-type": "application/json"}


class EncodeFailed(Exception):
    """An encoder refused an item."""

    def __init__(self, status: int, body: bytes) -> None:
        super().__init__(f"status {status}")
        self.status = status
        self.body = body


class Proxy:
    """Requests are spread over each pool in turn."""

    def __init__(self, encoders: Sequence[str], generators: Sequence[str]) -> None:
        self._encoders = cycle(encoders)
        self._generators = cycle(generators)
        self._any_generator = generators[0]
        self._http: ClientSession

    async def connected(self, _: web.Application) -> AsyncIterator[None]:
        """The client lives as long as the application."""
        async with ClientSession(timeout=ClientTimeout(total=None), connector=TCPConnector(limit=0)) as self._http:
            yield

    async def models(self, _: web.Request) -> web.Response:
        async with self._http.get(f"{self._any_generator}/v1/models") as answer:
            return web.Response(body=await answer.read(), status=answer.status, content_type="application/json")

    async def complete(self, request: web.Request) -> web.StreamResponse:
        content = await request.read()
        try:
            body = json.loads(content)
            await asyncio.gather(*(self._encode(body.get("model"), item) for item in media_items(body)))
        except EncodeFailed as failure:
            return web.Response(body=failure.body, status=failure.status, content_type="application/json")
        except (ValueError, ClientError) as error:
            return web.json_response({"error": {"message": str(error)}}, status=502)
        return await self._generate(content, request)

    async def _encode(self, model: str | None, item: dict[str, Any]) -> None:
        alone = {
            "model": model,
            "messages": [{"role": "user", "content": [item]}],
            "max_tokens": 1,
            "stream": False,
        }
        async with self._http.post(next(self._encoders) + PATH, json=alone) as answer:
            body = await answer.read()
            if answer.status != 200:
                raise EncodeFailed(answer.status, body)

    async def _generate(self, content: bytes, request: web.Request) -> web.StreamResponse:
        async with self._http.post(next(self._generators) + PATH, data=content, headers=JSON) as answer:
            out = web.StreamResponse(status=answer.status, headers={"content-type": answer.headers["content-type"]})
            await out.prepare(request)
            async for piece in answer.content.iter_any():
                await out.write(piece)
            await out.write_eof()
            return out


def media_items(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Content parts that need encoding, in their order."""
    for message in body.get("messages", ()):
        content = message.get("content")
        if isinstance(content, list):
            yield from (part for part in content if part.get("type") in MEDIA)


def application(encoders: Sequence[str], generators: Sequence[str]) -> web.Application:
    proxy = Proxy(encoders, generators)
    app = web.Application(client_max_size=LONGEST_BODY)
    app.cleanup_ctx.append(proxy.connected)
    app.add_routes([web.get("/v1/models", proxy.models), web.post(PATH, proxy.complete)])
    return app


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--encoder", action="append", required=True, help="URL of a server; may be repeated")
    parser.add_argument("--generator", action="append", required=True, help="URL of a server; may be repeated")
    arguments = parser.parse_args()
    app = application(arguments.encoder, arguments.generator)
    web.run_app(app, host="127.0.0.1", port=arguments.port, access_log=None, print=None)


if __name__ == "__main__":
    main()

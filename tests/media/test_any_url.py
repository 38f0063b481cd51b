"""Whatever URL comes, only the project's errors leave. (What bytes do is in test_decode_any_bytes.)"""

from __future__ import annotations

import asyncio
import ssl

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from easerve.errors import EAServeError
from easerve.media.addresses import AddressGuard
from easerve.media.fetch import Fetcher
from easerve.media.inline import inline
from easerve.media.loader import MediaLoader
from easerve.media.options import MediaOptions

_TLS = ssl.create_default_context()  # once: it takes a while


@given(st.text(max_size=60), st.sampled_from(["data:", "data:;base64,", "data:image/png,"]))
@settings(max_examples=200)
def test_any_data_uri(text: str, start: str) -> None:
    try:
        assert isinstance(inline(start + text, 1000), bytes)
    except EAServeError as error:
        assert error.message.isprintable()


async def _nowhere(host: str, port: int) -> list[str]:
    return []


@given(
    st.text(st.characters(), max_size=40),
    st.sampled_from(["", "http://", "https://", "http:", "file://", "data:", "h"]),
)
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@example("\ud800", "http://")
@example("\0", "http://")
@example("a:\u0660", "http://")
@example("[::1%25\n]", "http://")
def test_any_url(text: str, start: str) -> None:
    async def load() -> None:
        options = MediaOptions()
        guard = AddressGuard((), _nowhere)
        fetcher = Fetcher(options, guard, ssl_context=_TLS)
        loader = MediaLoader(options, fetcher=fetcher)
        with pytest.raises(EAServeError) as caught:
            await loader.load(start + text, param="image")
        assert caught.value.param == "image"
        assert caught.value.message.isprintable()
        assert caught.value.status < 500
        await loader.aclose()

    asyncio.run(load())

"""`easerve chat` over an HTTP API that says what it is told: pieces as they come, and errors that end it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console
from typer.testing import CliRunner

from easerve.cli import app as command
from easerve.cli import chatting
from easerve.config import Deployment
from easerve.demo import run as demo
from easerve.errors import BadRequest, EAServeError, Unavailable
from tests.api.doubles import Site, make_site, make_tokenizer
from tests.api.test_live import serving

ANSWER = "the red circle"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    """What `easerve chat` starts as its server."""
    site = make_site(make_tokenizer(tmp_path / "tiny"))

    @asynccontextmanager
    async def shown(*_: object) -> AsyncIterator[SimpleNamespace]:
        async with serving(site) as url:
            yield SimpleNamespace(url=url, model="tiny")

    monkeypatch.setattr(chatting, "shown", shown)
    return site


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is printed, call by call."""
    said: list[str] = []
    monkeypatch.setattr("builtins.print", lambda text="", end="\n", flush=False: said.append(f"{text}{end}"))
    return said


async def chat(*, stream: bool) -> None:
    await chatting.chat_once(Deployment(), "what ?", [], 16, stream, False, Console(quiet=True))


async def test_the_answer_is_printed_token_by_token(site: Site, said: list[str]) -> None:
    await chat(stream=True)
    assert "".join(said) == f"{ANSWER}\n"
    assert len(said) == len(site.model.codec.encode(ANSWER)) + 1 > 3


async def test_or_in_one_piece(site: Site, said: list[str]) -> None:
    await chat(stream=False)
    assert said == [ANSWER, "\n"]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("error", [Unavailable("no prefill worker is alive"), BadRequest("the picture is broken")])
async def test_an_error_before_the_first_token_prints_nothing_and_keeps_its_kind(
    site: Site, said: list[str], stream: bool, error: EAServeError
) -> None:
    site.pipeline.error = error
    with pytest.raises(type(error), match=error.message):
        await chat(stream=stream)
    assert said == []


async def test_an_error_midway_ends_it_on_a_line_of_its_own(site: Site, said: list[str]) -> None:
    site.pipeline.error, site.pipeline.error_at = EAServeError("the engine broke"), 2
    with pytest.raises(EAServeError, match="the engine broke"):
        await chat(stream=True)
    assert said[-1] == "\n"
    assert ANSWER.startswith("".join(said[:-1]))


async def test_a_server_that_breaks_off_is_an_error(
    site: Site, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chatting, "shown", _gone)
    with pytest.raises(EAServeError, match="the connection to the server broke"):
        await chat(stream=True)
    assert said == []


@asynccontextmanager
async def _gone(*_: object) -> AsyncIterator[SimpleNamespace]:
    yield SimpleNamespace(url="http://127.0.0.1:9", model="tiny")


def test_the_command_exits_1_with_one_line(site: Site, monkeypatch: pytest.MonkeyPatch, capsys) -> None:  # type: ignore[no-untyped-def]
    site.pipeline.error = Unavailable("no prefill worker is alive")
    monkeypatch.setattr("sys.argv", ["easerve", "chat", "what ?", "--no-stream"])
    with pytest.raises(SystemExit) as ended:
        command.run()
    assert ended.value.code == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "error: no prefill worker is alive" in err.splitlines()[-1]
    site.pipeline.error = None
    result = CliRunner().invoke(command.app, ["chat", "what ?"])
    assert (result.exit_code, result.stdout) == (0, f"{ANSWER}\n")


@pytest.mark.parametrize(("content", "reason"), [(b"some text", "no picture of a known format"), (b"", "zero bytes")])
def test_a_file_that_is_no_picture_is_named_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, reason: str
) -> None:
    monkeypatch.setattr(chatting, "shown", None)
    file = tmp_path / "notes.png"
    file.write_bytes(content)
    result = CliRunner().invoke(command.app, ["chat", "what ?", "--image", str(file)])
    assert isinstance(result.exception, BadRequest)
    assert result.exception.message.startswith(f"{file}: the picture")
    assert reason in result.exception.message


def test_a_demo_that_cannot_write_its_page_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "shown", None)
    (tmp_path / "taken").write_text("a file")
    for page in (tmp_path / "taken" / "page.html", tmp_path):
        result = CliRunner().invoke(command.app, ["demo", "--html", str(page)])
        assert result.exit_code == 2 and "--html" in result.output

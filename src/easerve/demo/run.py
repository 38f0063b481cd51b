"""Starts a server, asks it everything, and reports: a table or JSON, and a page."""

from __future__ import annotations

import asyncio
import io
import json
from pathlib import Path

import httpx
from PIL import Image
from rich.box import SIMPLE
from rich.console import Console
from rich.progress import track
from rich.table import Table

from easerve.builtin import scenes
from easerve.client import ask, data_uri
from easerve.config import BUILTIN, Deployment
from easerve.demo.page import render
from easerve.demo.report import Asked, Report
from easerve.server import Server, shown

COLUMNS = {
    "decode_media": "decode\nmedia",
    "encode_queue": "encode\nqueue",
    "encode": "encode",
    "transfer": "trans-\nfer",
    "prefill": "prefill",
    "first_token": "first\ntoken",
    "total": "total",
}
LONGEST_ANSWER = 64  # tokens; the built-in model's longest is about forty


async def run_demo(
    deployment: Deployment, amount: int, seed: int, concurrency: int, html: Path, as_json: bool, console: Console
) -> bool:
    """True if enough answers are right, or if the model's answers are not ours to judge."""
    questions = choose(amount, seed)
    async with shown(deployment, console) as server:
        asked = await _ask_all(server, questions, concurrency, console)
    report = Report(asked, judged=deployment.model == BUILTIN)
    _write(html, render(report))
    if as_json:
        print(json.dumps(report.as_json(), indent=2))
    else:
        Console().print(_table(report), report.summary(), f"page: {html}", sep="\n")
    return report.passed


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def choose(amount: int, seed: int) -> list[scenes.Example]:
    """Mostly one picture, some with two, some without: one in four and one in eight."""
    two, text = amount // 4, amount // 8
    one = scenes.held_out("one", amount - two - text, seed)
    return one + scenes.held_out("two", two, seed) + scenes.held_out("sum", text, seed)


def png(picture: Image.Image) -> bytes:
    """The picture as a PNG file."""
    file = io.BytesIO()
    picture.save(file, "PNG")
    return file.getvalue()


async def _ask_all(server: Server, questions: list[scenes.Example], concurrency: int, console: Console) -> list[Asked]:
    places = asyncio.Semaphore(concurrency)
    async with httpx.AsyncClient(base_url=server.url, timeout=None) as http:

        async def one(example: scenes.Example) -> Asked:
            urls = [data_uri(png(picture)) for picture in example.pictures]
            async with places:
                answer = await ask(http, server.model, example.question, urls, LONGEST_ANSWER)
            return Asked(example.question, urls, example.answer, answer)

        await ask(http, server.model, "what is one plus one ?", [], LONGEST_ANSWER)  # first use of everything
        tasks = [asyncio.create_task(one(example)) for example in questions]
        steps = track(
            asyncio.as_completed(tasks), "asking", len(tasks), console=console, disable=not console.is_terminal
        )
        for step in steps:
            await step
        return [task.result() for task in tasks]


def _table(report: Report) -> Table:
    """Numbers are never cut; the text column takes what is left of the terminal."""
    table = Table(title="Stage times in ms", box=SIMPLE, padding=(0, 1, 1, 0))
    table.add_column("question (pictures)\nanswer", ratio=1)
    for name in COLUMNS.values():
        table.add_column(name, justify="right", no_wrap=True)
    for asked in report.asked:
        mark = "" if not report.judged else "[green]✓ [/]" if asked.right else "[red]✗ [/]"
        times = [f"{asked.times.get(stage, 0.0):.1f}" for stage in COLUMNS]
        table.add_row(f"{asked.question} ({len(asked.pictures)})\n{mark}{asked.answer.text}", *times)
    return table

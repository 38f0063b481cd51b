"""Commands and their options."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.logging import RichHandler
from rich.markup import escape

from easerve import __version__
from easerve.cli import INTERRUPTED
from easerve.cli.benching import bench_app
from easerve.cli.comparing import compare
from easerve.cli.options import takes_deployment
from easerve.cli.output import writable
from easerve.cli.profiling import profile
from easerve.cli.simulating import SimulateCommand, simulate
from easerve.cli.tuning import advise, tune
from easerve.config import Deployment
from easerve.errors import EAServeError

app = typer.Typer(
    name="easerve",
    help="Serve multimodal language models with encode, prefill and decode apart.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)


class _Notes(Console):
    """What is said beside the results. Whoever has stopped reading it, a log's pipe, must not end a server."""

    def on_broken_pipe(self) -> None:
        with Path(os.devnull).open("wb") as nowhere:
            os.dup2(nowhere.fileno(), sys.stderr.fileno())


console = _Notes(stderr=True)


def run() -> None:
    """The command: errors a user can mend are one line, not a trace, and Ctrl-C is silence."""
    logging.basicConfig(
        level=logging.WARNING, format="%(message)s", handlers=[RichHandler(console=console, show_path=False)]
    )
    try:
        app()
    except EAServeError as error:
        console.print(f"[red]error:[/] {escape(error.message)}", soft_wrap=True, highlight=False)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"easerve {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@app.command()
@takes_deployment
def serve(
    deployment: Deployment,
    host: Annotated[str, typer.Option(help="Address to listen on.", rich_help_panel="Server")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(help="Port to listen on; 0 takes a free one.", min=0, max=65535, rich_help_panel="Server")
    ] = 8000,
) -> None:
    """Serve a model through the OpenAI API until Ctrl-C or SIGTERM.

    Without options: the built-in model on 127.0.0.1:8000, encode and prefill/decode on cores of their own. Example:

    easerve serve --model Qwen/Qwen2.5-VL-3B-Instruct --topology e-pd

    What runs then answers: curl http://127.0.0.1:8000/v1/models
    """
    from easerve.cli.serving import serve_until_signalled

    asyncio.run(serve_until_signalled(deployment, host, port, console))


@app.command()
@takes_deployment
def demo(
    deployment: Deployment,
    pictures: Annotated[int, typer.Option(help="How many pictures to ask about.", min=1, rich_help_panel="Demo")] = 24,
    seed: Annotated[int, typer.Option(help="Which pictures; none was trained on.", rich_help_panel="Demo")] = 0,
    concurrency: Annotated[int, typer.Option(help="Questions in flight.", min=1, rich_help_panel="Demo")] = 1,
    html: Annotated[
        Path,
        typer.Option(
            help="Where to write the page of pictures, answers and stage times.",
            callback=writable,
            rich_help_panel="Demo",
        ),
    ] = Path("runs/demo.html"),
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object instead of a table.", rich_help_panel="Demo")
    ] = False,
) -> None:
    """Start a server, ask it about pictures it has never seen, check the answers, and show where the time went.

    Exits 0 only if at least 95 % of the answers are right (with the built-in model; other models' answers are shown,
    not judged).
    """
    from easerve.demo.run import run_demo

    passed = asyncio.run(run_demo(deployment, pictures, seed, concurrency, html, as_json, console))
    raise typer.Exit(0 if passed else 1)


@app.command()
@takes_deployment
def chat(
    deployment: Deployment,
    question: Annotated[str, typer.Argument(help="What to ask.")],
    image: Annotated[
        list[Path] | None,
        typer.Option(help="A picture on disk; may be given several times.", exists=True, dir_okay=False),
    ] = None,
    max_tokens: Annotated[int, typer.Option(help="Longest answer, in tokens.", min=1)] = 256,
    stream: Annotated[bool, typer.Option(help="Print the answer as it comes, or in one piece.")] = True,
    timing: Annotated[bool, typer.Option(help="Also show where the time went.")] = False,
) -> None:
    """Start a server, ask it one question about pictures on disk, and print the answer.

    Exits 1 with the reason if there is no answer. Example:

    easerve chat "what is at the top left ?" --image a.png
    """
    from easerve.cli.chatting import chat_once

    asyncio.run(chat_once(deployment, question, image or [], max_tokens, stream, timing, console))


config_app = typer.Typer(help="Write and check deployment files.", no_args_is_help=True)
app.add_typer(config_app, name="config")
app.add_typer(bench_app, name="bench")
bench_app.command()(compare)
app.command()(profile)
app.command()(tune)
app.command()(advise)
app.command(cls=SimulateCommand)(takes_deployment(simulate))


@config_app.command()
def check(file: Annotated[Path, typer.Argument(help="Deployment file (YAML).", exists=True, dir_okay=False)]) -> None:
    """Say what is wrong with a deployment file, or what it comes to here. Exits 0 only if it can be served."""
    from easerve.cli.configuring import check_file

    raise typer.Exit(0 if check_file(file, console) else 1)


@config_app.command()
@takes_deployment
def write(
    deployment: Deployment,
    file: Annotated[Path, typer.Argument(help="File to write.", callback=writable)],
) -> None:
    """Write a deployment file from options, with the workers of its topology spelled out.

    Example:

    easerve config write deployment.yaml --topology easerve --encoders 2
    """
    from easerve.cli.configuring import write_file

    write_file(deployment, file, console)

"""What README and docs tell to type is what the commands take. Lines are parsed, nothing is run."""

from __future__ import annotations

import argparse
import re
import runpy
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

import pytest
import typer

from easerve.cli.app import app
from easerve.cli.options import OPTIONS
from easerve.config import Deployment

from .commands import NAMES, PAGES, ROOT, Line, lines

click: Any = sys.modules[typer.BadParameter.__module__]  # click's exceptions, wherever Typer has them from
FILE = re.compile(r"[\w./-]+\.(?:png|yaml|json|jsonl|txt)|FILE")
INCOMPLETE = (click.MissingParameter, click.BadOptionUsage)
COMMAND = typer.main.get_command(app)
EVERY = [line for page in PAGES for line in lines(page.read_text())]


def parse(command: Any, arguments: Sequence[str], parent: Any = None) -> None:
    """As the command would be called, down to its last subcommand; a deployment's fields are checked too.

    Raises UsageError for what does not parse, ValidationError for what no deployment can be.
    """
    with command.make_context(command.name or "easerve", list(arguments), parent=parent) as context:
        rest = [*context._protected_args, *context.args]
        if rest and hasattr(command, "commands"):
            _, following, its_arguments = command.resolve_command(context, rest)
            parse(following, its_arguments, context)
        said = {name for name in context.params if str(context.get_parameter_source(name)) != "ParameterSource.DEFAULT"}
        if "topology" in context.params:
            Deployment(**{name: context.params[name] for name in OPTIONS if name in said})


def calls(line: Line) -> Iterator[list[str]]:
    """Arguments of every call of easerve in a line, also within `--server NAME=COMMAND`."""
    arguments = line.arguments("easerve")
    if arguments and re.match(r"[a-z-]", arguments[0]):
        yield arguments
        for word in arguments:
            if found := re.match(r"[\w-]+=easerve (.*)", word):
                yield shlex.split(found[1].replace("{port}", "8000"))


def check(page: str) -> int:
    """Parse all calls in a page; how many there were."""
    found = [(line, arguments) for line in lines(page) for arguments in calls(line)]
    for line, arguments in found:
        for file in filter(FILE.fullmatch, arguments):
            Path(file).touch()
        try:
            parse(COMMAND, arguments)
        except typer.Exit as end:
            assert end.exit_code == 0, arguments
        except INCOMPLETE:
            assert not line.whole, arguments
        except click.UsageError as error:
            pytest.fail(f"easerve {shlex.join(arguments)}: {error.format_message()}")
    return len(found)


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_every_easerve_command_parses(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    check(page.read_text())


def test_examples_in_the_help_parse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    helps = [re.sub(r"^(?=easerve )", "    ", text, flags=re.MULTILINE) for text in _helps(COMMAND)]
    assert sum(map(check, helps)) >= 8


def _helps(command: Any) -> Iterator[str]:
    """Examples have a line of their own."""
    yield f"{command.help or ''}\n"
    for one in getattr(command, "commands", {}).values():
        yield from _helps(one)


@pytest.mark.parametrize(
    "wrong", ["serv", "serve --no-such 1", "serve --port many", "serve --encoders 0", "bench compare --rounds 2"]
)
def test_a_command_that_is_none_is_found(wrong: str) -> None:
    with pytest.raises((click.UsageError, ValueError)):
        parse(COMMAND, shlex.split(wrong))


SCRIPTS = sorted({(path, tuple(arguments)) for line in EVERY if line.whole or len(line.words) > 2
                  for path, arguments in [line.script() or ("", [])] if path})  # fmt: skip


SCRIPT_FOLDERS = {(ROOT / script).parent.name for script, _ in SCRIPTS}


class Parsed(Exception):
    pass


@pytest.fixture
def parse_only(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Scripts end where they have read their arguments, and leave no module behind."""
    read = argparse.ArgumentParser.parse_args

    def parse_args(parser: argparse.ArgumentParser, *given: Any) -> NoReturn:
        read(parser, *given)
        raise Parsed

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse_args)
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if Path(getattr(sys.modules[name], "__file__", None) or "/").parent.name in SCRIPT_FOLDERS:
            del sys.modules[name]


@pytest.mark.parametrize(("script", "arguments"), SCRIPTS, ids=[" ".join([path, *rest]) for path, rest in SCRIPTS])
@pytest.mark.usefixtures("parse_only")
def test_every_script_takes_the_options_shown(
    script: str, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = ROOT / script
    monkeypatch.syspath_prepend(str(path.parent))
    monkeypatch.setattr(sys, "argv", [script, *arguments])
    with pytest.raises(Parsed):
        runpy.run_path(str(path), run_name="__main__")


def test_every_make_target_is_there() -> None:
    named = {target for line in EVERY for target in line.arguments("make") or []}
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {"demo", "test", "setup-vllm"} <= named <= targets

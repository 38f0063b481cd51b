"""Turns the fields of a `Deployment` into command-line options, so that each is defined and documented once."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic.fields import FieldInfo

from easerve.config import Deployment, read_deployment
from easerve.config.files import parse_deployment

OPTIONS = {name: field for name, field in Deployment.model_fields.items() if field.json_schema_extra}
CONTEXT = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
CONFIG = inspect.Parameter(
    "config",
    inspect.Parameter.KEYWORD_ONLY,
    default=None,
    annotation=Annotated[
        Path | None,
        typer.Option(help="Deployment file (YAML); other options given here override it.", exists=True, dir_okay=False),
    ],
)


def takes_deployment(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose first parameter is a Deployment becomes one with an option for each of its fields, and --config
    for a file with them."""

    @functools.wraps(command)
    def wrapped(**given: Any) -> None:
        context: typer.Context = given.pop("context")
        fields = {name: given.pop(name) for name in OPTIONS}
        said = {name: value for name, value in fields.items() if _was_said(context, name)}
        file = given.pop("config")
        deployment = parse_deployment(said, _as_option) if file is None else read_deployment(file, **said)
        command(deployment, **given)

    options = [_parameter(name, field) for name, field in OPTIONS.items()]
    return with_options(wrapped, [*parameters_of(command)[1:], CONTEXT, CONFIG, *options])


def parameters_of(made: Callable[..., Any]) -> list[inspect.Parameter]:
    """Those of a command, or of a class whose fields are options, in their order."""
    found = inspect.signature(made, eval_str=True).parameters.values()
    return [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in found]


def with_options(command: Callable[..., None], parameters: Sequence[inspect.Parameter]) -> Callable[..., None]:
    """`command` with these for Typer to read, in the place of its own."""
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


def _as_option(field: str) -> str:
    return "--" + field.replace("_", "-")


def _was_said(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name != "DEFAULT"


def _parameter(name: str, field: FieldInfo) -> inspect.Parameter:
    kind: Any = list[str] if field.annotation == tuple[str, ...] else field.annotation
    extra = field.json_schema_extra
    panel = str(extra["group"]) if isinstance(extra, dict) else None
    annotation = Annotated[kind, typer.Option(help=field.description, rich_help_panel=panel)]
    default = list(field.default) if isinstance(field.default, tuple) else field.default
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)

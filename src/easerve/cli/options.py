"""Turns the fields of a `Deployment` into command-line options, so that each is defined and documented once."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer
from pydantic import ValidationError
from pydantic.fields import FieldInfo

from easerve.config import Deployment
from easerve.errors import StartupError


def takes_deployment(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose first parameter is a Deployment becomes one with an option for each of its fields."""
    own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]

    @functools.wraps(command)
    def wrapped(**given: Any) -> None:
        fields = {name: given.pop(name) for name in Deployment.model_fields}
        command(_deployment(fields), **given)

    options = [_parameter(name, field) for name, field in Deployment.model_fields.items()]
    parameters = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own] + options
    wrapped.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapped.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return wrapped


def _deployment(fields: dict[str, Any]) -> Deployment:
    try:
        return Deployment(**fields)
    except ValidationError as error:
        first = error.errors()[0]
        option = "--" + str(first["loc"][0]).replace("_", "-")
        raise StartupError(f"{option}: {first['msg']}, not {first['input']!r}") from error


def _parameter(name: str, field: FieldInfo) -> inspect.Parameter:
    kind: Any = list[str] if field.annotation == tuple[str, ...] else field.annotation
    extra = field.json_schema_extra
    panel = str(extra["group"]) if isinstance(extra, dict) else None
    annotation = Annotated[kind, typer.Option(help=field.description, rich_help_panel=panel)]
    default = list(field.default) if isinstance(field.default, tuple) else field.default
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)

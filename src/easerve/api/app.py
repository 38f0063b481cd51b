"""The OpenAI-compatible application: which path does what."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from fastapi.openapi.utils import get_openapi
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from pydantic.json_schema import models_json_schema
from starlette.responses import Response

from easerve import __version__
from easerve.api import errors
from easerve.api.answer import AnswerResponse
from easerve.api.backend import Backend, PictureLoader, PipelineLike, PixelMemory
from easerve.api.exchange import ExchangeMiddleware
from easerve.api.formats import ChatFormat, CompletionFormat
from easerve.api.generation import ChatGeneration, CompletionGeneration
from easerve.api.options import ApiOptions
from easerve.api.schema import ChatRequest, CompletionRequest
from easerve.api.service import ServedModel
from easerve.api.validation import read_fields
from easerve.observe.metrics import RequestMetrics

REFS = "#/components/schemas/{model}"


def create_app(
    *,
    model: ServedModel,
    pipeline: PipelineLike,
    media: PictureLoader,
    buffers: PixelMemory,
    metrics: RequestMetrics | None = None,
    options: ApiOptions | None = None,
) -> FastAPI:
    """The application for uvicorn. It starts and stops nothing: the parts it is given outlive it.

    Without `metrics`, they go into a registry of their own.
    """
    options = options or ApiOptions()
    metrics = metrics or RequestMetrics(CollectorRegistry())
    backend = Backend(model=model, pipeline=pipeline, media=media, buffers=buffers, metrics=metrics, options=options)
    app = FastAPI(title="EAServe", version=__version__, description="Multimodal models behind the OpenAI API.")
    app.add_middleware(ExchangeMiddleware, metrics=metrics, api_keys=options.api_keys)
    errors.install(app)
    _add_generation(app, backend)
    _add_models(app, model)
    _add_operations(app, backend)
    _document_bodies(app)
    return app


def _body(name: str) -> dict[str, Any]:
    schema = {"$ref": REFS.format(model=name)}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def _add_generation(app: FastAPI, backend: Backend) -> None:
    limit = backend.options.max_body_bytes

    @app.post("/v1/chat/completions", openapi_extra=_body("ChatRequest"), tags=["generate"])
    async def chat_completions(request: Request) -> Response:
        """Answer a conversation, with pictures or without."""
        fields = await read_fields(request, ChatRequest, limit)
        generation = ChatGeneration(backend, fields, request.state.exchange)
        return AnswerResponse(generation, ChatFormat(generation), request.state.exchange)

    @app.post("/v1/completions", openapi_extra=_body("CompletionRequest"), tags=["generate"])
    async def completions(request: Request) -> Response:
        """Continue one or several prompts, given as text or as token ids."""
        fields = await read_fields(request, CompletionRequest, limit)
        generation = CompletionGeneration(backend, fields, request.state.exchange)
        return AnswerResponse(generation, CompletionFormat(generation), request.state.exchange)


def _add_models(app: FastAPI, model: ServedModel) -> None:
    card = {
        "id": model.name,
        "object": "model",
        "created": model.created,
        "owned_by": "easerve",
        "root": model.name,
        "max_model_len": model.max_model_len,
    }

    @app.get("/v1/models", tags=["models"])
    async def list_models() -> dict[str, Any]:
        """The model that requests may name."""
        return {"object": "list", "data": [card]}

    @app.get("/v1/models/{name:path}", tags=["models"])
    async def show_model(name: str) -> dict[str, Any]:
        """The model, if that is its name."""
        model.check_name(name)
        return card


def _add_operations(app: FastAPI, backend: Backend) -> None:
    @app.get("/health", tags=["operate"])
    async def health() -> dict[str, str]:
        """200 when requests can be served, 503 with the reason when not."""
        await backend.pipeline.check_health()
        return {"status": "ok"}

    @app.get("/live", tags=["operate"])
    async def live() -> dict[str, str]:
        """200 as long as the front end runs."""
        return {"status": "live"}

    @app.get("/version", tags=["operate"])
    async def version() -> dict[str, str]:
        """The server's version."""
        return {"version": __version__}

    @app.get("/metrics", tags=["operate"])
    async def metrics() -> Response:
        """Prometheus metrics."""
        return Response(generate_latest(backend.metrics.registry), headers={"content-type": CONTENT_TYPE_LATEST})


def _document_bodies(app: FastAPI) -> None:
    """Put the request schemas into /openapi.json: bodies are read by hand, so FastAPI does not know of them."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            schema = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
            _, defined = models_json_schema(
                [(ChatRequest, "validation"), (CompletionRequest, "validation")], ref_template=REFS
            )
            schema.setdefault("components", {}).setdefault("schemas", {}).update(defined["$defs"])
            app.openapi_schema = schema
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]

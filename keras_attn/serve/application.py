"""The web application: REST in TensorFlow Serving's JSON, chats in OpenAI's, and the page."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from keras_attn.packages import needed
from keras_attn.serve.chat import Chat
from keras_attn.serve.measures import Measures
from keras_attn.serve.open_api import open_api, open_api_page
from keras_attn.serve.problems import RequestProblem
from keras_attn.serve.reading import read_object
from keras_attn.serve.served_model import ServedModel, bad, shown
from keras_attn.serve.worker import Worker
from keras_attn.tasks import Task

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

_PAGE = Path(__file__).with_name("page.html")
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
_REFUSED = (ValueError, TypeError, OSError, NotImplementedError)
"""What tasks raise for inputs that they do not take."""


@dataclass(frozen=True)
class Limits:
    """Limits of the size, number and time of requests.

    Example:

    >>> Limits(queue_size=16).seconds
    30.0
    """

    queue_size: int = 256
    """Maximum number of waiting rows of a model; further requests get status 429."""
    batch_size: int = 64
    """Maximum number of rows that are computed at a time."""
    seconds: float = 30.0
    """Maximum time of a request; a slower request gets status 504."""
    max_bytes: int = 8_000_000
    """Maximum size of a request; a larger request gets status 413."""


class _Served(NamedTuple):
    model: ServedModel
    worker: Worker
    chat: Chat | None


def application(
    tasks: Mapping[str, Task],
    limits: Limits | None = None,
    *,
    hosts: tuple[str, ...] = ("*",),
    around: Callable[[], AbstractContextManager[object]] = contextlib.nullcontext,
    warm: bool = False,
) -> Starlette:
    """Creates an ASGI application that serves tasks with an HTML page, a REST API and a chat API.

    Args:
        tasks: The tasks, keyed by the names that requests use.
        limits: Limits of requests; the defaults if None.
        hosts: Allowed values of a request's `Host` header, which protect the server against web
            pages of other sites that call it from a browser; `"*"` allows all values.
        around: Function that returns a context manager, in which the thread of each model computes.
        warm: Whether each model computes a small request before the first request is answered, so
            that the model is compiled. `/health` lists the models that have computed this request.

    Returns:
        A Starlette application. When it starts, the models compute a small request if `warm` is
        True; when it stops, their threads end.

    Raises:
        ImportError: If Starlette or `prometheus_client` is not installed.

    Example:

    >>> from starlette.testclient import TestClient
    >>> from keras_attn.text import WordTokenizer
    >>> from keras_attn.tasks import TextClassifier
    >>> classifier = TextClassifier(WordTokenizer.train(["so good", "so good"]), ["no", "yes"])
    >>> with TestClient(application({"films": classifier})) as client:
    ...     answer = client.post("/v1/models/films:predict", json={"instances": ["so good"]})
    >>> answer.status_code, sorted(answer.json()["predictions"][0]["probabilities"])
    (200, ['no', 'yes'])
    """
    with needed("Serving"):
        from starlette.applications import Starlette
        from starlette.middleware import Middleware
        from starlette.middleware.trustedhost import TrustedHostMiddleware
        from starlette.routing import Route
    handlers = _Handlers(tasks, limits or Limits(), around)

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        if warm:
            await asyncio.gather(*map(handlers.warm, tasks))
        yield
        await asyncio.to_thread(handlers.stop)

    routes = [
        Route("/", handlers.page),
        Route("/docs", handlers.docs),
        Route("/openapi.json", handlers.open_api),
        Route("/health", handlers.health),
        Route("/metrics", handlers.metrics),
        Route("/v1/models", handlers.models),
        Route("/v1/models/{name}:{verb}", handlers.act, methods=["POST"]),
        Route("/v1/models/{name}", handlers.state),
        Route("/v1/chat/completions", handlers.complete, methods=["POST"]),
    ]
    middleware = [Middleware(TrustedHostMiddleware, allowed_hosts=list(hosts))]
    app = Starlette(routes=routes, middleware=middleware, lifespan=lifespan)
    app.router.redirect_slashes = False
    return app


class _Handlers:
    """What answers the requests."""

    def __init__(
        self,
        tasks: Mapping[str, Task],
        limits: Limits,
        around: Callable[[], AbstractContextManager[object]],
    ):
        self.limits = limits
        self.measures = Measures()
        self.served: dict[str, _Served] = {}
        for name, task in tasks.items():
            model = ServedModel(name, task)
            heard = self.measures.model(name, functools.partial(self._waiting, name))
            worker = Worker(
                model.predict,
                max_rows=limits.batch_size,
                queue_size=limits.queue_size,
                around=around,
                heard=heard,
            )
            self.served[name] = _Served(model, worker, Chat.of(name, task))
        self._warm: list[str] = []
        self._open_api = open_api([served.model for served in self.served.values()])

    async def warm(self, name: str) -> None:
        """Computes a small request to a model, which compiles it."""
        served = self.served[name]
        with contextlib.suppress(*_REFUSED):  # such as words that an embedder does not know
            await served.worker.rows([served.model.small_row()])
            self._warm.append(name)

    def stop(self) -> None:
        """Ends the threads, after what waits is computed."""
        for served in self.served.values():
            served.worker.stop()

    def _waiting(self, name: str) -> int:
        return self.served[name].worker.waiting if name in self.served else 0

    # Pages and descriptions

    async def page(self, request: Request) -> Response:
        """The page."""
        return _html(_PAGE.read_text(encoding="utf-8"))

    async def docs(self, request: Request) -> Response:
        """The description of REST as a page."""
        return _html(open_api_page(self._open_api))

    async def open_api(self, request: Request) -> Response:
        """The description of REST as JSON."""
        return _json(self._open_api)

    async def health(self, request: Request) -> Response:
        """Whether the server is there, and which models have computed a request at its start."""
        return _json({"status": "ok", "models": list(self.served), "warm": sorted(self._warm)})

    async def metrics(self, request: Request) -> Response:
        """Counts for Prometheus."""
        from starlette.responses import Response

        return Response(self.measures.text(), media_type="text/plain; version=0.0.4")

    async def models(self, request: Request) -> Response:
        """The models in OpenAI's form, with their fields and settings."""
        data = [
            {"id": name, "object": "model", "created": 0, "owned_by": "keras_attn",
             **served.model.described(), "chats": served.chat is not None}
            for name, served in self.served.items()
        ]  # fmt: skip
        return _json({"object": "list", "data": data})

    async def state(self, request: Request) -> Response:
        """The state of a model in TensorFlow Serving's form."""
        name = request.path_params["name"]
        model, _, verb = name.rpartition(":")
        if model in self.served and verb in _VERBS:  # the route of another method
            response = _json({"error": f"Expected POST. Received: {request.method}."}, 405)
            response.headers["allow"] = "POST"
            return response
        if name not in self.served:
            return _json({"error": f"Unknown model {shown(name)}."}, 404)
        okay = {"error_code": "OK", "error_message": ""}
        state = {"version": "1", "state": "AVAILABLE", "status": okay}
        return _json({"model_version_status": [state], **self.served[name].model.described()})

    # What is computed

    async def act(self, request: Request) -> Response:
        """`:predict` and `:explain`."""
        name, verb = request.path_params["name"], request.path_params["verb"]
        actions = dict(zip(_VERBS, (self._predict, self._explain), strict=True))
        if name not in self.served or verb not in actions:
            what = f"models {', '.join(self.served)} with :predict and :explain"
            return _json({"error": f"Expected {what}. Received: {shown(f'{name}:{verb}')}."}, 404)

        async def answer(body: dict[str, object]) -> tuple[Response, int]:
            found, rows = await actions[verb](self.served[name], body)
            return _json(found), rows

        return await self._answered(request, name, verb, answer, lambda text: {"error": text})

    async def _predict(self, served: _Served, body: dict[str, object]) -> tuple[object, int]:
        model = served.model
        _check(body, "instances", "inputs", "parameters")
        rows, by_rows = model.rows(body)
        settings = model.parameters(body, model.settings)
        results = await served.worker.rows(*model.seeded(rows, settings))
        if by_rows:
            return {"predictions": results}, len(rows)
        first = results[0]
        columns = (
            {name: [result[name] for result in results] for name in first}  # type: ignore[index]  # all are dicts
            if isinstance(first, dict)
            else results
        )
        return {"outputs": columns}, len(rows)

    async def _explain(self, served: _Served, body: dict[str, object]) -> tuple[object, int]:
        model = served.model
        if not model.explains:
            raise RequestProblem(400, f"The task {model.task.name} does not support explanations.")
        _check(body, "instances", "inputs", "parameters")
        rows, _ = model.rows(body)
        settings = model.parameters(body, model.explanation_settings)
        if len(rows) > _MOST_EXPLAINED:
            raise bad(f"at most {_MOST_EXPLAINED} rows to explain", str(len(rows)))

        def explain() -> Iterator[object]:
            yield model.explain(rows, settings, model.name)

        async for found in served.worker.stream(explain):
            return found, len(rows)
        raise RuntimeError("an explanation without a result")

    async def complete(self, request: Request) -> Response:
        """Chats in OpenAI's form."""
        from starlette.responses import StreamingResponse

        async def answer(body: dict[str, object]) -> tuple[Response, int]:
            name = body.get("model")
            served = self.served.get(name) if isinstance(name, str) else None
            if served is None or served.chat is None:
                chats = [x for x, other in self.served.items() if other.chat is not None]
                known = ", ".join(chats) or "none"
                raise RequestProblem(
                    404, f"Expected a chat model ({known}) as `model`. Received: {shown(name)}."
                )
            asked = served.chat.asked(body)
            pieces = served.worker.stream(asked.pieces)
            if not asked.stream:
                return _json(asked.whole([piece async for piece in pieces])), 1
            first = await anext(pieces)  # an error is raised before the answer begins
            events = asked.events(first, pieces)
            return StreamingResponse(events, media_type="text/event-stream"), 1

        def error(text: str) -> dict[str, object]:
            return {"error": {"message": text, "type": "invalid_request_error", "code": None}}

        return await self._answered(request, "chat", "completions", answer, error)

    async def _answered(
        self,
        request: Request,
        name: str,
        verb: str,
        answer: Callable[[dict[str, object]], Awaitable[tuple[Response, int]]],
        error: Callable[[str], dict[str, object]],
    ) -> Response:
        """Reads a request and answers it in time, or says why not; counts it."""
        began, rows = time.perf_counter(), 0
        try:
            async with asyncio.timeout(self.limits.seconds):
                body = await read_object(request, self.limits.max_bytes)
                response, rows = await answer(body)
        except TimeoutError:
            text = f"The request took longer than {self.limits.seconds:g} seconds."
            response = _json(error(text), 504)
        except RequestProblem as problem:
            response = _json(error(problem.message), problem.status)
            if problem.status == 429:
                response.headers["retry-after"] = "1"
        except _REFUSED as problem:
            response = _json(error(str(problem)[:1000]), 400)
        self.measures.request(name, verb, response.status_code, time.perf_counter() - began, rows)
        return response


_MOST_EXPLAINED = 8
_VERBS = ("predict", "explain")
_SIGNATURE = "serving_default"


def _check(body: Mapping[str, object], *known: str) -> None:
    known = (*known, "signature_name")
    unknown = [name for name in body if name not in known]
    if unknown:
        raise bad(f"names among {', '.join(known)}", shown(unknown))
    signature = body.get("signature_name", _SIGNATURE)
    if signature != _SIGNATURE:
        raise bad(f'"{_SIGNATURE}" as `signature_name`, which is the only one', shown(signature))


def _json(value: object, status: int = 200) -> Response:
    from starlette.responses import Response

    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    content = text.encode("utf-8", "replace")
    headers = {"x-content-type-options": "nosniff"}
    return Response(content, status, headers, media_type="application/json")


def _html(text: str) -> Response:
    from starlette.responses import HTMLResponse

    headers = {
        "content-security-policy": _POLICY,
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
    }
    return HTMLResponse(text, headers=headers)

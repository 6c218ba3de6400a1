"""The description of REST in OpenAPI 3.1, as JSON and as a page."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence

from keras_attn.serve.served_model import ServedModel
from keras_attn.settings import Option
from keras_attn.version import __version__

_STRING = {"type": "string"}
_BYTES = {"type": "object", "properties": {"b64": _STRING}, "required": ["b64"]}
_KINDS = {
    "text": {"anyOf": [_STRING, _BYTES]},
    "picture": _BYTES,
    "turns": {"anyOf": [_STRING, {"type": "array", "items": _STRING}]},
}
_NUMBERS = {"int": "integer", "float": "number", "bool": "boolean"}
_ERRORS = {
    "400": "The request is wrong; the error says why.",
    "404": "There is no model of this name.",
    "413": "The request is too large.",
    "429": "Too many rows wait.",
    "504": "The request took too long.",
}


def open_api(models: Sequence[ServedModel]) -> dict[str, object]:
    """Returns an OpenAPI description of the requests to models.

    Args:
        models: The models.

    Returns:
        An OpenAPI 3.1 document, as a dict.
    """
    paths: dict[str, object] = {
        "/health": _get("Whether the server is there."),
        "/metrics": _get("Counts for Prometheus.", "text/plain"),
        "/v1/models": _get("The models, their fields and settings."),
    }
    for model in models:
        paths[f"/v1/models/{model.name}"] = _get(f"The state of {model.name}.")
        paths[f"/v1/models/{model.name}:predict"] = _post(
            model.task.about, _schema(model, model.settings)
        )
        if model.explains:
            text = "The weights of words, and a page that shows them."
            paths[f"/v1/models/{model.name}:explain"] = _post(
                text, _schema(model, model.explanation_settings)
            )
    message = {
        "type": "object",
        "properties": {"role": _STRING, "content": _STRING},
        "required": ["role", "content"],
    }
    chat: dict[str, object] = {
        "type": "object",
        "properties": {
            "model": _STRING,
            "messages": {"type": "array", "items": message},
            "stream": {"type": "boolean"},
            "temperature": {"type": "number"},
            "top_p": {"type": "number"},
            "seed": {"type": "integer"},
            "max_tokens": {"type": "integer"},
        },
        "required": ["model", "messages"],
    }
    paths["/v1/chat/completions"] = _post("Answers in a chat, in OpenAI's form.", chat)
    info = {"title": "keras_attn", "version": __version__}
    return {"openapi": "3.1.0", "info": info, "paths": paths}


def _schema(model: ServedModel, settings: Mapping[str, Option]) -> dict[str, object]:
    """The body of a request: rows or columns, and settings."""
    fields = {field.name: _KINDS[field.kind] for field in model.fields}
    needed = [field.name for field in model.fields if not field.optional]
    row: dict[str, object] = {"type": "object", "properties": fields, "required": needed}
    if len(needed) == 1:
        row = {"anyOf": [fields[needed[0]], row]}
    columns = {name: {"type": "array", "items": kind} for name, kind in fields.items()}
    properties: dict[str, object] = {
        "instances": {"type": "array", "items": row, "minItems": 1},
        "inputs": {"type": "object", "properties": columns},
        "signature_name": {"enum": ["serving_default"]},
    }
    if settings:
        properties["parameters"] = {
            "type": "object",
            "properties": {
                name: {
                    "description": option.help,
                    **({"enum": list(option.choices)} if option.choices
                       else {"type": _NUMBERS[option.kind.__name__]}),
                }
                for name, option in settings.items()
            },
        }  # fmt: skip
    return {"type": "object", "properties": properties}


def _get(summary: str, kind: str = "application/json") -> dict[str, object]:
    answer = {"200": {"description": "OK", "content": {kind: {}}}}
    return {"get": {"summary": summary, "responses": answer}}


def _post(summary: str, schema: dict[str, object]) -> dict[str, object]:
    body = {"required": True, "content": {"application/json": {"schema": schema}}}
    answers = {"200": {"description": "OK", "content": {"application/json": {}}}}
    errors = {status: {"description": text} for status, text in _ERRORS.items()}
    return {"post": {"summary": summary, "requestBody": body, "responses": answers | errors}}


def open_api_page(document: dict) -> str:
    """Returns the description as a page of HTML that needs no network.

    Args:
        document: The result of `open_api`.
    """
    parts = []
    for path, actions in document["paths"].items():
        for verb, action in actions.items():
            content = action.get("requestBody", {}).get("content", {}).get("application/json")
            body = json.dumps(content["schema"], indent=1, ensure_ascii=False) if content else ""
            parts.append(
                f"<h2><code>{verb.upper()} {html.escape(path)}</code></h2>"
                f"<p>{html.escape(action['summary'])}</p>"
                + (f"<details><summary>body</summary><pre>{html.escape(body)}</pre></details>"
                   if body else "")
            )  # fmt: skip
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>keras_attn: REST</title>'
        '<meta name="viewport" content="width=device-width"><style>:root{color-scheme:light dark}'
        "body{font:16px/1.5 system-ui,sans-serif;max-width:50rem;margin:2rem auto;padding:0 1rem}"
        "h2{font-size:1rem;margin:1.5rem 0 0;overflow-wrap:anywhere}pre{overflow:auto}</style>"
        '<h1>REST</h1><p><a href="/">Page</a> · <a href="/openapi.json">OpenAPI</a></p>'
        f"{''.join(parts)}</html>"
    )

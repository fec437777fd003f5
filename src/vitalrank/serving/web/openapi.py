"""The OpenAPI description of the server, and a page that shows it."""

from __future__ import annotations

from html import escape
from typing import Any

from vitalrank.serving.web.limits import Limits

_ID = {"oneOf": [{"type": "string"}, {"type": "integer"}]}


def describe(limits: Limits, version: str) -> dict[str, Any]:
    """The description as an OpenAPI 3.1 object.

    Examples
    --------
    >>> sorted(describe(Limits(), "1")["paths"])[:3]
    ['/explain', '/fold-in', '/health']
    """
    ids = {"type": "array", "items": _ID, "maxItems": limits.ids}
    shared: dict[str, Any] = {
        "n": {"type": "integer", "minimum": 1, "maximum": limits.n, "default": 10},
        "items": {**ids, "description": "Allow list."},
        "exclude_items": {**ids, "description": "Block list."},
        "per_user_exclude": {
            "type": "array",
            "items": ids,
            "maxItems": limits.batch,
            "description": "A block list for each that is asked about, in their order.",
        },
        "within": {"description": "Values by column of the item table, or a column: that of what is asked about."},
    }
    seen = {"seen": {"type": "boolean", "default": False, "description": "May seen items be returned?"}}
    negatives = {"exclude_negatives": {"type": "boolean", "default": False}}
    unknown = {"unknown": {"enum": ["error", "popular"], "default": "error"}}
    many = {"users": {**ids, "maxItems": limits.batch}}
    histories = {"histories": {"type": "array", "items": ids, "maxItems": limits.batch}}
    text = {"q": {"type": "string", "maxLength": 200}, "n": shared["n"]}
    paths = {
        "/recommend": {
            "get": _get("Items for a user", {"user": _ID, "n": shared["n"], **unknown, **seen}),
            "post": _post(
                "Items for a user, or for several", {"user": _ID, **many, **shared, **seen, **negatives, **unknown}
            ),
        },
        "/similar": {
            "get": _get("Items like an item", {"item": _ID, "n": shared["n"]}),
            "post": _post("Items like an item, or like each of several", {"item": _ID, "items_like": ids, **shared}),
        },
        "/fold-in": {
            "post": _post("Items for someone outside the log, from a history", {
                "history": ids, **histories, **shared, **seen, "unknown": {"enum": ["skip", "error"]},
            })
        },
        "/explain": {
            "get": _get("Which of a user's items speak for an item", {"user": _ID, "item": _ID}),
            "post": _post("The same for a user or a history", {"user": _ID, "history": ids, "item": _ID}),
        },
        "/history": {"get": _get("The newest items of a user", {"user": _ID, "n": shared["n"]})},
        "/items": {"get": _get("Items by a part of their name or id", text)},
        "/users": {"get": _get("Users whose id begins so", text)},
        "/health": {"get": _get("Whether the server answers, and which model", {})},
        "/metrics": {"get": _get("Counters in Prometheus' text format", {})},
    }  # fmt: skip
    return {
        "openapi": "3.1.0",
        "info": {"title": "vitalrank", "version": version, "description": "Recommendations from one fitted model."},
        "paths": paths,
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
    }


def show(description: dict[str, Any]) -> str:
    """The description as an HTML page of its own."""
    parts = []
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            fields = _fields_of(operation)
            rows = "".join(f"<tr><td><code>{escape(name)}</code><td>{escape(kind)}" for name, kind in fields.items())
            parts.append(
                f"<h2><code>{method.upper()} {escape(path)}</code></h2><p>{escape(operation['summary'])}.</p>"
                + (f"<table>{rows}</table>" if rows else "")
            )
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        "<title>vitalrank: HTTP</title><style>:root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;"
        "max-width:46rem;margin:2rem auto;padding:0 1rem}h2{font-size:1rem;margin:2rem 0 0}p{margin:.2rem 0}"
        "td{padding:.1rem 1.5rem .1rem 0;vertical-align:top;overflow-wrap:anywhere}</style>"
        '<h1>HTTP</h1><p>As a file for programs: <a href="openapi.json">openapi.json</a>. Errors are '
        "<code>{&quot;error&quot;: &quot;...&quot;}</code> with a status of 4xx.</p>" + "".join(parts)
    )


def _fields_of(operation: dict[str, Any]) -> dict[str, str]:
    schemas = {one["name"]: one["schema"] for one in operation.get("parameters", ())}
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    return {name: _kind(schema) for name, schema in {**schemas, **body.get("properties", {})}.items()}


def _kind(schema: dict[str, Any]) -> str:
    kind = "an id" if schema == _ID else schema.get("type") or " or ".join(schema.get("enum", ("a column, or values",)))
    most = schema.get("maximum") or schema.get("maxItems")
    return f"{kind}, at most {most}" if most else str(kind)


def _get(summary: str, fields: dict[str, Any]) -> dict[str, Any]:
    needed = {"user", "item"}
    parameters = [
        {"name": name, "in": "query", "required": name in needed, "schema": one} for name, one in fields.items()
    ]
    return {"summary": summary, "parameters": parameters, "responses": _responses()}


def _post(summary: str, fields: dict[str, Any]) -> dict[str, Any]:
    schema = {"type": "object", "properties": fields, "additionalProperties": False}
    content = {"application/json": {"schema": schema}}
    return {"summary": summary, "requestBody": {"required": True, "content": content}, "responses": _responses()}


def _responses() -> dict[str, Any]:
    error = {"type": "object", "properties": {"error": {"type": "string"}}}
    refused = {"description": "Refused: one sentence says why.", "content": {"application/json": {"schema": error}}}
    return {"200": {"description": "The answer."}, "4XX": refused}

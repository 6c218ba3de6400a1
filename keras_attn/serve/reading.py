"""JSON bodies of requests, read within limits of size."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NoReturn

from keras_attn.serve.problems import RequestProblem
from keras_attn.serve.served_model import bad, shown

if TYPE_CHECKING:
    from starlette.requests import Request


async def read_object(request: Request, max_bytes: int) -> dict[str, object]:
    """Reads the body of a request as a JSON object.

    Args:
        request: The request.
        max_bytes: Largest size of the body.

    Raises:
        RequestProblem: If the body is larger (413), or is not a JSON object (400).
    """
    from starlette.requests import ClientDisconnect

    size = request.headers.get("content-length", "")
    parts, read = [], 0
    try:
        async for part in request.stream():
            read += len(part)
            if read > max_bytes or (size.isdecimal() and int(size) > max_bytes):
                raise RequestProblem(413, f"Expected at most {max_bytes:,} bytes. Received: more.")
            parts.append(part)
    except ClientDisconnect as error:
        raise bad("a whole body", f"{read:,} bytes before the connection ended") from error
    return parsed(b"".join(parts))


def parsed(body: bytes) -> dict[str, object]:
    """Parses a body as a JSON object.

    Raises:
        RequestProblem: If the body is not a JSON object.

    Example:

    >>> parsed(b'{"instances": ["a"]}')
    {'instances': ['a']}
    """
    try:
        found = json.loads(body, parse_constant=_refuse)
    except RecursionError as error:
        raise bad("JSON", "lists or objects that are nested too deeply") from error
    except ValueError as error:  # of JSON, of UTF-8, and of numbers with too many digits
        raise bad("a JSON object", f"{error}"[:200]) from error
    if not isinstance(found, dict):
        raise bad("a JSON object", shown(found))
    return found


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number in JSON")

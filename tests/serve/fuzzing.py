"""Hostile requests, drawn: raw bytes of HTTP with odd methods, paths, headers and bodies."""

import base64
import json
import struct
import zlib
from typing import NamedTuple

TEXTS = [
    "", " ", "a", "good film", "\x00", "\u202e\u200d\ufeff", "<script>alert(1)</script>", "é" * 40,
    "\U0001f469\u200d\U0001f467", "[MASK] [CLS] [PAD]", "../../../etc/passwd", "/etc/passwd",
    "{{7*7}}", "%s%n", "a\r\nSet-Cookie: x=1", "word " * 300, "x" * 5000, "1e999", "NaN", "null",
]  # fmt: skip
NUMBERS = ["0", "-0", "1e999", "-1e999", "1e-999", "9" * 400, "9" * 5000, "NaN", "Infinity",
           "-Infinity", "0x10", "01", "1.", "2147483648", "-1", "0.5", "1e308", "true"]  # fmt: skip
NAMES = [
    "instances", "inputs", "parameters", "signature_name", "text", "image", "question", "b64",
    "model", "messages", "role", "content", "stream", "stop", "max_tokens", "temperature", "top_p",
    "seed", "n", "top_k", "beams", "n_best", "__class__", "", "\ud800", "a" * 300,
]  # fmt: skip
PATHS = [
    "/", "/docs", "/openapi.json", "/health", "/metrics", "/v1/models", "/v1/models/text",
    "/v1/models/none", "/v1/models/text:predict", "/v1/models/text:explain",
    "/v1/models/picture:predict", "/v1/models/picture:explain", "/v1/models/answer:predict",
    "/v1/models/answer:explain", "/v1/models/write:predict", "/v1/models/talk:predict",
    "/v1/models/talk:explain", "/v1/chat/completions",
]  # fmt: skip
ODD_PATHS = [
    "/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/..%2f..%2fetc%2fpasswd", "//etc/passwd",
    "/v1/models/../../../etc/passwd:predict", "/v1/models/..%2f..%2fetc%2fpasswd:predict",
    "/v1/models/text%00:predict", "/v1/models/:predict", "/v1/models/text:", "/v1/models/a:b:c",
    "/v1/models/text:predict/", "/v1/models/text:predict?x=" + "y" * 9000, "/" + "a" * 30_000,
    "*", "http://evil.example/", "/\xff\xfe", "/%ff%fe", "/page.html", "/v1/models/text:__init__",
]  # fmt: skip
METHODS = ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT", "FOO", "get"]
HEADERS = [
    "Content-Type: text/plain", "Content-Type: multipart/form-data; boundary=x", "Accept: image/*",
    "Content-Encoding: gzip", "Expect: 100-continue", "Upgrade: websocket", "Range: bytes=0-1",
    "X-Forwarded-For: ::1", "Cookie: " + "a=b;" * 500, "X-Long: " + "y" * 20_000, "Bad header",
    "Origin: http://evil.example", "X-Null: a\x00b", "If-None-Match: *", "\xff: \xff",
    "Content-Length: 5", "Content-Length: -1", "Content-Length: 9999999999999999999999",
    "Transfer-Encoding: chunked", "Transfer-Encoding: gzip, chunked", "Host: evil.example", "Host:",
]  # fmt: skip


class Drawn(NamedTuple):
    """A request: its bytes, its method and path, and whether it is whole, correct HTTP."""

    data: bytes
    method: str
    path: str
    proper: bool


def png(width, height):
    """A PNG that says any size and has the data of one pixel."""
    chunk = lambda kind, data: (  # noqa: E731
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    )
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = (b"IHDR", head), (b"IDAT", zlib.compress(b"\0\x80\x80\x80")), (b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in parts)


def value(draw, depth=0):
    """JSON text of any type and depth: numbers out of range, keys twice, lone surrogates."""
    kind = draw.randrange(7 if depth < 5 else 5)
    if kind < 2:
        return json.dumps(draw.choice([*TEXTS, "\ud800"]), ensure_ascii=draw.random() < 0.7)
    if kind == 2:
        return draw.choice(NUMBERS)
    if kind == 3:
        return draw.choice(["null", "true", "false", '""', "[]", "{}"])
    if kind == 4:
        code = draw.choice([
            "aGVsbG8=", "***", "", base64.b64encode(png(1, 1)).decode(),
            base64.b64encode(png(2**31 - 1, 2**31 - 1)).decode(),
            base64.b64encode(png(60_000, 60_000)).decode(),
            base64.b64encode(draw.randbytes(50)).decode(), "/etc/passwd",
        ])  # fmt: skip
        return json.dumps({"b64": code})
    parts = [value(draw, depth + 1) for _ in range(draw.randrange(5))]
    if kind == 5:
        return f"[{', '.join(parts)}]"
    return fields(draw, {draw.choice(NAMES): part for part in parts})


def fields(draw, parts):
    """An object of JSON, at times with a name twice."""
    pairs = [f"{json.dumps(name)}: {part}" for name, part in parts.items()]
    if pairs and draw.random() < 0.1:
        pairs.append(draw.choice(pairs))
    return "{" + ", ".join(pairs) + "}"


def sound(draw, path):
    """A body that has the form of its route, with fair values."""
    text = json.dumps(draw.choice(TEXTS))
    if path == "/v1/chat/completions":
        role = draw.choice(["user", "user", "assistant", "system", "root"])
        message = fields(draw, {"role": json.dumps(role), "content": text})
        name = json.dumps(draw.choice(["talk", "write", "text", "none"]))
        parts = {"model": name, "messages": f"[{message}]", "max_tokens": "3"}
        parts["stream"] = draw.choice(["true", "false"])
        if '"talk"' in name:
            del parts["max_tokens"]
        return parts
    image = json.dumps({"b64": base64.b64encode(png(1, draw.choice([1, 10**4]))).decode()})
    row = {
        "picture": image, "answer": fields(draw, {"question": '"who ?"', "text": text}),
        "talk": f"[{text}]",
    }.get(path.removeprefix("/v1/models/").partition(":")[0], text)  # fmt: skip
    return {draw.choice(["instances", "inputs"]): f"[{row}]"}


def body(draw, path):
    """A body: sound, changed, or no JSON at all."""
    way = draw.randrange(10)
    if way == 0:
        return draw.randbytes(draw.randrange(2000))
    if way == 1:
        deep = draw.choice([10, 1000, 20_000])
        return (draw.choice(["[", '{"instances":', '{"inputs": [']) * deep).encode()
    if way == 2:
        return value(draw).encode("utf-8", "surrogatepass")
    parts = sound(draw, path)
    if way > 5:
        for _ in range(draw.randrange(3)):
            parts[draw.choice([*parts, *NAMES])] = value(draw)
    text = fields(draw, parts)
    if way == 9:
        return text.encode(draw.choice(["utf-8-sig", "utf-16", "utf-32"]), "surrogatepass")
    data = text.encode("utf-8", "surrogatepass")
    if way == 8:
        at = draw.randrange(len(data))
        data = draw.choice([data[:at], data[:at] + draw.randbytes(3) + data[at:], data * 2])
    return data + b" " * 300_000 if draw.random() < 0.02 else data


def drawn(draw, host):
    """Draws a request to a host."""
    path = draw.choice(PATHS if draw.random() < 0.85 else ODD_PATHS)
    posts = ":" in path or path.startswith("/v1/chat")
    method = "POST" if posts else "GET"
    if draw.random() < 0.1:
        method = draw.choice(METHODS)
    content = body(draw, path) if method == "POST" or draw.random() < 0.1 else b""
    headers = [f"Host: {host}", "Connection: close", f"Content-Length: {len(content)}"]
    proper = draw.random() < 0.7
    if not proper:
        headers += draw.choices(HEADERS, k=draw.randrange(1, 4))
        if draw.random() < 0.2:
            del headers[draw.randrange(len(headers))]
    head = f"{method} {path} {draw.choice(['HTTP/1.1'] * 9 + ['HTTP/1.0'])}\r\n"
    data = (head + "".join(f"{header}\r\n" for header in headers) + "\r\n").encode("latin-1")
    data += content
    if draw.random() < 0.05:
        data, proper = data[: draw.randrange(len(data))], False
    if draw.random() < 0.02:
        data, proper = draw.randbytes(draw.randrange(300)), False
    return Drawn(data, method, path, proper and path in PATHS)

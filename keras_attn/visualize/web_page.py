"""Assembly of self-contained HTML pages, with escaped text."""

import base64
import functools
import hashlib
import html
import importlib.resources
import json
import string

from keras_attn.visualize.display import drawable


@functools.cache
def page_files(*names: str) -> str:
    """Returns the joined contents of files in the folder `page`, which are embedded in pages."""
    folder = importlib.resources.files("keras_attn.visualize") / "page"
    return "".join("\n" + (folder / name).read_text(encoding="utf-8") for name in names)


def escaped(text: str) -> str:
    """Escapes text for HTML."""
    return html.escape(drawable(text))


def json_for_page(data: object) -> str:
    """Encodes data as JSON for a script element, so that no text in it can end the element."""
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def source_hash(content: str) -> str:
    """Returns the content security policy source that allows one style sheet or script."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


def web_page(title: str, content: str, style: str, policy: str, scripts: str = "") -> str:
    """Assembles an HTML page from its parts."""
    return string.Template(page_files("page.html")[1:]).substitute(
        title=escaped(title),
        content=content,
        style=style,
        policy=f"default-src 'none'; {policy}",
        scripts=scripts,
    )

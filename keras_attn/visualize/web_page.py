"""HTML pages in one file that fetch nothing. They are assembled and their text is escaped here."""

import functools
import html
import importlib.resources
import string

from keras_attn.visualize.display import drawable


@functools.cache
def page_files(*names: str) -> str:
    """Reads files of the folder `page`, to be written into a page."""
    folder = importlib.resources.files("keras_attn.visualize") / "page"
    return "".join("\n" + (folder / name).read_text(encoding="utf-8") for name in names)


def escaped(text: str) -> str:
    """Escapes text for HTML."""
    return html.escape(drawable(text))


def web_page(title: str, content: str, style: str, policy: str, scripts: str = "") -> str:
    """Assembles a page."""
    return string.Template(page_files("page.html")[1:]).substitute(
        title=escaped(title),
        content=content,
        style=style,
        policy=f"default-src 'none'; {policy}",
        scripts=scripts,
    )

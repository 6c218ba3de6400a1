"""HTML pages in one file that fetch nothing. They are assembled and their text is escaped here."""

import functools
import html
import importlib.resources
import string

from keras_attn.visualize.display import drawable


@functools.cache
def page_files(*names: str) -> str:
    """Reads files of the folder `page`, to be written into a page.

    Args:
        names: Names of the files.

    Returns:
        Their text, with a line break before each file.

    Example:

    >>> page_files("viewer.css")[:7]
    '\\n:root{'
    """
    folder = importlib.resources.files("keras_attn.visualize") / "page"
    return "".join("\n" + (folder / name).read_text(encoding="utf-8") for name in names)


def escaped(text: str) -> str:
    """Escapes text for HTML.

    Args:
        text: Any string.

    Returns:
        The text as content of an element or as a quoted attribute. UTF-8 can hold it.

    Example:

    >>> escaped("<b>\\ud800")
    '&lt;b&gt;\ufffd'
    """
    return html.escape(drawable(text))


def web_page(title: str, content: str, style: str, policy: str, scripts: str = "") -> str:
    """Assembles a page.

    Args:
        title: Heading of the page. It is escaped here; the other arguments are written as they are.
        content: HTML below the heading.
        style: The style sheet.
        policy: What the page may run and show, beside nothing, as its Content-Security-Policy.
        scripts: HTML of the script elements.

    Returns:
        The page, to be written as UTF-8.

    Example:

    >>> page = web_page("a < b", "<p>yes</p>", "", "style-src 'unsafe-inline'")
    >>> "<title>a &lt; b</title>" in page, "default-src 'none'; style-src" in page
    (True, True)
    """
    return string.Template(page_files("page.html")[1:]).substitute(
        title=escaped(title),
        content=content,
        style=style,
        policy=f"default-src 'none'; {policy}",
        scripts=scripts,
    )

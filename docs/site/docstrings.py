"""An extension of griffe that brings the docstrings into the form that mkdocstrings reads."""

import re
from typing import Any

import griffe


class Docstrings(griffe.Extension):
    """Makes sections of "Call arguments:" and of "Example:"."""

    def on_instance(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Is called with each object that has a docstring."""
        if obj.docstring:
            obj.docstring.value = with_sections(obj.docstring.value)


def with_sections(text: str) -> str:
    """Returns a docstring whose calls and examples are sections."""
    text = re.sub(r"^Call arguments:$", "Other Args: Call arguments:", text, flags=re.M)
    head, mark, example = text.partition("Example:\n\n")
    if not mark:
        return text
    return f"{head}Examples:\n" + re.sub(r"^(?=.)", "    ", example, flags=re.M)

"""Pages of notebooks: their text, code and stored outputs as Markdown."""

import base64
import json
from pathlib import Path
from typing import Any


def notebook_page(notebook: Path, pictures: Path) -> str:
    """Returns a notebook as Markdown, and writes its pictures to a folder beside the page."""
    pictures.mkdir(parents=True, exist_ok=True)
    parts = []
    for number, cell in enumerate(json.loads(notebook.read_text(encoding="utf-8"))["cells"]):
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        for place, output in enumerate(cell["outputs"]):
            picture = pictures / f"{number}_{place}.png"
            parts.append(shown(output, picture))
    return "\n\n".join(parts) + "\n"


def shown(output: dict[str, Any], picture: Path) -> str:
    """Returns an output of a cell: a picture, which is written, or text."""
    data = output.get("data", {})
    if "image/png" in data:
        picture.write_bytes(base64.b64decode(data["image/png"]))
        return f"![Output of the cell]({picture.parent.name}/{picture.name})"
    text = "".join(output.get("text", data.get("text/plain", ""))).rstrip()
    return f"```text\n{text}\n```"

"""Writes the table of the launcher: `python tests/launcher_table.py`.

`keras_attn_command.py` answers without Keras which tasks there are and which steps they have. Its
table is made of the tasks here; a test checks that the committed table equals what this script
writes.
"""

import re
import textwrap
from pathlib import Path

from keras_attn.cli.main import EPILOG, keras_attn_command

LAUNCHER = Path(__file__).resolve().parents[1] / "keras_attn_command.py"
BEGIN, END = (f"# {word} of what tests/launcher_table.py writes.\n" for word in ("Begin", "End"))


def table() -> str:
    """The generated part of the launcher."""
    lines = []
    for name, group in keras_attn_command.commands.items():
        if name == "serve":  # no task
            continue
        lines += [name, f"  {group.help}"]
        for step, command in group.commands.items():
            lines.append(f"    {step}: {command.line}")
            lines += textwrap.wrap(" ".join(command.paths), 92, initial_indent=6 * " ",
                                   subsequent_indent=6 * " ", break_on_hyphens=False)  # fmt: skip
    epilog = textwrap.fill(EPILOG, 100)
    body = "\n".join(lines)
    return f'_TABLE = """\\\n{body}\n"""\nEPILOG = """\\\n{epilog}"""\n'


def updated(source: str) -> str:
    """The launcher's source with the present table."""
    pattern = f"{re.escape(BEGIN)}.*{re.escape(END)}"
    return re.sub(pattern, lambda _: f"{BEGIN}{table()}{END}", source, flags=re.S)


if __name__ == "__main__":
    source = LAUNCHER.read_text(encoding="utf-8")
    LAUNCHER.write_text(updated(source), encoding="utf-8")

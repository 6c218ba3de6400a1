"""The step of conversation that other tasks have not: a chat."""

import sys
from pathlib import Path
from typing import Any

import click

from keras_attn.cli.lines import read_chunks
from keras_attn.cli.options import device_option, model_option
from keras_attn.cli.task_command import step_command, task_command, values_of
from keras_attn.tasks import Talker
from keras_attn.training import compute_on


def _chat(model_file: Path, device: str, settings: dict[str, Any]) -> None:
    with compute_on(device):
        values = values_of(Talker, "chat", settings, Talker.answer)
        talker = Talker.load(model_file)
        typed = sys.stdin is not None and sys.stdin.isatty()
        if typed:
            click.echo("An empty line begins anew; Ctrl-D ends.", err=True)
        turns: list[str] = []
        for line in (line for lines in read_chunks((), size=1) for line in lines):
            turns = [*turns, line] if line.strip() else []
            if turns:
                answer = talker.readable(talker.answer(tuple(turns), **values))
                click.echo(answer)
                turns = [*turns, answer][-talker.sizes["max_turns"] :]


chat = step_command(
    Talker,
    "chat",
    _chat,
    """Talk with a model: each line of standard input is a turn, and is answered by a line.

    The last turns are kept, as many as the model reads. An empty line begins a new conversation.
    Ctrl-D, or the end of the input, ends it.
    """,
    model_option,
    device_option,
)

conversation = task_command(Talker)
conversation.add_command(chat)

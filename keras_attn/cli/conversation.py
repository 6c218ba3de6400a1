"""The step of conversation that other tasks have not: a chat."""

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import click

from keras_attn.cli.lines import read_chunks
from keras_attn.cli.options import device_option, model_option
from keras_attn.cli.output import open_output
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
        lines = (line for lines in read_chunks((), size=1) for line in lines)

        def reply(turns: tuple[str, ...]) -> str:
            return talker.readable(talker.answer(turns, **values))

        with contextlib.ExitStack() as stack:
            output = open_output(None, stack)
            for answer in answers_to(lines, reply, talker.sizes["max_turns"]):
                print(answer, file=output, flush=True)


def answers_to(
    lines: Iterable[str], reply: Callable[[tuple[str, ...]], str], max_turns: int
) -> Iterator[str]:
    """Answers what is said, line by line; an empty line begins a new conversation.

    Args:
        lines: The lines.
        reply: Gives an answer to the turns so far.
        max_turns: Largest number of turns that are kept.

    Example:

    >>> list(answers_to(["Hi.", "So?", "", "Hi."], lambda turns: str(len(turns)), 4))
    ['1', '3', '1']
    """
    turns: list[str] = []
    answered = True
    for line in lines:
        if not line.strip():
            turns, answered = [], True
            continue
        # After an empty answer the same side goes on speaking.
        turns = [*turns, line] if answered else [*turns[:-1], f"{turns[-1]} {line}"]
        answer = reply(tuple(turns))
        yield answer
        answered = bool(answer.strip())
        turns = [*turns, *[answer] * answered][-max_turns:]


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

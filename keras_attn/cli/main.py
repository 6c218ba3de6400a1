"""The command and its exit codes."""

import importlib
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from zipfile import BadZipFile

import click

from keras_attn.cli.serve_command import serve_command
from keras_attn.cli.task_command import task_command
from keras_attn.settings import WrongUse
from keras_attn.tasks import (
    AnswerSelector,
    Captioner,
    EntailmentClassifier,
    Pretrainer,
    QuestionAnswerer,
    SimilarityScorer,
    Summarizer,
    Tagger,
    Talker,
    Task,
    TextClassifier,
    TextGenerator,
    TextRegressor,
    Translator,
    VisualQuestionAnswerer,
    WordEmbedder,
)
from keras_attn.version import __version__

TASKS = (
    Translator,
    Summarizer,
    TextGenerator,
    TextClassifier,
    TextRegressor,
    EntailmentClassifier,
    Tagger,
    QuestionAnswerer,
    Pretrainer,
    WordEmbedder,
    SimilarityScorer,
    AnswerSelector,
    Talker,
    Captioner,
    VisualQuestionAnswerer,
)
"""The tasks of the package, in the order of the command's list."""
EPILOG = (
    "Exit codes: 0 done; 1 the data, the files or the machine are not as they must be; 2 wrong "
    "use; 128 + n ended by signal n (130: Ctrl-C), with what was learnt kept. The environment "
    "variable KERAS_BACKEND chooses tensorflow, jax or torch."
)
_EXPECTED = (ValueError, TypeError, OSError, ImportError, RuntimeError, BadZipFile)


class _Commands(click.Group):
    """The tasks of the package, and your own tasks as `FILE.py:CLASS` or `MODULE:CLASS`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        return task_command(own_task(name)) if ":" in name else super().get_command(ctx, name)


def own_task(name: str) -> type[Task]:
    """Returns a task of the user, given as `FILE.py:CLASS` or `MODULE:CLASS`."""
    place, _, kind = name.rpartition(":")
    path = Path(place).resolve() if place.endswith(".py") else None
    if path is not None:
        sys.path.insert(0, str(path.parent))
        place = path.stem
    module = importlib.import_module(place)
    if path is not None and Path(getattr(module, "__file__", None) or "").resolve() != path:
        raise click.UsageError(
            f"{path} has the name of a module that is already loaded. Rename the file."
        )
    if not hasattr(module, kind):
        raise click.UsageError(f"{module.__file__} has no class {kind}.")
    return getattr(module, kind)


@click.group(
    "keras-attn",
    cls=_Commands,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="keras-attn")
@click.option("--debug", is_flag=True, help="show where an error comes from")
def keras_attn_command(debug: bool) -> None:
    """Attention for Keras 3: tasks on your own data, from raw files to a SavedModel.

    COMMAND is one of the tasks below, or a task of your own, given as FILE.py:CLASS or
    MODULE:CLASS. The command serve serves models of any task.
    """


for task in TASKS:
    keras_attn_command.add_command(task_command(task))
keras_attn_command.add_command(serve_command(TASKS, own_task))


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command `keras-attn` and exits.

    Args:
        arguments: Arguments of the command; None for the arguments of the process.

    Raises:
        SystemExit: If the command succeeds (exit code 0), is ended by a signal (128 plus its
            number), or fails because of wrong arguments (2), or of data, files, packages or memory
            (1). Unexpected errors are raised unchanged; with `--debug`, also the errors of code 1.

    Example:

    >>> main(["translation", "predict", "--model", "nowhere.task"])
    Traceback (most recent call last):
        ...
    SystemExit: 1
    """
    if threading.current_thread() is threading.main_thread():
        # An exit, unlike the signal's default, removes partial files.
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        code = keras_attn_command.main(arguments, "keras-attn", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output has gone
        sys.stderr.close()
        sys.exit(1)
    except WrongUse as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(2)
    except Exception as error:
        of_tensorflow = type(error).__name__ == "ResourceExhaustedError"
        no_memory = of_tensorflow or isinstance(error, MemoryError)
        asked = "--debug" in (sys.argv[1:] if arguments is None else arguments)
        if asked or not (no_memory or isinstance(error, _EXPECTED)):
            raise
        hint = "out of memory. Give smaller batches, or a smaller model."
        click.echo(f"Error: {hint if no_memory else error}", err=True)
        sys.exit(1)
    sys.exit(code if isinstance(code, int) else 0)  # click returns that of its `Exit`

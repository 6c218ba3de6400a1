"""The command `keras-attn`: what needs no Keras is answered without it.

This module stands outside of the package, as importing the package imports Keras, which takes
seconds. `--version`, the list of tasks and the list of a task's steps are answered here; all else
is handed on to `keras_attn.cli`. The command and the scripts in `examples/` get their plain output
from `plain_output`.
"""

import contextlib
import functools
import importlib
import os
import re
import signal
import sys
import tempfile
import threading
import tomllib
import warnings
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

# Begin of what tests/launcher_table.py writes.
_TABLE = """\
translation
  Translate sentences: a Transformer, or a recurrent network, trained on your pairs.
    prepare: Read sentence pairs, check and split them, and write ids for `fit`.
      data.backbone:model data.train:examples data.train_target:examples data.dev:examples
      data.dev_target:examples data.test:examples data.test_target:examples
    fit: Train; the same command again resumes a run that was interrupted.
      data.backbone:model data.data:folder data.train:examples data.train_target:examples
      data.dev:examples data.dev_target:examples
    evaluate: Measure a model on pairs of yours.
      test.data:folder test.pairs:examples test.pairs_target:examples model:model
    predict: Translate FILES, a sentence a line, in their order; standard input if there are none.
      model:model --renormalize --no-renormalize FILES:lines
    explain: Write an HTML page that shows which parts of an input decided its result.
      model:model --renormalize --no-renormalize FILES:lines
    score: Score given targets: how probable the model finds the second text of each pair.
      model:model FILES:lines
    quantize: Write a smaller model: kernels and embeddings of 8 bits instead of 32.
      model:model
    export: Export a SavedModel, which only needs TensorFlow, or an ONNX or LiteRT file.
      model:model
summarization
  Summarise texts: T5, or a model of your own, trained on texts with summaries.
    fit: Train; the same command again resumes a run that was interrupted.
      data.train:examples data.dev:examples data.backbone:model
    evaluate: Measure a model on pairs of yours.
      test.data:examples model:model
    predict: Generate a text for each input text.
      model:model --renormalize --no-renormalize FILES:lines
    explain: Write an HTML page that shows which parts of an input decided its result.
      model:model --renormalize --no-renormalize FILES:lines
    score: Score given targets: how probable the model finds the second text of each pair.
      model:model FILES:lines
    quantize: Write a smaller model: kernels and embeddings of 8 bits instead of 32.
      model:model
    export: Export a SavedModel, which only needs TensorFlow, or an ONNX or LiteRT file.
      model:model
text-generation
  Write texts: a language model, trained on a text of your own.
    fit: Train; the same command again resumes a run that was interrupted.
      data.backbone:model data.text:examples data.dev:examples
    evaluate: Measure a model on documents of yours.
      data.text:examples data.dev:examples model:model
    predict: Write texts that begin with prompts.
      model:model --renormalize --no-renormalize --end-token --no-end-token --stream
      --no-stream FILES:lines
    quantize: Write a smaller model: kernels and embeddings of 8 bits instead of 32.
      model:model
    export: Export a SavedModel, which only needs TensorFlow, or an ONNX or LiteRT file.
      model:model
text-classification
  Classify texts, or pairs of texts: films by their reviews, or texts of your own.
    fit: Train; the same command again resumes a run that was interrupted.
      data.train:examples data.dev:examples data.backbone:model data.word_vectors:file
      data.vocabulary_file:file
    evaluate: Measure a model on texts of yours.
      test.data:examples model:model
    predict: Classify texts or pairs of texts.
      model:model FILES:lines
    explain: Write an HTML page that shows which parts of an input decided its result.
      model:model FILES:lines
    quantize: Write a smaller model: kernels and embeddings of 8 bits instead of 32.
      model:model
    export: Export a SavedModel, which only needs TensorFlow, or an ONNX or LiteRT file.
      model:model
regression
  Predict a number from a text or a pair of texts, such as stars from a review.
    fit: Train; the same command again resumes a run that was interrupted.
      data.train:examples data.dev:examples data.backbone:model data.word_vectors:file
      data.vocabulary_file:file
    evaluate: Measure a model on texts of yours.
      test.data:examples model:model
    predict: Predict the number of a text, or of a pair of texts.
      model:model FILES:lines
    explain: Write an HTML page that shows which parts of an input decided its result.
      model:model FILES:lines
    quantize: Write a smaller model: kernels and embeddings of 8 bits instead of 32.
      model:model
    export: Export a SavedModel, which only needs TensorFlow, or an ONNX or LiteRT file.
      model:model
entailment
  Say whether a text follows from another one, and which words were compared.
    fit: Train; the same command again resumes a run that was interrupted.
      data.train:examples data.dev:examples data.word_vectors:file data.backbone:model
    evaluate: Measure a model on pairs of yours.
      test.data:examples model:model
    predict: Classify texts or pairs of texts.
      model:model FILES:lines
    explain: Write an HTML page that shows which parts of an input decided its result.
      model:model FILES:lines
    quantize: Write a smaller model: kernels and embeddings of 8 bits instead of 32.
      model:model
    export: Export a SavedModel, which only needs TensorFlow, or an ONNX or LiteRT file.
      model:model
tagging
  Label the words of sentences: names of people and places, or parts of speech.
    fit: Train; the same command again resumes a run that was interrupted.
      data.train:examples data.dev:examples data.backbone:model data.word_vectors:file
    evaluate: Measure a model on sentences of yours.
      test.data:examples model:model
    predict: Label each word of texts; the entities follow from the labels.
      model:model --split --no-split FILES:lines
    explain: Write an HTML page that shows which parts of an input decided its result.
      model:model FILES:lines
    quantize: Write a smaller model: kernels and embeddings of 8 bits instead of 32.
      model:model
    export: Export a SavedModel, which only needs TensorFlow, or an ONNX or LiteRT file.
      model:model
question-answering
  Answer questions by a part of a text.
    fit: Train; the same command again resumes a run that was interrupted.
      data.train:examples data.dev:examples data.backbone:model data.word_vectors:file
    evaluate: Measure a model on questions of yours.
      test.data:examples model:model
    predict: Answer questions, each by a span of its text.
      model:model FILES:lines
    explain: Write an HTML page that shows which parts of an input decided its result.
      model:model FILES:lines
    quantize: Write a smaller model: kernels and embeddings of 8 bits instead of 32.
      model:model
    export: Export a SavedModel, which only needs TensorFlow, or an ONNX or LiteRT file.
      model:model
pretraining
  Pretrain an encoder (BERT) on a text of your own: masked words, next sentences.
    prepare: Read texts, make a vocabulary, and write ids for `fit --prepared`.
      data.text:examples data.dev:examples data.backbone:model data.vocabulary_file:file
    fit: Train; the same command again resumes a run that was interrupted.
      data.text:examples data.dev:examples data.backbone:model data.prepared:folder
      data.vocabulary_file:file
    evaluate: Measure a model on documents of yours.
      test.text:examples model:model
    predict: Predict the words for each `[MASK]`, and whether a second text follows the first.
      model:model FILES:lines
    explain: Write an HTML page that shows which parts of an input decided its result.
      model:model FILES:lines
    quantize: Write a smaller model: kernels and embeddings of 8 bits instead of 32.
      model:model
    export: Export a SavedModel, which only needs TensorFlow, or an ONNX or LiteRT file.
      model:model
embeddings
  Learn vectors of words (word2vec), and look at them: neighbours, analogies, a map.
    fit: Train; the same command again resumes a run that was interrupted.
      data.text:examples data.word_vectors:file
    evaluate: Measure a model on texts of yours.
      test.analogies:examples test.pairs:examples model:model
    predict: Find the words nearest to words, or to sums and differences of words.
      model:model FILES:lines
    nearest: Show the words nearest to each of WORDS.
      model:model
    analogy: Answer: A is to B as C is to which word? The words nearest to B - A + C are shown.
      model:model
    vectors: Write the words and their vectors to a file that other programs read.
      model:model
    page: Write a page with a map of words: search, and the neighbours of a word on a click.
      model:model
    export: Export a SavedModel, which only needs TensorFlow, or an ONNX or LiteRT file.
      model:model
similarity
  Score how similar two texts are, and make vectors of texts.
    fit: Train; the same command again resumes a run that was interrupted.
      data.train:examples data.dev:examples data.backbone:model data.word_vectors:file
    evaluate: Measure a model on pairs of yours.
      test.data:examples model:model
    predict: Predict the similarity of two texts.
      model:model FILES:lines
    explain: Write an HTML page that shows which parts of an input decided its result.
      model:model FILES:lines
    embed: Make a vector of each text, with a model of kind bi.
      model:model --normalize --no-normalize FILES:lines
    quantize: Write a smaller model: kernels and embeddings of 8 bits instead of 32.
      model:model
    export: Export a SavedModel, which only needs TensorFlow, or an ONNX or LiteRT file.
      model:model
answer-selection
  Find the answers to questions among many: by words, by vectors, or by both.
    index: Make a model that searches the answers of a file, without training.
      data.backbone:model data.answers:examples
    fit: Train; the same command again resumes a run that was interrupted.
      data.train:examples data.dev:examples data.backbone:model data.word_vectors:file
      data.answers:examples
    evaluate: Measure a model on questions of yours.
      use.reranker:model test.data:examples model:model
    predict: Find the best answers to questions.
      use.reranker:model model:model FILES:lines
    explain: Write an HTML page that shows which parts of an input decided its result.
      model:model FILES:lines
    pairs: Write pairs of questions and answers from which a reranker learns.
      pairs.data:examples model:model
    quantize: Write a smaller model: kernels and embeddings of 8 bits instead of 32.
      model:model
    export: Export a SavedModel, which only needs TensorFlow, or an ONNX or LiteRT file.
      model:model
conversation
  Answer the turns of a conversation: a model trained on your dialogues.
    fit: Train; the same command again resumes a run that was interrupted.
      data.train:examples data.dev:examples data.backbone:model
    evaluate: Measure a model on answers of yours.
      data.train:examples test.data:examples test.vectors:file model:model
    predict: Answer the last turn of conversations.
      model:model --renormalize --no-renormalize FILES:lines
    explain: Write an HTML page that shows which parts of an input decided its result.
      model:model --renormalize --no-renormalize FILES:lines
    chat: Talk with a model: each line of standard input is a turn, and is answered by a line.
      model:model
    quantize: Write a smaller model: kernels and embeddings of 8 bits instead of 32.
      model:model
    export: Export a SavedModel, which only needs TensorFlow, or an ONNX or LiteRT file.
      model:model
captioning
  Caption pictures: emoji by their names, or any captioned pictures of your own.
    fit: Train; the same command again resumes a run that was interrupted.
      data.train:examples data.dev:examples data.image_dir:folder data.dev_image_dir:folder
      data.backbone:model data.train_names:examples data.dev_names:examples
    evaluate: Measure a model on pictures of yours.
      data.image_dir:folder test.data:examples test.names:examples test.train:examples
      test.train_names:examples model:model
    predict: Caption PICTURES, files or folders of them: writes a line of JSON for each.
      model:model --renormalize --no-renormalize FILES:pictures
    explain: Show where the model looks in PICTURES, files or folders of them, for each word.
      model:model --renormalize --no-renormalize FILES:pictures
    quantize: Write a smaller model: kernels and embeddings of 8 bits instead of 32.
      model:model
    export: Export a SavedModel, which only needs TensorFlow, or an ONNX or LiteRT file.
      model:model
visual-questions
  Answer questions about pictures, and show where each word looked.
    fit: Train; the same command again resumes a run that was interrupted.
      data.train:examples data.dev:examples data.image_dir:folder data.dev_image_dir:folder
      data.backbone:model data.annotations:examples data.dev_annotations:examples
    evaluate: Measure a model on questions of yours.
      data.image_dir:folder test.data:examples test.test_annotations:examples model:model
    predict: Answer questions about images.
      model:model FILES:lines
    explain: Write an HTML page that shows which parts of an input decided its result.
      model:model FILES:lines
    quantize: Write a smaller model: kernels and embeddings of 8 bits instead of 32.
      model:model
    export: Export a SavedModel, which only needs TensorFlow, or an ONNX or LiteRT file.
      model:model
"""
EPILOG = """\
Exit codes: 0 done; 1 the data, the files or the machine are not as they must be; 2 wrong use; 128 +
n ended by signal n (130: Ctrl-C), with what was learnt kept. The environment variable KERAS_BACKEND
chooses tensorflow, jax or torch."""
# End of what tests/launcher_table.py writes.
_LOG = re.compile(
    rb"^(WARNING: All log messages before absl|[IWE]\d{4} |\d{4}-\d\d-\d\d .*: [IWE] )"
)
_GOES_ON = b"To enable the following instructions"


_EXPECTED = {
    "examples": "a file or a folder",
    "file": "a file",
    "folder": "a folder",
    "lines": "a file",
    "model": "a saved task or a folder",
    "pictures": "a file or a folder",
}


class TaskEntry(NamedTuple):
    """A task in the launcher's table: what it does, and its steps with a line each, in order."""

    about: str
    steps: dict[str, str]
    paths: dict[str, dict[str, str]]
    """Of each step the inputs that are paths, as `SECTION.OPTION`, with what must be there. If it
    reads `FILES`, with its options without a value."""


def _tasks(table: str) -> dict[str, TaskEntry]:
    found: dict[str, TaskEntry] = {}
    task = step = ""
    for line in table.splitlines():
        if line.startswith("      "):
            found[task].paths[step] |= {
                a: b for a, _, b in (w.partition(":") for w in line.split())
            }
        elif line.startswith("    "):
            step, about = line.strip().split(": ", 1)
            found[task].steps[step], found[task].paths[step] = about, {}
        elif line.startswith("  "):
            found[task] = TaskEntry(line.strip(), {}, {})
        else:
            task = line
    return found


TASKS = _tasks(_TABLE)
"""The tasks by their names."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command and exits.

    Args:
        arguments: Instead of those of the process.

    Raises:
        SystemExit: Always.

    Example:

    >>> main(["--version"])
    Traceback (most recent call last):
        ...
    SystemExit: 0
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    text = quick_answer(given)
    if text is not None:
        try:
            print(text, flush=True)
        except BrokenPipeError:  # as in `keras-attn --help | head -1`
            # Python writes what is left when it ends, and would complain then.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(1)
        sys.exit(0)
    problem = input_problem(given)
    if problem:
        sys.exit(f"Error: {problem}")
    try:
        plain_output("keras_attn.cli", progress=False, debug="--debug" in given)
    except ImportError as error:  # of a package that an extra brings
        if "--debug" in given:
            raise
        sys.exit(f"Error: {error}")
    sys.modules["keras_attn.cli"].main(arguments)


def quick_answer(arguments: Sequence[str]) -> str | None:
    """Returns what the command prints, if that can be told without Keras.

    Args:
        arguments: Those of the command line.

    Example:

    >>> quick_answer(["translation", "--help"]).splitlines()[0]
    'Usage: keras-attn translation STEP [OPTIONS]'
    """
    asked = [a for a in arguments if a in ("-h", "--help")]
    names = [a for a in arguments if a not in asked]
    if list(arguments) == ["--version"]:
        from importlib.metadata import version

        return f"keras-attn, version {version('keras_attn')}"
    if not names:
        rows = "\n".join(f"  {name:<21}{task.about}" for name, task in TASKS.items())
        return (
            "Usage: keras-attn TASK STEP [OPTIONS]\n\n"
            "Attention for Keras 3: tasks on your own data, from raw files to a SavedModel.\n\n"
            f"Tasks:\n{rows}\n  FILE.py:CLASS        A task of your own, or MODULE:CLASS.\n\n"
            "Other commands:\n  serve                Serve saved models: a page, and a REST "
            "server.\n\n"
            "Options:\n  --debug     Show where an error comes from.\n"
            "  --version   Show the version and exit.\n"
            "  -h, --help  Show this message and exit.\n\n"
            f"{EPILOG}"
        )
    if len(names) == 1 and names[0] in TASKS:
        task = TASKS[names[0]]
        rows = "\n".join(f"  {name:<12}{line}" for name, line in task.steps.items())
        return (
            f"Usage: keras-attn {names[0]} STEP [OPTIONS]\n\n{task.about}\n\n"
            f"Steps:\n{rows}\n\n"
            f"`keras-attn {names[0]} STEP --help` shows the options of a step."
        )
    return None


def input_problem(arguments: Sequence[str]) -> str:
    """Returns what is wrong with the input files of a step; empty if they are there.

    Args:
        arguments: Those of the command line.

    Example:

    >>> input_problem(["tagging", "predict", "--model", "none.task"])
    'Expected a saved task or a folder for --model. Received: none.task. There is nothing.'
    """
    given = [a for a in arguments if a != "--debug"]
    if len(given) < 2 or given[0] not in TASKS or given[1] not in TASKS[given[0]].paths:
        return ""
    paths = TASKS[given[0]].paths[given[1]]
    options, files = _parsed(given[2:], paths)
    if {"help", "h"} & options.keys():
        return ""
    read: dict[str, Any] = {}
    for config in options.get("config", []):
        problem = _path_problem("--config", config, "file")
        if problem:
            return problem
        with contextlib.suppress(ValueError), open(os.path.expanduser(config), "rb") as file:
            read = tomllib.load(file)  # the command says more of an error
    for name, kind in paths.items():
        section, _, option = name.rpartition(".")
        values = files if name == "FILES" else options.get(option)
        if not values and isinstance(read.get(section), dict):
            values = read[section].get(option)
        for value in values if isinstance(values, list) else [values]:
            shown = name if name == "FILES" else "--" + option.replace("_", "-")
            problem = _path_problem(shown, value, kind) if value and isinstance(value, str) else ""
            if kind and problem:
                return problem
    return ""


def _parsed(
    arguments: Sequence[str], flags: Collection[str]
) -> tuple[dict[str, list[str]], list[str]]:
    """The values of options by their names, and the other arguments."""
    options: dict[str, list[str]] = {}
    others: list[str] = []
    left = list(arguments)
    while left:
        word = left.pop(0)
        if word == "--":
            return options, [*others, *left]
        if not word.startswith("-") or word == "-":
            others.append(word)
            continue
        option, is_there, value = word.partition("=")
        if not is_there and option not in flags and left and not left[0].startswith("--"):
            value = left.pop(0)
        options.setdefault(option.lstrip("-").replace("-", "_"), []).append(value)
    return options, others


def _path_problem(option: str, value: str, kind: str) -> str:
    """What is wrong with an input; empty if it is there and can be read."""
    path = os.path.expanduser(value)
    there = "a folder" if os.path.isdir(path) else "a file" if os.path.exists(path) else "nothing"
    if there == "nothing":
        known = os.path.join(os.path.dirname(__file__), "keras_attn", "trained", f"{value}.task")
        pattern = kind == "examples" and any(c in value for c in f"*?[{os.pathsep}")
        if (
            pattern
            or (kind, value) == ("lines", "-")
            or (kind == "model" and os.path.exists(known))
        ):
            return ""
    elif not os.access(path, os.R_OK):
        there = f"{there} that cannot be read: change its mode or owner"
    elif os.path.isfile(path) and not os.path.getsize(path) and kind != "lines":
        there = "an empty file"
    elif there in _EXPECTED[kind] or kind == "model":
        return ""
    return f"Expected {_EXPECTED[kind]} for {option}. Received: {value}. There is {there}."


def plain_output(module: str = "keras_attn", progress: bool = True, debug: bool = False) -> None:
    """Imports the package without TensorFlow's log lines, and keeps what a script prints short.

    TensorFlow and CUDA write log lines to standard error when they are imported and when they first
    look for a GPU: both happen here, and only other lines are shown. A warning is shown as
    `Warning: MESSAGE`, without the file and the line of code that raised it. Long computations
    print how far they are. If the module has been imported before, this function changes nothing.

    Ctrl-C ends the process at once meanwhile: libraries turn an exception within their imports into
    another one, or swallow it.

    Args:
        module: The module to import.
        progress: Whether predictions, scores and exports print progress lines, see
            `keras_attn.progress`.
        debug: Whether warnings keep Python's form, which says where they come from.

    Example:

    >>> plain_output(progress=False, debug=True)
    """
    if module in sys.modules:
        return
    here = threading.current_thread() is threading.main_thread()
    heard = here and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if heard:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    with _without_log_lines():
        try:
            importlib.import_module(module)
            if "tensorflow" in sys.modules:  # which looks for GPUs when it is first asked
                sys.modules["tensorflow"].config.list_physical_devices("GPU")
        finally:
            if heard:
                signal.signal(signal.SIGINT, signal.default_int_handler)
    if not debug:
        # Keras 3.15 on PyTorch: tied int8 embeddings transpose their scale, which has one axis.
        warnings.filterwarnings("ignore", r"The use of `x\.T` on tensors of dimension other than 2")
        warnings.formatwarning = _one_line
    if progress:
        sys.modules["keras_attn.progress"].listen(functools.partial(print, flush=True))


def _one_line(message: Warning | str, *where: object, **more: object) -> str:
    return f"Warning: {message}\n"


@contextlib.contextmanager
def _without_log_lines() -> Iterator[None]:
    """Keeps standard error until the end of the block, and then writes all but log lines."""
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(kept, 2)
            os.close(kept)
            file.seek(0)
            for line in file:
                if not _LOG.match(line) and not line.startswith(_GOES_ON):
                    os.write(2, line)


if __name__ == "__main__":
    main()

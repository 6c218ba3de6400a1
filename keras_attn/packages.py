"""Packages that an extra brings, and errors that name the extra of a package that is missing."""

import contextlib
import importlib.util
from collections.abc import Iterator

BACKENDS = ("tensorflow", "jax", "torch")
EXTRAS = {
    **{name: name for name in BACKENDS},
    "tensorflow_text": "tensorflow",
    "keras_hub": "tensorflow",
    "click": "tasks",
    "sacrebleu": "tasks",
    "sentencepiece": "tasks",
    "seqeval": "tasks",
    "sklearn": "tasks",
    "tokenizers": "tasks",
    "PIL": "captioning",
    "pycocoevalcap": "captioning",
    "rouge_score": "summarization",
    "bm25s": "search",
    "pyarrow": "tables",
    **dict.fromkeys(("onnx", "onnxscript", "onnxruntime"), "onnx"),
    "ai_edge_litert": "litert",
    "huggingface_hub": "hub",
    "tensorboardX": "tensorboard",
    "matplotlib": "plots",
    "prometheus_client": "serve",
    "starlette": "serve",
    "uvicorn": "serve",
}
"""The extra of keras_attn that brings each module."""


@contextlib.contextmanager
def needed(what: str, advice: str = "") -> Iterator[None]:
    """Converts a failed import of an optional package to an error that names its extra.

    Args:
        what: The function that needs the package, as the beginning of a sentence.
        advice: A sentence that says what to do without the package.

    Raises:
        ImportError: If the package is not installed. The message has the command that installs it.

    Example:

    >>> with needed("BLEU"):
    ...     import sacrebleu
    """
    try:
        yield
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        if module not in EXTRAS:
            raise
        raise ImportError(_missing(module, what, advice)) from error


def check_installed(module: str, what: str) -> None:
    """Raises an ImportError if a package is not installed, without importing the package."""
    if importlib.util.find_spec(module) is None:
        raise ImportError(_missing(module, what))


def _missing(module: str, what: str, advice: str = "") -> str:
    extra = EXTRAS[module]
    return (
        f"{what} needs the module {module}, which the extra `{extra}` of keras_attn brings. "
        f"Install it: {_command(extra)}{'. ' * bool(advice)}{advice}"
    )


def _command(extra: str) -> str:
    return f'pip install "keras_attn[{extra}]"'


def import_keras() -> None:
    """Imports Keras, and raises an error with advice if the backend is not installed.

    Raises:
        ImportError: If the backend that the variable KERAS_BACKEND or Keras' settings file selects
            is not installed. If neither selects a backend, Keras uses TensorFlow.
    """
    try:
        import keras  # noqa: F401
    except ModuleNotFoundError as error:
        backend = (error.name or "").partition(".")[0]
        if backend not in BACKENDS:
            raise
        installed = [name for name in BACKENDS if importlib.util.find_spec(name) is not None]
        raise ImportError(
            f"Keras' backend {backend!r} is not installed. Install it: {_command(backend)}; or set "
            "the environment variable KERAS_BACKEND to a backend that is installed. Received: "
            f"an environment with {' and '.join(installed) or f'none of {BACKENDS}'}."
        ) from error

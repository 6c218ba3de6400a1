"""JSON files of tokenizers, with a format and a version."""

import json
import os
import pathlib
from collections.abc import Callable
from typing import Any, ClassVar, Self, TypeVar

from keras_attn.files import atomic_write
from keras_attn.input_files import kind_of

ASSETS_VERSION = 1

Made = TypeVar("Made")


def write_assets(path: str | os.PathLike[str], kind: str, config: dict[str, Any]) -> None:
    """Writes the JSON file of a tokenizer, and creates its folder if it does not exist."""
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"format": kind, "version": ASSETS_VERSION, **config}
    with atomic_write(path) as partial:
        partial.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")


def read_assets(
    path: str | os.PathLike[str], kind: str, writer: str, make: Callable[[dict[str, Any]], Made]
) -> Made:
    """Creates a tokenizer from a file that `write_assets` wrote."""
    path = pathlib.Path(path)
    expected = f"Expected a file of `{writer}` at {path}."
    if kind_of(path) != "a file":
        raise ValueError(f"{expected} Received: {kind_of(path)}. Check the directory.")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{expected} Received: no JSON ({error}). Save it again.") from error
    if not isinstance(content, dict) or content.get("format") != kind:
        raise ValueError(f"{expected} Received: another format. Check the directory.")
    version = content.get("version")
    if not isinstance(version, int) or not 1 <= version <= ASSETS_VERSION:
        raise ValueError(
            f"{expected} Received version {version!r}; this release reads up to "
            f"{ASSETS_VERSION}. Use a newer keras_attn, or save it again with this one."
        )
    try:
        return make(content)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{expected} Received broken content: {error}") from error


class SavedTokenizer:
    """Base class of tokenizers that are saved as the JSON of their config.

    A subclass implements `get_config`, which returns the arguments of its constructor.
    """

    assets_name: ClassVar[str]
    """Name of the format, and of the file without its suffix."""

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of `__init__` as JSON-compatible values."""
        raise NotImplementedError

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """Creates a tokenizer from the result of `get_config`."""
        return cls(**config)

    def save_assets(self, directory: str | os.PathLike[str]) -> None:
        """Writes the tokenizer to a directory, which is created if it does not exist.

        Args:
            directory: The directory in which a JSON file such as `byte_pair.json` is written.
        """
        path = pathlib.Path(directory) / f"{self.assets_name}.json"
        write_assets(path, f"keras_attn.{self.assets_name}", self.get_config())

    @classmethod
    def load_assets(cls, directory: str | os.PathLike[str]) -> Self:
        """Loads a tokenizer that `save_assets` wrote.

        Args:
            directory: The directory to which `save_assets` wrote its file.

        Returns:
            A tokenizer of this class.

        Raises:
            ValueError: If the file is missing, damaged, or in a newer format.
        """

        def make(content: dict[str, Any]) -> Any:
            config = {k: v for k, v in content.items() if k not in ("format", "version")}
            made = cls.from_config(config)
            missing = made.get_config().keys() - config.keys()
            if missing:
                raise ValueError(f"no {', '.join(sorted(missing))}")
            return made

        return read_assets(
            pathlib.Path(directory) / f"{cls.assets_name}.json",
            f"keras_attn.{cls.assets_name}",
            f"{cls.__name__}.save_assets",
            make,
        )

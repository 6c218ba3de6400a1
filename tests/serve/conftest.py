"""Settings of the tests of the server, whose models are the toys of the tasks."""

import sys
from pathlib import Path

sys.path += [str(Path(__file__).parents[1] / room) for room in ("tasks", "visualize")]

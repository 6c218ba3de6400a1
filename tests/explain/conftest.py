"""Settings of the tests of explanations."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "models"))

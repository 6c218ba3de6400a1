"""Calls a SavedModel as a server would: with TensorFlow, without this package.

from saved_models import call_saved_model

call_saved_model("run/saved_model", text=["Ein Hund läuft."])["translation"]
"""

import base64
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

SCRIPT = """
import base64, json, sys
sys.modules["keras_attn"] = None  # as if it were not there
import tensorflow as tf

values, files = json.load(sys.stdin)
values |= {name: [base64.b64decode(file) for file in some] for name, some in files.items()}
serve = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
outputs = serve(**{name: tf.constant(value) for name, value in values.items()})
found = {name: output.numpy().tolist() for name, output in outputs.items()}
print(json.dumps(found, default=bytes.decode))
"""


def call_saved_model(path: Path | str, **inputs: Any) -> dict[str, list]:
    """Calls `serving_default` in a fresh process that imports TensorFlow and nothing of ours.

    Args:
        path: The SavedModel.
        **inputs: Strings, numbers, or lists of them, or a list of the bytes of files.

    Returns:
        The outputs by name, as nested lists of strings and numbers.

    Raises:
        RuntimeError: If the process failed. The message ends with what it printed.
    """
    files = {name: value for name, value in inputs.items() if holds_bytes(value)}
    values = {name: value for name, value in inputs.items() if name not in files}
    coded = {name: [base64.b64encode(file).decode() for file in files[name]] for name in files}
    command = [sys.executable, "-I", "-c", SCRIPT, str(Path(path).resolve())]
    done = subprocess.run(
        command, input=json.dumps([values, coded]), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"The SavedModel could not be called:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def holds_bytes(value: Any) -> bool:
    """Whether it is a list of the bytes of files."""
    return isinstance(value, list) and any(isinstance(one, bytes) for one in value)

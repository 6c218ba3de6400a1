"""What the page for those who come from Keras names is there, here and in Keras."""

import re
from pathlib import Path

import keras
import pytest

from keras_attn import layers

PAGE = (Path(__file__).parents[2] / "docs" / "from_keras.md").read_text(encoding="utf-8")
TABLE = PAGE.split("| Keras, KerasHub | keras_attn |")[1]
ROWS = [row.strip("| \n").split(" | ") for row in TABLE.splitlines() if row.startswith("| `")]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:50])
def test_what_it_names_is_there(row):
    theirs, ours = row
    for name in re.findall(r"keras\.layers\.(\w+)", theirs):
        assert hasattr(keras.layers, name)
    found = re.findall(r"`([A-Z]\w+)\(([^`]*)\)`?", ours)
    for name, arguments in found:
        config = set(made(name).get_config())
        settings = re.findall(r"(\w+)=", arguments.split(")(")[0])
        assert set(settings) <= config, (name, settings)
    assert (
        found
        or "keras_attn." in ours
        or ours == "no counterpart"
        or "of the same names in attention layers" in ours
        or "`TokenEmbedding`" in ours
        or "positions=" in ours
    )


def made(name):
    cls = getattr(layers, name)
    for arguments, settings in [
        ((), {}),
        ((4,), {}),
        ((4, 4), {}),
        ((4,), {"intermediate_dim": 8}),
    ]:
        try:
            return cls(*arguments, **settings)
        except TypeError:
            continue
    return cls(2, 4, intermediate_dim=8)

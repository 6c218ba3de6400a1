"""What `tests/house.py` counts, by hand."""

import house
import pytest

TEXT = '''"""A module
of two lines."""

from typing import Any

Tensor = Any  # a name for it
LINES = """a string
that is no docstring"""


# a comment
class Thing:
    """A docstring."""

    def call(self, x, y: Any, z: Tensor, n: int = 3, *rest, mask: "Any | None" = None, **more):
        """Another one."""
        return x  # code
'''


@pytest.fixture
def source(tmp_path, monkeypatch):
    monkeypatch.setattr(house, "PACKAGE", tmp_path)
    (tmp_path / "layers").mkdir()
    path = tmp_path / "layers" / "thing.py"
    path.write_text(TEXT)
    return house.Source(path)


def test_lines_of_code(source):
    # The import, `Tensor`, the two lines of `LINES`, `class`, `def` and `return`.
    assert (source.room, source.code, source.lines) == ("layers", 7, 17)


def test_untyped_parameters(source):
    assert house.parameters([source]) == (3, 5)  # x, y and z


@pytest.mark.parametrize(
    ("comment", "count"),
    [
        ("type: ignore", 1),
        ("type: ignore[arg-type]", 1),
        ("type: ignore[arg-type]  # Keras' stub is wrong", 0),
        ("types ignored", 0),
    ],
)
def test_ignores_need_a_code_and_a_reason(source, tmp_path, comment, count):
    source.path.write_text(f"x = 1  # {comment}\n")
    assert house.unexplained_ignores([house.Source(source.path)]) == count


def test_a_number_that_rose_is_named(capsys):
    assert house.table({"a": 3, "b": 2, "c": 9}, {"a": 2, "b": 2}) == ["a"]
    assert "has risen" in capsys.readouterr().out.splitlines()[1]

"""The page on seeing attention: its code runs, its names are there."""

import re
from pathlib import Path

import pytest

from keras_attn import visualize

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "seeing_attention.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_code_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = [text.split("```")[0] for text in PAGE.split("```python\n")[1:]]
    assert len(blocks) == 7
    views = []
    for block in blocks:
        names = {}
        exec(block, names)
        views += names.get("views", [names["view"]] if "view" in names else [])
    assert [[part.name for part in view.parts] for view in views] == [
        *[["self-attention"]] * 2,
        *[["cross-attention", "encoder self-attention", "decoder self-attention"]] * 2,
        *[["self-attention"]] * 4,
        ["cross-attention"],
    ]
    printed = capsys.readouterr().out.splitlines()
    for line in ("attend self 0 (1, 4, 4, 4)", "{'part': 0, 'layer': 1, 'head': 2, 'query': 5}"):
        assert line in printed and f"# {line}" in PAGE
    assert "Show “bank”" in (tmp_path / "encoder.html").read_text(encoding="utf-8")
    assert "Where it looked" in (tmp_path / "viewer.html").read_text(encoding="utf-8")
    for name in ("heads.png", "importance.png", "caption.png", "steps.html"):
        assert (tmp_path / name).stat().st_size > 1000


def test_what_it_names_is_there():
    table = PAGE.split("| | shows")[1].split("\n\n")[0]
    names = re.findall(r"`(\w+)`", "\n".join(line.split("|")[1] for line in table.splitlines()[1:]))
    assert len(names) == 13 and set(names) <= set(visualize.__all__)
    for name in ("viewer", "it", "senses", "positions", "word_map"):
        assert f"({name}.png)" in PAGE
        picture = (DOCS / f"{name}.png").read_bytes()
        assert picture[:4] == b"\x89PNG" and len(picture) < 300_000

"""The step `explain` of tasks that have no further test of it."""

import every_task
import pytest
from command_runs import run_command

CASES = {
    "regression": ["the dog runs", "a cat"],
    "translation": ["two dogs", "a cat"],
    "summarization": ["the dog runs in Rome.", "a cat sits."],
    "conversation": ["Hi.", "Who are you?"],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_explain(name, tmp_path):
    """The page is that of `explain` and `page` in Python."""
    task = every_task.CASES[name][0]()
    task.save(tmp_path / "best.task")
    (tmp_path / "lines.txt").write_text("".join(f"{line}\n" for line in CASES[name]))
    page = tmp_path / "page.html"
    explain = (name, "explain", "--model", tmp_path / "best.task", "--to", page)
    code, out, err = run_command(*explain, "--title", "Why", tmp_path / "lines.txt")
    assert (code, out.strip()) == (0, str(page)), err
    assert page.read_text("utf-8") == task.page(task.explain(CASES[name]), "Why")
    assert all(word in page.read_text("utf-8") for word in (CASES[name][0].split()[0], "Why"))

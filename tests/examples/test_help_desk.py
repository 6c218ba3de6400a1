"""The script of the help desk: its dialogues, and that it runs, in a process of its own."""

import importlib.util
import json
import re
from pathlib import Path

import pytest
from processes import run_python

SCRIPT = Path(__file__).parents[2] / "examples/help_desk.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("help_desk_example", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_tests_have_new_values_and_new_wording(script):
    train = script.make_dialogues(300, 0)
    assert train == script.make_dialogues(300, 0) != script.make_dialogues(300, 1)
    slots = ("system", "code", "ticket")
    known = {values[slot] for values, _ in train for slot in slots}
    sides = {new: script.make_dialogues(100, 2, new, known) for new in (False, True)}
    wording = {}
    for name, side in (("train", train), *sides.items()):
        blank = set()
        for values, turns in side:
            text = " ".join(turn.text for turn in turns)
            assert "{" not in text and all(values[slot] in turns[-1].text for slot in slots)
            said = turns[0].text + turns[2].text
            assert all(values[slot] in said for slot in slots) and values["tried"] in said
            assert [turn.speaker for turn in turns] == ["caller", "desk"] * 2
            if name != "train":
                assert not known & {values[slot] for slot in slots}
            for turn in (turns[0], turns[2]):
                for slot in (*slots, "tried", "program", "room"):
                    turn = turn._replace(text=turn.text.replace(values[slot], f"<{slot}>"))
                blank.add(turn.text)
        wording[name] = blank
    assert len(wording[True]) > 20 and not wording["train"] & wording[True]
    texts = [t for part in (*script.FIRST.values(), *script.SECOND.values()) for t in part[:-4]]
    known = {re.sub(r"\{(\w+)\}", r"<\1>", t) for t in texts}
    for side in ("train", False):
        assert all(
            any(
                text.startswith(hello) and text.removeprefix(hello) in known
                for hello in script.HELLOS
            )
            for text in wording[side]
        )


def test_slots_are_counted(script):
    tests = script.make_dialogues(6, 0)

    class Right:
        def answer(self, turns, beams):
            return [turn.text for _, talk in tests for turn in talk[1::2]]

    class Wrong:
        def answer(self, turns, beams):
            return [re.sub(r"\d", "0", text) for text in Right().answer(turns, beams)]

    right, wrong = script.slots_right(Right(), tests), script.slots_right(Wrong(), tests)
    assert [right[name] for name in ("ticket", "system", "code", "all")] == [1.0] * 4
    assert [wrong[name] for name in ("ticket", "system", "code")] == [0.0, 1.0, 0.0]
    assert wrong["all"] == pytest.approx(1 / 3)
    assert "| a | 1.000 |" in script.table({"a": {"all": 1.0}})


@pytest.mark.slow
def test_it_runs(tmp_path):
    done = run_python("tensorflow", SCRIPT, "--quick", cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "of\ntheir attention" in done.stdout and "new wording" in done.stdout
    talker = (tmp_path / "help-desk/attention/best.task").resolve()
    assert f"\nTalk on: keras-attn conversation chat --model {talker}\n" in done.stdout
    results = json.loads((tmp_path / "help-desk/results.json").read_text())
    assert set(results) >= {"attention, new wording", "fixed context, new wording"}
    assert (tmp_path / "help-desk/ticket.png").stat().st_size > 5000

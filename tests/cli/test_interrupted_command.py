"""The exit status of a run that was interrupted."""

import signal
from types import SimpleNamespace

import pytest
from command_runs import run_command

from keras_attn.tasks import TextGenerator


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (None, 130)]
)
def test_the_status_is_that_of_the_signal(number, code, tmp_path, monkeypatch):
    ended = SimpleNamespace(complete=False, interrupted_by=number)
    monkeypatch.setattr(TextGenerator, "train", lambda *values, **named: ended)
    (tmp_path / "text.txt").write_text("to be, or not to be\n" * 20)
    received, _, err = run_command(
        "text-generation", "fit", "--run-dir", tmp_path / "run", "--text", tmp_path / "text.txt"
    )
    assert received == code
    assert "Run the same command again to resume." in err

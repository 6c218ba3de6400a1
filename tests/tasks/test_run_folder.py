"""The folder of a run is not that of another one."""

import pytest

from keras_attn.tasks.base.run_folder import BEST, CHECKPOINT, LOG, tidy_run
from keras_attn.tasks.base.training_settings import TrainingSettings

SECTIONS = {"training": TrainingSettings()}


def test_results_without_their_checkpoint_are_not_overwritten(tmp_path):
    for name in (BEST, LOG):
        (tmp_path / name).write_text(name)
    (tmp_path / "mine.txt").write_text("all else may be there")
    with pytest.raises(ValueError, match=rf"{BEST} and {LOG} of a run, but not its {CHECKPOINT}"):
        tidy_run(tmp_path, {"training": TrainingSettings}, SECTIONS)
    assert (tmp_path / BEST).read_text() == BEST
    for name in (BEST, LOG):
        (tmp_path / name).unlink()
    tidy_run(tmp_path, {"training": TrainingSettings}, SECTIONS)


def test_the_run_of_another_task_is_named_as_such(tmp_path):
    (tmp_path / CHECKPOINT).touch()
    (tmp_path / "settings.toml").write_text("[data]\ntrain = 'x'\n")
    with pytest.raises(ValueError, match=r"cannot resume: .*unknown section.*another folder"):
        tidy_run(tmp_path, {"training": TrainingSettings}, SECTIONS)

"""Long computations say how far they are, to who listens."""

import contextvars
import warnings

import pytest

from keras_attn.export import export_text_functions
from keras_attn.progress import progress_lines, report, tell
from keras_attn.tasks import TextClassifier
from keras_attn.tasks.families.decoding_batches import DecodingBatches
from keras_attn_command import plain_output


def test_lines_are_apart_in_time_and_end_with_the_block(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    lines = []
    with progress_lines(lines.append, seconds=10):
        for done in range(0, 2600, 100):
            report(done, 2500, "texts")
            now[0] += 1
        tell("writing")
        report(2400, 2500, "texts")  # too soon after the line before it
        now[0] += 60
        report(2500, 2500, "texts")  # nothing is left
    report(2400, 2500, "texts")
    tell("nobody listens")
    assert lines == ["  1,000 of 2,500 texts", "  2,000 of 2,500 texts", "  writing"]


def test_scripts_print_the_lines(tmp_path, monkeypatch, capsys):
    """As all examples do, which begin with `plain_output()`."""

    def script():
        plain_output("a_module_that_is_new")
        tell("writing")

    (tmp_path / "a_module_that_is_new.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("warnings.formatwarning", None)  # it sets its own
    with warnings.catch_warnings():
        contextvars.copy_context().run(script)
    tell("nobody listens")
    assert capsys.readouterr().out == "  writing\n"


@pytest.fixture(scope="module")
def classifier():
    examples = [("one", "a"), ("dog", "b")] * 4
    return TextClassifier.create(examples, model={"model": "bag", "dim": 2, "pair_buckets": 4})


def test_predictions_count_texts(classifier):
    lines = []
    with progress_lines(lines.append, seconds=0):
        classifier.predict(["one", "dog", "one dog"], batch_size=2)
    assert lines == ["  2 of 3 texts"]


def test_decoded_texts_are_counted():
    lines = []
    with progress_lines(lines.append, seconds=0):
        batches = DecodingBatches(pad_id=0, fill_id=2)([[5, 6, 7, 2], [2], [5, 6, 2]], 2)
        assert next(batches).rows == [1, 2]
        assert lines == []
        assert next(batches).rows == [0]
        assert lines == ["  2 of 3 texts"]
        assert list(batches) == []
    assert lines == ["  2 of 3 texts"]


def test_an_export_names_its_steps(tmp_path):
    lines = []
    functions = {"serving_default": lambda text: {"text": text}}
    with progress_lines(lines.append, seconds=60):
        export_text_functions(
            tmp_path / "saved_model",
            lambda tf: (functions, []),
            [],
            {"text": ["a"]},
            {"serving_default": {"text": ["a"]}},
        )
    assert lines == [
        "  tracing the signature serving_default",
        "  writing the SavedModel",
        "  loading the SavedModel, and comparing its outputs",
    ]

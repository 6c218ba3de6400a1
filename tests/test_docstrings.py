"""Every example in a docstring runs, and every public class and function has one."""

import doctest
import importlib
import inspect
import pkgutil

import keras
import numpy as np
import pytest

import keras_attn
from keras_attn import (
    adapt,
    arrays,
    batches,
    corpora,
    explain,
    fields,
    generation,
    images,
    interop,
    layers,
    metrics,
    models,
    ops,
    records,
    settings,
    tasks,
    text,
    training,
    visualize,
)

MODULES = sorted(
    module.name for module in pkgutil.walk_packages(keras_attn.__path__, "keras_attn.")
)
ROOMS = (
    arrays, ops, layers, models, generation, text, records, images, corpora,
    batches, training, metrics, adapt, visualize, explain, settings,
    fields, tasks, interop,
)  # fmt: skip
# Examples that train, search or draw, or put an algorithm into a graph: half a second each or more.
SLOW = (
    "keras_attn.adapt.", "keras_attn.explain.attributions", "keras_attn.explain.contextual_view",
    "keras_attn.explain.encoder_study", "keras_attn.explain.word_maps",
    "keras_attn.generation.sampled_steps", "keras_attn.generation.sampling",
    "keras_attn.generation.search", "keras_attn.generation.text_writer",
    "keras_attn.generation.window_decoder", "keras_attn.interop.",
    "keras_attn.models.bag_classifier", "keras_attn.models.bert", "keras_attn.models.bilstm",
    "keras_attn.models.captioner", "keras_attn.models.encoder_heads",
    "keras_attn.models.entailment", "keras_attn.models.hidden_states",
    "keras_attn.models.image_encoder_config", "keras_attn.models.image_encoders",
    "keras_attn.models.memory_network", "keras_attn.models.modern_bert",
    "keras_attn.models.packed_transformer", "keras_attn.models.recurrent",
    "keras_attn.models.roberta", "keras_attn.models.sentence_encoder",
    "keras_attn.models.sequence_decoder", "keras_attn.models.small_image_encoders",
    "keras_attn.models.soft_attention_captioner", "keras_attn.models.t5",
    "keras_attn.models.target_probability", "keras_attn.models.text_classifier",
    "keras_attn.models.transformer", "keras_attn.models.visual_questions", "keras_attn.tasks.",
    "keras_attn.text.byte_pair", "keras_attn.text.sentence_piece_graph",
    "keras_attn.text.word_piece", "keras_attn.text.words", "keras_attn.training.autotuning",
    "keras_attn.training.checkpointing", "keras_attn.training.chunked_loss_model",
)  # fmt: skip
WITHOUT_EXAMPLE = {
    # What functions return, described field by field.
    "AttentionKey", "AttentionMaps", "Generation", "Decoder",
    "NBestTranslations", "TranslationScores", "TranslationSplits",
    # What docs/new_task.md shows.
    "Task", "EncoderTask",
    # Names of types of NumPy and Python.
    "Array", "ArrayModule",
    # What needs the network, and what it raises.
    "load_home_assistant", "DownloadError",
}  # fmt: skip


def names():
    """What examples may use without an import."""
    public = {name: getattr(room, name) for room in ROOMS for name in room.__all__}
    return {
        **public,
        "keras": keras,
        "keras_attn": keras_attn,
        "ops": keras.ops,
        "np": np,
        "collect_attention": layers.collect_attention,
    }


def examples(module):
    finder = doctest.DocTestFinder(exclude_empty=True)
    return [test for test in finder.find(module, extraglobs=names()) if test.examples]


def slow_ones(name):
    slow = name.startswith(SLOW) and not name.endswith("settings")
    return pytest.param(name, marks=pytest.mark.slow) if slow else name


@pytest.mark.parametrize("name", [slow_ones(name) for name in MODULES])
def test_examples_run(name, monkeypatch):
    # Examples train for a step or two: tracing that takes ten times as long as running it.
    eager = property(lambda model: True, lambda model, value: None)
    monkeypatch.setattr(keras.Model, "run_eagerly", eager)
    module = importlib.import_module(name)
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    runner = doctest.DocTestRunner(optionflags=flags, verbose=False)
    failures = []
    for test in examples(module):
        keras.utils.set_random_seed(0)
        runner.run(test, out=failures.append)
    assert not failures, "".join(failures)


def is_settings(value):
    """Settings describe themselves, field by field."""
    return inspect.isclass(value) and issubclass(value, settings.Settings)


def test_everything_public_has_an_example():
    have = {
        test.name.rpartition(".")[2]
        for name in MODULES
        for test in examples(importlib.import_module(name))
    }
    without = [
        f"{room.__name__}.{name}"
        for room in ROOMS
        for name in room.__all__
        if (inspect.isclass(getattr(room, name)) or inspect.isfunction(getattr(room, name)))
        and name not in have | WITHOUT_EXAMPLE
        and not is_settings(getattr(room, name))
    ]
    assert not without


@pytest.mark.parametrize("room", [ops, layers], ids=lambda room: room.__name__)
def test_docstrings_have_their_parts(room):
    """Shapes and arguments, what comes back, and for layers the formula and the masks."""
    for name in room.__all__:
        documented = getattr(room, name)
        doc = inspect.getdoc(documented)
        if name in WITHOUT_EXAMPLE:
            continue
        assert "Example:\n\n>>> " in doc, name
        if inspect.isclass(documented):
            for part in ("Args:", "Call arguments:", "Returns:", "Raises:", "Masking:", "Shapes:"):
                assert part in doc, f"{name} has no {part}"
            arguments = inspect.signature(documented.__init__).parameters
            calls = inspect.signature(documented.call).parameters
            for argument in (set(arguments) | set(calls)) - {"self", "kwargs"}:
                # `mask` and `x_mask` are what Keras fills.
                known = f"\n    {argument}: " in doc or f" {argument}: " in doc
                inherited = "All other arguments of" in doc and argument not in calls
                assert known or inherited or argument in ("mask", "x_mask", "num_layers"), (
                    f"{name} does not document `{argument}`"
                )
        else:
            assert "Yields:" in doc or "Returns:" in doc, name
            for argument in set(inspect.signature(documented).parameters) - {"kwargs"}:
                assert f"\n    {argument}: " in doc, f"{name} does not document `{argument}`"

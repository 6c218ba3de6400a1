"""Frozen layers, LoRA and learning rates by depth, in trainings of a tagger."""

import os
import signal
from pathlib import Path

import keras
import numpy as np
import pytest
import tagging_toys
from processes import answer
from tagging_toys import adapted, sentences, untrained
from tracing import eagerly

from keras_attn.adapt import enable_lora, merge_lora
from keras_attn.models import BertConfig, with_heads
from keras_attn.models.tensors import model_tensors
from keras_attn.tasks import FineTuning, Tagger, TextGenerator
from keras_attn.tasks.base.fine_tuning import choose_weights, merge_chosen_lora
from keras_attn.text import CharacterTokenizer
from keras_attn.training import checkpointing

QUICK = {"epochs": 1, "batch_size": 16, "learning_rate": 0.02, "verbose": 0}
TRAIN, DEV = sentences(16), sentences(4, seed=1)
ATTENTION = {f"{part}/kernel" for part in ("self_attention/qkv", "self_attention/output")}


@pytest.fixture(autouse=True)
def _eagerly():
    with eagerly():
        yield


def weights(tagger):
    return {name: value.copy() for name, value in model_tensors(tagger.model).items()}


def moved(before, after):
    """Names of the weights that changed."""
    return {name for name, value in after.items() if (value != before[name]).any()}


def of_block(names, number):
    start = f"encoder/block_{number}/"
    return {name.removeprefix(start) for name in names if name.startswith(start)}


@pytest.mark.slow
def test_frozen_layers_stay_and_the_rest_learns():
    tagger = untrained()
    before = weights(tagger)
    tagger.fit(TRAIN, frozen_layers=1, **QUICK)
    changed = moved(before, weights(tagger))
    # The pooler is not used by the tags.
    expected = {
        n for n in before if not n.startswith(("embedding/", "encoder/block_0/", "pooler/"))
    }
    assert changed == expected
    # A second training of all layers thaws them, one of all blocks leaves the head alone.
    before = weights(tagger)
    tagger.fit(TRAIN, frozen_layers=0, **QUICK)
    assert moved(before, weights(tagger)) == {n for n in before if not n.startswith("pooler/")}
    before = weights(tagger)
    tagger.fit(TRAIN, frozen_layers=2, **QUICK)
    assert {n.split("/")[0] for n in moved(before, weights(tagger))} <= {"tags", "encoder"}
    assert not of_block(moved(before, weights(tagger)), 0 | 1)


@pytest.mark.slow
def test_layers_that_the_user_froze_stay_so():
    tagger = untrained()
    layers = {layer.name: layer for layer in tagger.model.layers}
    own = layers["encoder"].blocks[0].self_attention
    own.trainable = False
    layers["tags"].trainable = False
    for settings in ({"frozen_layers": 1}, {"lora_rank": 2}, {"layer_decay": 0.9}, {}):
        before = weights(tagger)
        tagger.fit(TRAIN, **QUICK, **settings)
        changed = moved(before, weights(tagger))
        assert not any(n.startswith("tags/") or "block_0/self_attention/" in n for n in changed)
        assert any("block_1/self_attention" in n for n in changed)
    assert any("block_0/feed_forward" in n for n in changed)
    assert not own.trainable and not layers["tags"].trainable


def test_factors_by_hand():
    model = with_heads(
        BertConfig(50, dim=16, num_layers=3, num_heads=2, intermediate_dim=32), ("tags",), 3
    )
    factors = choose_weights(model, FineTuning(layer_decay=0.5))
    layers = {layer.name: layer for layer in model.layers}
    expected = {"embedding": 0.0625, "tags": 1.0}
    for name, factor in expected.items():
        assert {factors.get(id(v), 1.0) for v in layers[name].variables} == {factor}
    for block, factor in zip(layers["encoder"].blocks, (0.125, 0.25, 0.5), strict=True):
        assert {factors[id(v)] for v in block.variables} == {factor}
    assert choose_weights(model, FineTuning()) == {}
    assert choose_weights(model, FineTuning(frozen_layers=1)) == {}


@pytest.mark.slow
def test_lower_layers_move_less():
    """With plain gradient descent a layer would; Adam moves each weight by about its rate."""
    tagger = untrained()
    before = weights(tagger)
    settings = {**QUICK, "weight_decay": 0.0, "warmup_steps": 0}
    tagger.fit(TRAIN, layer_decay=0.1, **settings)
    after = weights(tagger)
    steps = {
        name: float(np.abs(after[f"{name}/kernel"] - before[f"{name}/kernel"]).max())
        for name in ("tags", "encoder/block_1/self_attention/qkv",
                     "encoder/block_0/self_attention/qkv")
    }  # fmt: skip
    top, upper, lower = steps.values()
    np.testing.assert_allclose([upper / top, lower / top], [0.1, 0.01], rtol=0.02)


@pytest.mark.slow
def test_lora_changes_products_of_the_attention_and_the_head_alone():
    tagger = untrained()
    before = weights(tagger)
    plain = [(v.path, v.trainable) for v in tagger.model.variables]
    tagger.fit(TRAIN, lora_rank=2, **QUICK)
    after = weights(tagger)
    changed = moved(before, after)
    assert of_block(changed, 0) == of_block(changed, 1) == ATTENTION
    assert {n for n in changed if not n.startswith("encoder/")} == {"tags/kernel", "tags/bias"}
    for name in changed - {"tags/kernel", "tags/bias"}:
        ranks = np.linalg.svd(after[name] - before[name], compute_uv=False)
        assert (ranks > 1e-5 * ranks[0]).sum() <= 2 * 3  # q, k and v share A alone
    # It is a plain model again.
    assert [(v.path, v.trainable) for v in tagger.model.variables] == plain


@pytest.fixture(scope="module")
def adapted_here(tmp_path_factory):
    with eagerly():
        return adapted(tmp_path_factory.mktemp("adapted") / "run")


@pytest.mark.slow
def test_a_run_with_lora_ends_with_the_weights_of_its_file(adapted_here):
    found = adapted_here
    assert found["saved"] == 0.0 and found["names"]
    assert found["moved"] and all("block_1/self_attention" in p or "tags" in p
                                  for p in found["moved"])  # fmt: skip
    assert any("tags" in p for p in found["moved"])


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_lora_on_another_backend(backend, adapted_here, tmp_path):
    found = answer(backend, Path(tagging_toys.__file__), tmp_path / "run", "lora")
    assert found.pop("backend") == backend
    assert found == {**adapted_here, "saved": pytest.approx(0, abs=1e-7)}


@pytest.mark.slow
def test_without_a_folder_the_best_weights_are_kept_and_merged():
    """Also by an average of the weights; the second call begins with what the first learned."""
    tagger = untrained()
    run = tagger.fit(TRAIN, DEV, lora_rank=2, ema_momentum=0.5, **{**QUICK, "epochs": 2})
    assert not any(getattr(x, "lora_enabled", False) for x in tagger.model._flatten_layers())
    best = max(row["val_f1"] for row in run.log)
    assert tagger.evaluate(DEV, num_bootstrap=0).f1 == pytest.approx(best)
    before = weights(tagger)
    tagger.fit(TRAIN, lora_rank=1, **{**QUICK, "learning_rate": 1e-12})
    for name, value in weights(tagger).items():
        np.testing.assert_allclose(value, before[name], atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{"lora_rank": 2, "layer_decay": 0.5}, {"frozen_layers": 1}])
def test_an_interrupted_run_comes_to_the_same_end(settings, tmp_path, monkeypatch):
    settings = {**QUICK, **settings, "batch_size": 8, "epochs": 2, "checkpoint_steps": 1}
    whole = untrained()
    whole.fit(TRAIN, DEV, run_dir=tmp_path / "whole", **settings)
    tagger = untrained()
    save, left = checkpointing.save_training_state, [3]

    def save_and_send(*arguments):
        save(*arguments)
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(checkpointing, "save_training_state", save_and_send)
    run = tagger.fit(TRAIN, DEV, run_dir=tmp_path / "run", **settings)
    assert not run.complete
    for again in (untrained(), tagger):  # in the same process, and in another
        folder = tmp_path / f"run {again is tagger}"
        folder.mkdir()
        for file in (tmp_path / "run").iterdir():
            (folder / file.name).write_bytes(file.read_bytes())
        assert again.fit(TRAIN, DEV, run_dir=folder, **settings).complete
        expected = weights(whole)
        for name, value in weights(again).items():
            np.testing.assert_array_equal(value, expected[name], err_msg=name)


@pytest.mark.slow
def test_an_adapter_is_not_lost_in_a_folder(tmp_path):
    """What a run keeps in its file has no LoRA."""
    tagger = untrained()
    enable_lora(tagger, 2)
    with pytest.raises(ValueError, match="Leave `run_dir` out, merge LoRA with `merge_lora`"):
        tagger.fit(TRAIN, run_dir=tmp_path / "run", **QUICK)
    assert not (tmp_path / "run" / "best.task").exists()


@pytest.mark.slow
def test_lora_that_was_merged_after_an_interrupt():
    tagger = untrained()
    choose_weights(tagger.model, tagger.Training(lora_rank=2))
    merge_lora(tagger)
    merge_chosen_lora(tagger.model)
    choose_weights(tagger.model, tagger.Training())
    assert not any(getattr(x, "lora_enabled", False) for x in tagger.model._flatten_layers())


@pytest.mark.slow
def test_an_optimizer_has_its_own_settings():
    tagger = untrained()
    words = "Expected an `optimizer`, or settings .* both, with learning_rate=0.1, clip_norm=1.0. "
    with pytest.raises(ValueError, match=words):
        tagger.compile(10, optimizer="sgd", learning_rate=0.1, clip_norm=1.0)
    with pytest.raises(ValueError, match=r"both, with ema_momentum=0\.9"):
        tagger.fit([], optimizer="sgd", ema_momentum=0.9)


@pytest.mark.slow
def test_layer_decay_is_of_any_optimizer():
    tagger = untrained()
    before = [np.array(w) for w in tagger.model.trainable_weights]
    tagger.compile(10, optimizer=keras.optimizers.SGD(0.1), layer_decay=1e-3)
    tagger.model.optimizer.apply(
        [keras.ops.ones(w.shape) for w in tagger.model.trainable_weights],
        tagger.model.trainable_weights,
    )
    moved = {
        w.path: float(np.abs(np.array(w) - old).max())
        for w, old in zip(tagger.model.trainable_weights, before, strict=True)
    }
    assert max(moved.values()) == pytest.approx(0.1, rel=1e-3)  # the head
    assert max(v for path, v in moved.items() if "embedding" in path) < 1e-4


@pytest.mark.slow
def test_what_a_user_prepared_for_lora_is_left_alone():
    tagger = untrained()
    enable_lora(tagger, 2)
    own = {v.path for v in tagger.model.trainable_variables}
    tagger.fit(TRAIN, frozen_layers=1, **QUICK)
    tagger.fit(TRAIN, **QUICK)
    assert {v.path for v in tagger.model.trainable_variables} == own
    assert any(getattr(x, "lora_enabled", False) for x in tagger.model._flatten_layers())
    with pytest.raises(ValueError, match="already has LoRA"):
        tagger.fit(TRAIN, lora_rank=1, **QUICK)
    merge_lora(tagger)
    tagger.fit(TRAIN, lora_rank=1, **QUICK)


@pytest.mark.slow
def test_saving_in_the_middle_gives_a_plain_task(tmp_path):
    tagger = untrained()

    class Save(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            tagger.save(tmp_path / "t.task")

    tagger.fit(TRAIN, lora_rank=2, callbacks=[Save()], **QUICK)
    again = Tagger.load(tmp_path / "t.task")
    for name, value in weights(again).items():
        np.testing.assert_allclose(value, weights(tagger)[name], atol=1e-7)
    assert again.predict("Ada codes").labels == tagger.predict("Ada codes").labels


def test_errors():
    tagger = untrained()
    with pytest.raises(
        ValueError, match="`frozen_layers` must be at most 2, the number of blocks of the m"
    ):
        tagger.fit(TRAIN, frozen_layers=3, **QUICK)
    with pytest.raises(ValueError, match="frozen_layers=2, all blocks of the model"):
        tagger.fit(TRAIN, frozen_layers=2, lora_rank=2, **QUICK)
    for wrong in ({"layer_decay": 0.0}, {"frozen_layers": -1}, {"lora_rank": -1}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            tagger.fit(TRAIN, **QUICK, **wrong)
    plain = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)], name="plain")
    for settings in ({"layer_decay": 0.9}, {"frozen_layers": 1}, {"lora_rank": 1}):
        with pytest.raises(ValueError, match="Received: 'plain', which has no such blocks"):
            choose_weights(plain, FineTuning(**settings))
    assert choose_weights(plain, FineTuning()) == {}
    generator = TextGenerator(
        CharacterTokenizer.train(["abc"]), model={"units": 8}, data={"sequence_length": 8}
    )
    with pytest.raises(ValueError, match="'rnn_language_model', which has no such blocks"):
        generator.fit("abc" * 20, lora_rank=2)

"""Text generators that start from given weights, whole or with LoRA."""

import dataclasses
import os
import signal

import keras
import numpy as np
import pytest
from processes import run_python
from text_generation_toys import TEXT, make
from tracing import eagerly

from keras_attn.interop import save_pretrained
from keras_attn.models import BertConfig, GptConfig
from keras_attn.models.tensors import model_tensors
from keras_attn.tasks import TextGenerationData, TextGenerator
from keras_attn.tasks.base.fine_tuning import choose_weights
from keras_attn.text import BytePairTokenizer, WordPieceTokenizer
from keras_attn.training import MaskedCrossEntropy, checkpointing

LLAMA = {
    "positions": "rotary", "normalization": "rms_norm", "gated": True, "use_bias": False,
    "activation": "silu", "tie_embeddings": False,
}  # fmt: skip
SHORT = TEXT[:400]
QUICK = {"epochs": 1, "batch_size": 8, "verbose": 0}


@pytest.fixture(autouse=True)
def _eagerly():
    with eagerly():
        yield


def folder_of(place, **more):
    """A small decoder in the form of Hugging Face, whose vocabulary is filled up."""
    keras.utils.set_random_seed(3)
    tokenizer = BytePairTokenizer.train([TEXT], 266, normalize=False, pattern="gpt2")
    config = GptConfig(
        272, dim=12, num_layers=2, num_heads=2, intermediate_dim=16, sequence_length=16,
        dropout=0.0, attention_dropout=0.0, **more,
    )  # fmt: skip
    model = config.build()
    save_pretrained(place, model, config, tokenizer)
    return place, model


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory):
    return folder_of(tmp_path_factory.mktemp("hf") / "gpt2")


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    return folder_of(tmp_path_factory.mktemp("hf") / "llama", **LLAMA)


def weights(generator):
    return {name: value.copy() for name, value in model_tensors(generator.model).items()}


def moved(before, after):
    return {name for name, value in after.items() if (value != before[name]).any()}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gpt2", pytest.param("llama", marks=pytest.mark.slow)])
def test_the_first_loss_is_that_of_the_given_model(kind, request):
    """Computed by the given model on windows that are cut by hand."""
    place, model = request.getfixturevalue(kind)
    generator = TextGenerator.create(TEXT, data={"backbone": place, "sequence_length": 12})
    tokenizer = generator.tokenizer
    assert (generator.ends, generator.sequence_length) == (True, 12)
    ids = tokenizer.encode(TEXT)[: 12 * 8]
    labels = np.array(ids).reshape(8, 12)
    rows = np.concatenate([np.full((8, 1), tokenizer.start_id), labels[:, :-1]], axis=1)
    logits = keras.ops.convert_to_numpy(model(rows))[..., : tokenizer.vocabulary_size]
    wanted = float(MaskedCrossEntropy()(labels, logits.astype("float64")))
    text = tokenizer.decode(ids)
    assert tokenizer.encode(text) == ids
    batches = generator.dataset(text, batch_size=8, shuffle=False)
    generator.compile(1)
    found = generator.model.train_on_batch(*batches[0])
    assert float(found) == pytest.approx(wanted, rel=1e-5)


@pytest.mark.slow
def test_what_was_loaded_is_said(gpt2, tmp_path, capsys):
    lines = []
    settings = {"data": {"backbone": gpt2[0]}, "training": {"epochs": 1, "batch_size": 8}}
    run = TextGenerator.train(
        SHORT, None, tmp_path / "run", **settings, log=lines.append, verbose=0
    )
    assert "loaded: 28 tensors of embedding, positions, decoder" in lines
    assert "new and random: 0 tensors" in lines
    assert "left over in the file: 0 tensors" in lines
    loaded = TextGenerator.load(run.best)
    assert (loaded.ends, loaded.sequence_length, loaded.config.dim) == (True, 16, 12)
    found = (tmp_path / "run" / "settings.toml").read_text()
    assert "dim = 12" in found and "backbone = " in found


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gpt2", pytest.param("llama", marks=pytest.mark.slow)])
def test_lora_trains_its_own_weights_alone(kind, request, tmp_path):
    place, _ = request.getfixturevalue(kind)
    generator = TextGenerator.create(TEXT, data={"backbone": place})
    before = weights(generator)
    generator.fit(SHORT, TEXT[:40], lora_rank=2, learning_rate=0.01, **QUICK)
    after = weights(generator)
    assert moved(before, after) == {
        f"decoder/block_{i}/self_attention/{part}/kernel"
        for i in (0, 1)
        for part in ("qkv", "output")
    }
    # The changes are in the weights: files and further trainings have plain ones.
    assert not any("lora" in v.path for v in generator.model.trainable_variables)
    generator.save(tmp_path / "t.task")
    again = TextGenerator.load(tmp_path / "t.task")
    assert again.generate("to", 12, seed=1) == generator.generate("to", 12, seed=1)
    generator.fit(SHORT, learning_rate=0.01, **QUICK)
    assert moved(after, weights(generator)) == set(before)


@pytest.mark.slow
def test_frozen_blocks_and_learning_rates_by_depth(llama):
    generator = TextGenerator.create(TEXT, data={"backbone": llama[0]})
    before = weights(generator)
    generator.fit(SHORT, frozen_layers=1, **QUICK)
    found = moved(before, weights(generator))
    assert found == {n for n in before if not n.startswith(("embedding/", "decoder/block_0/"))}
    training = TextGenerator.Training(layer_decay=0.5)
    factors = choose_weights(generator.model, training)
    layers = {layer.name: layer for layer in generator.model.layers}
    for block, factor in zip(layers["decoder"].blocks, (0.25, 0.5), strict=True):
        assert {factors[id(v)] for v in block.variables} == {factor}
    assert {factors[id(v)] for v in layers["embedding"].variables} == {0.125}
    assert not any(id(v) in factors for v in layers["head"].variables)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [pytest.param("rnn", marks=pytest.mark.slow), "gpt"])
def test_a_saved_generator_is_gone_on_with(kind, tmp_path):
    if kind == "rnn":
        first = make()
    else:
        sizes = {"model": "gpt", "dim": 8, "num_layers": 1, "num_heads": 2, "intermediate_dim": 8}
        first = TextGenerator.create(TEXT, data={"sequence_length": 24}, model=sizes)
    first.save(tmp_path / "t.task")
    data = {"backbone": tmp_path / "t.task"}
    second = TextGenerator.create(TEXT, data=data, model={"model": kind, "dropout": 0.5})
    assert second.config == dataclasses.replace(first.config, dropout=0.5)
    assert second.tokenizer.get_config() == first.tokenizer.get_config()
    assert not second.ends and not moved(weights(first), weights(second))
    assert second.evaluate(TEXT[:50]) == first.evaluate(TEXT[:50])


@pytest.mark.slow
def test_a_run_with_lora_goes_on(gpt2, tmp_path, monkeypatch):
    """Interrupted after its first checkpoint, it comes to the same end."""
    data = {"backbone": gpt2[0]}
    training = {"epochs": 2, "batch_size": 8, "lora_rank": 2, "checkpoint_steps": 3}
    settings = {"data": data, "training": training, "verbose": 0}
    whole = TextGenerator.train(SHORT, TEXT[:40], tmp_path / "whole", **settings)
    save, left = checkpointing.save_training_state, [1]

    def save_and_send(*arguments):
        save(*arguments)
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(checkpointing, "save_training_state", save_and_send)
    first = TextGenerator.train(SHORT, TEXT[:40], tmp_path / "parts", **settings)
    assert not first.complete
    second = TextGenerator.train(SHORT, TEXT[:40], tmp_path / "parts", **settings)
    assert second.complete
    ends = [weights(TextGenerator.load(run.best)) for run in (whole, second)]
    for name, value in ends[0].items():
        np.testing.assert_allclose(ends[1][name], value, atol=1e-6)


@pytest.mark.slow
def test_wrong_backbones(gpt2, tmp_path):
    words = WordPieceTokenizer.train(["a b c d e"], 15)
    bert = BertConfig(words.vocabulary_size, dim=8, num_layers=1, num_heads=2)
    save_pretrained(tmp_path / "bert", bert.build(), bert, words)
    config = GptConfig(50, dim=8, num_layers=1, num_heads=2)
    save_pretrained(tmp_path / "bare", config.build(), config)

    def create(place=gpt2[0], model=None, text=TEXT, **data):
        return TextGenerator.create(text, data={"backbone": place, **data}, model=model)

    cases = [
        (lambda: create(tmp_path / "bert"), "which lacks a decoder"),
        (lambda: create(tmp_path / "bare"), "which lacks a tokenizer"),
        (lambda: create(sequence_length=17), "at most 16, the number of positions"),
        (lambda: create(vocabulary_size=300), "The backbone has a tokenizer: 'byte_pair'"),
        (lambda: create(model={"model": "gpt", "dim": 16}), "`dim` is 12 in the backbone"),
        (lambda: create().dataset("to be"), "Give more text, or shorter windows"),
    ]
    for call, message in cases:
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(FileNotFoundError):
        create(tmp_path / "nowhere")
    make().save(tmp_path / "rnn.task")
    with pytest.raises(ValueError, match="architecture 'rnn'"):
        create(tmp_path / "rnn.task", {"model": "gpt"})
    with pytest.raises(ValueError, match="a tokenizer: 'characters'"):
        create(tmp_path / "rnn.task", tokenizer="byte_pair")
    assert TextGenerationData().sequence_length is None


@pytest.mark.slow
def test_the_command_goes_on_from_a_folder(gpt2, tmp_path):
    (tmp_path / "t.txt").write_text(TEXT)
    fit = "from keras_attn.cli import main\nimport sys\nmain(sys.argv[1:])\n"
    arguments = (
        "text-generation", "fit", "--backbone", gpt2[0], "--text", tmp_path / "t.txt",
        "--run-dir", tmp_path / "run", "--epochs", 1, "--batch-size", 8, "--lora-rank", 2,
    )  # fmt: skip
    done = run_python("tensorflow", fit, *arguments)
    assert "loaded: 28 tensors" in done.stdout
    TextGenerator.load(tmp_path / "run" / "best.task").export(tmp_path / "m")

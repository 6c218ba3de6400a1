"""T5 of transformers, in and out."""

import dataclasses
import io
import json
from pathlib import Path

import keras
import numpy as np
import pytest
import torch
from processes import run_python
from t5_script import outputs

from keras_attn.generation import greedy_search
from keras_attn.interop import load_pretrained, read_pretrained, save_pretrained
from keras_attn.interop.search_settings import read_tasks
from keras_attn.interop.t5_files import read_t5_config
from keras_attn.models import SequenceDecoder, T5Config
from keras_attn.models.tensors import model_tensors
from keras_attn.text import SentencePieceTokenizer

transformers = pytest.importorskip("transformers", reason="transformers is of the extra `test`")

from interop_toys import perturbed  # noqa: E402

SMALL = {
    "vocab_size": 31, "d_model": 12, "d_kv": 5, "d_ff": 20, "num_layers": 2, "num_heads": 3,
    "relative_attention_num_buckets": 8, "relative_attention_max_distance": 10,
}  # fmt: skip
TEXTS = ["the cat sat on the mat", "a cat ran to the hat", "that is a mat"]
V1_1 = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
# Settings, and whether the output has a matrix of its own.
CASES = {
    "1.0": ({}, False),
    "1.1": (V1_1, True),
    "1.0 with an output of its own": ({"num_decoder_layers": 1}, True),
    "1.1 with a tied output": ({**V1_1, "d_kv": 4, "layer_norm_epsilon": 1e-2}, False),
    "another activation": ({"feed_forward_proj": "gated-silu", "num_decoder_layers": 3}, False),
    "mt5": ({}, True),
}


def reference(name="1.0"):
    settings, own = CASES[name]
    kind = "MT5" if name == "mt5" else "T5"
    config = getattr(transformers, f"{kind}Config")(**{**SMALL, **settings})
    model = getattr(transformers, f"{kind}ForConditionalGeneration")(config)
    if own:
        model.lm_head.weight = torch.nn.Parameter(torch.randn(31, 12))
    return perturbed(model)


def batch():
    """Sources padded on both sides, and targets that begin with the id of padding."""
    rng = np.random.default_rng(0)
    places = np.arange(14)
    seen = np.stack([places >= 0, places < 5, places > 8])
    source = np.where(seen, rng.integers(1, 31, seen.shape), 0)
    target = rng.integers(1, 31, (3, 7))
    target[:, 0], target[1, 4:] = 0, 0
    return {"source_ids": source.astype("int32"), "target_ids": target.astype("int32")}


def theirs(model, inputs):
    source, target = (torch.tensor(inputs[n].astype("int64")) for n in ("source_ids", "target_ids"))
    with torch.no_grad():
        found = model(input_ids=source, attention_mask=source != 0, decoder_input_ids=target)
    return [found.encoder_last_hidden_state.numpy(), found.logits.numpy()]


def compare(found, wanted, inputs):
    """Within 1e-5 of the largest value, on real tokens."""
    target = inputs["target_ids"] != 0
    target[:, 0] = True  # the start
    for ours, their, seen in zip(found, wanted, (inputs["source_ids"] != 0, target), strict=True):
        assert ours.shape == their.shape
        largest = np.abs(their[seen]).max()
        np.testing.assert_allclose(ours[seen], their[seen], atol=1e-5 * largest, rtol=0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n == "1.1" else pytest.mark.slow) for n in CASES]
)
def test_a_model_in_and_out(name, tmp_path):
    model = reference(name)
    model.save_pretrained(tmp_path / "a")
    config = read_pretrained(tmp_path / "a").config
    assert config.tied_output is not CASES[name][1]
    ours, tokenizer, report = load_pretrained(tmp_path / "a")
    assert tokenizer is None and report.new == report.left_over == []
    assert set(report.loaded) == set(model_tensors(ours))
    inputs = batch()
    wanted = theirs(model, inputs)
    compare(outputs(ours, inputs), wanted, inputs)

    source = inputs["source_ids"]
    tokens = model.generate(
        torch.tensor(source.astype("int64")), attention_mask=torch.tensor(source != 0),
        max_new_tokens=6, do_sample=False, num_beams=1, decoder_start_token_id=0,
        use_cache=False,
    ).numpy()[:, 1:]  # fmt: skip
    parts = SequenceDecoder(ours)
    memory = parts.encode(keras.ops.convert_to_tensor(source))
    start = np.zeros((3, 1), "int32")
    found = greedy_search(parts.decoder, start, None, *memory, max_length=6, end_id=1, pad_id=0)
    mine = keras.ops.convert_to_numpy(found.tokens)[:, : tokens.shape[1]]
    assert mine.tolist() == tokens.tolist()

    save_pretrained(tmp_path / "b", ours, config)
    again, info = transformers.T5ForConditionalGeneration.from_pretrained(
        tmp_path / "b", output_loading_info=True
    )
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    for found, expected in zip(theirs(again.eval(), inputs), wanted, strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-6 * np.abs(expected).max())
    assert read_pretrained(tmp_path / "b").config == config


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_models_on_other_backends(backend, tmp_path):
    models = {name: reference(name) for name in CASES}
    inputs = batch()
    np.savez(tmp_path / "inputs.npz", **inputs)
    for name, model in models.items():
        model.save_pretrained(tmp_path / name)
    script = Path(__file__).with_name("t5_script.py")
    assert run_python(backend, script, tmp_path).stdout.strip() == backend
    for name, model in models.items():
        found = np.load(tmp_path / name / "found.npz")
        compare([found[key] for key in found.files], theirs(model, inputs), inputs)


def sentence_pieces(folder):
    """A SentencePiece model as T5 has it: padding, end and unknown first, and no start."""
    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS * 9), model_writer=model, vocab_size=40, pad_id=0, eos_id=1,
        unk_id=2, bos_id=-1, hard_vocab_limit=False, minloglevel=2,
    )  # fmt: skip
    (folder / "spiece.model").write_bytes(model.getvalue())
    return len(sentencepiece.SentencePieceProcessor(model_proto=model.getvalue()))


@pytest.mark.slow
def test_a_tokenizer_with_sentinels_in_and_out(tmp_path):
    pieces = sentence_pieces(tmp_path)
    size = pieces + 100 + 4  # T5 has more rows than tokens
    settings = {**SMALL, **V1_1, "vocab_size": size}
    model = transformers.T5ForConditionalGeneration(transformers.T5Config(**settings))
    model.save_pretrained(tmp_path)
    ours, tokenizer, _ = load_pretrained(tmp_path)
    assert (tokenizer.pad_id, tokenizer.start_id, tokenizer.end_id) == (0, 0, 1)
    assert tokenizer.vocabulary[-1] == "<extra_id_0>" and tokenizer.vocabulary_size == size - 4
    config = read_pretrained(tmp_path).config
    save_pretrained(tmp_path / "b", ours, config, tokenizer)
    theirs = transformers.T5Tokenizer.from_pretrained(tmp_path / "b")
    for text in [*TEXTS, "A  cat\nran; ½ of it", ""]:
        assert tokenizer.encode(text, add_end=True) == theirs(text).input_ids, text
    assert theirs.convert_tokens_to_ids("<extra_id_7>") == tokenizer.vocabulary.index(
        "<extra_id_7>"
    )
    again = read_pretrained(tmp_path / "b").tokenizer
    assert again.get_config() == tokenizer.get_config()

    (tmp_path / "tokenizer_config.json").write_text('{"extra_ids": 105}')
    with pytest.raises(ValueError, match=r"followed by 105 sentinels, but the model has"):
        read_pretrained(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text('{"extra_ids": "many"}')
    with pytest.raises(ValueError, match="`extra_ids`, the number of sentinels, must be"):
        read_pretrained(tmp_path)
    own = SentencePieceTokenizer.train(TEXTS * 9, 300, allow_fewer=True)
    with pytest.raises(ValueError, match="The tokenizer of a T5 has the ids of its"):
        save_pretrained(tmp_path / "c", ours, config, own)
    with pytest.raises(TypeError, match=r"must be a SentencePieceTokenizer\. Received: str"):
        save_pretrained(tmp_path / "c", ours, config, "words")


def test_settings_of_real_files():
    """As in the config.json of t5-small, flan-t5-small and mt5-small."""
    small = {
        "model_type": "t5", "d_ff": 2048, "d_kv": 64, "d_model": 512, "num_layers": 6,
        "num_heads": 8, "vocab_size": 32128, "feed_forward_proj": "relu", "n_positions": 512,
        "relative_attention_num_buckets": 32, "tie_word_embeddings": True,
    }  # fmt: skip
    config = read_t5_config(small, "here")
    assert config == T5Config(
        32128, dim=512, num_layers=6, num_heads=8, intermediate_dim=2048, attention_dropout=0.1
    )
    flan = {**small, "d_ff": 1024, "num_heads": 6, "num_decoder_layers": 8, **V1_1}
    config = read_t5_config(flan, "here")
    assert (config.gated, config.activation, config.scale_output) == (True, "gelu_tanh", False)
    assert (config.key_dim, config.num_decoder_layers) == (64, 8)
    config = read_t5_config({"model_type": "mt5", "tie_word_embeddings": True}, "here")
    assert config.source_vocabulary_size == 250112 and not config.scale_output


@pytest.mark.slow
def test_what_is_refused_by_name(tmp_path):
    base = {"model_type": "t5", **SMALL}
    for settings, message in (
        ({"feed_forward_proj": "swish-gelu"}, "`feed_forward_proj` must be an activation"),
        ({"feed_forward_proj": "gated-xielu"}, "the activation must be one of"),
        ({"decoder_start_token_id": 3}, "`decoder_start_token_id` must be 0. Received: 3"),
        ({"is_encoder_decoder": False}, "`is_encoder_decoder` must be True"),
        ({"quantization_config": {"bits": 4}}, "`quantization_config` must be None"),
        ({"d_model": "12"}, "here: `dim` must be of type int"),
        ({"num_layers": 0}, "here: `num_layers` must be at least 1"),
    ):
        with pytest.raises(ValueError, match=message):
            read_t5_config({**base, **settings}, "here")
    config = T5Config(31, dim=12, num_layers=1, num_heads=3, intermediate_dim=8)
    two = dataclasses.replace(config, target_vocabulary_size=9)
    with pytest.raises(ValueError, match="T5 has one vocabulary"):
        save_pretrained(tmp_path / "a", two.build(), two)
    with pytest.raises(ValueError, match="must have intermediate_dim=7"):
        other = dataclasses.replace(config, intermediate_dim=7)
        save_pretrained(tmp_path / "a", config.build(), other)
    save_pretrained(tmp_path / "t5", config.build(), config)
    with pytest.raises(ValueError, match=r"are only for encoders. Received: .* for a T5Config"):
        load_pretrained(tmp_path / "t5", ("classes",), num_classes=2)
    assert not (tmp_path / "a").exists()


def test_files_that_contradict_each_other(tmp_path):
    model = transformers.T5ForConditionalGeneration(transformers.T5Config(**SMALL))
    model.save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    settings = json.loads(path.read_text())
    own = r"encoder\.block\.0\.layer\.0\.SelfAttention"
    for change, message in (
        ({"num_layers": 10**9}, r"requires a tensor encoder\.block\.2\.layer\.0\.SelfAttention"),
        ({"d_ff": 5}, r"DenseReluDense\.wi\.weight must have the shape \(5, 12\)"),
        ({"d_kv": 6}, rf"{own}\.q\.weight must have the shape \(18, 12\)"),
        ({"relative_attention_num_buckets": 16}, rf"{own}\.relative_attention_bias\.weight must"),
        ({"is_gated_act": True}, r"requires a tensor .*\.wi_0\.weight"),
    ):
        path.write_text(json.dumps({**settings, **change}))
        with pytest.raises(ValueError, match=message):
            read_pretrained(tmp_path)
    path.write_text(json.dumps(settings))
    from safetensors.torch import load_file, save_file

    tensors = load_file(tmp_path / "model.safetensors")
    tensors["decoder.embed_tokens.weight"] = tensors["shared.weight"] + 1
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match=r"decoder\.embed_tokens\.weight must equal shared"):
        read_pretrained(tmp_path)


TASKS = {
    "summarization": {
        "early_stopping": True, "length_penalty": 2.0, "max_length": 200, "min_length": 30,
        "no_repeat_ngram_size": 3, "num_beams": 4, "prefix": "summarize: ",
    },
    "translation_en_to_de": {
        "early_stopping": True, "max_length": 300, "num_beams": 4,
        "prefix": "translate English to German: ",
    },
    "ner": {"num_beams": "?"},
}  # fmt: skip
"""What the `config.json` of t5-small says, and a task that we do not have."""


def test_what_it_says_about_tasks(tmp_path):
    (tmp_path / "generation_config.json").write_text('{"min_length": 5, "num_beams": 2}')
    settings = {"task_specific_params": TASKS, "num_beams": 7}
    found = read_tasks(tmp_path, settings)
    assert list(found) == ["summarization", "translation_en_to_de"]
    own = found["summarization"]
    assert (own.prefix, own.max_length) == ("summarize: ", 199)  # they count the start
    expected = {"beams": 4, "alpha": 2.0, "min_length": 30, "no_repeat_ngram_size": 3}
    assert expected.items() <= own.search.items() and own.search["early_stopping"] is True
    other = found["translation_en_to_de"].search
    assert (other["beams"], other["min_length"], other["alpha"]) == (4, 5, 1.0)
    assert read_tasks(tmp_path, {}) == read_tasks(tmp_path, {"task_specific_params": None}) == {}
    for wrong, message in [
        ([3], "must have an object"),
        ({"summarization": 3}, "must have an object"),
        ({"summarization": {"prefix": 3}}, "summarization: `prefix` must be a string"),
        ({"summarization": {"max_length": 2}}, "`max_length` an integer above 2"),
        ({"translation_a_to_b": {"num_beams": "4"}}, "translation_a_to_b: `num_beams` must be int"),
    ]:
        with pytest.raises(ValueError, match=message):
            read_tasks(tmp_path, {"task_specific_params": wrong})

"""Marian translators of transformers, in and out."""

import json
import re
import warnings
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from marian_script import outputs
from processes import run_python

from keras_attn.interop import load_pretrained, read_pretrained, save_pretrained
from keras_attn.interop.marian_files import save_marian
from keras_attn.interop.marian_settings import read_marian_config
from keras_attn.interop.search_settings import search_file
from keras_attn.models import TransformerEncoderDecoderConfig
from keras_attn.models.tensors import model_tensors
from keras_attn.text import BytePairTokenizer
from keras_attn.text.language_marks import encode_marked

transformers = pytest.importorskip("transformers", reason="transformers is of the extra `test`")

from interop_toys import perturbed  # noqa: E402
from marian_toys import PAIRS, translator  # noqa: E402

PAD = 28
SMALL = {
    "vocab_size": 31, "d_model": 12, "encoder_layers": 1, "decoder_layers": 2,
    "encoder_attention_heads": 3, "decoder_attention_heads": 3, "encoder_ffn_dim": 20,
    "decoder_ffn_dim": 20, "pad_token_id": PAD, "decoder_start_token_id": PAD, "eos_token_id": 0,
    "scale_embedding": True, "activation_function": "swish", "max_position_embeddings": 64,
}  # fmt: skip
CASES = {
    "one vocabulary": {},
    "two": {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": 29},
    "untied": {"tie_word_embeddings": False, "decoder_layers": 1},
    "two, untied": {
        "share_encoder_decoder_embeddings": False, "decoder_vocab_size": 33,
        "tie_word_embeddings": False, "scale_embedding": False,
    },
    "another start": {"decoder_start_token_id": 5, "activation_function": "relu"},
}  # fmt: skip


def reference(name="one vocabulary"):
    config = transformers.MarianConfig(**{**SMALL, **CASES[name]})
    model = perturbed(transformers.MarianMTModel(config))
    with torch.no_grad():  # a buffer, and tables that nobody trains
        model.final_logits_bias.copy_(torch.randn_like(model.final_logits_bias))
        for side in (model.model.encoder, model.model.decoder):
            side.embed_positions.weight.copy_(side.embed_positions.create_weight())
    return model


def batch(start=PAD):
    """Sources padded on both sides, and targets."""
    rng = np.random.default_rng(0)
    places = np.arange(12)
    seen = np.stack([places >= 0, places < 5, places > 8])
    source = np.where(seen, rng.integers(0, PAD, seen.shape), PAD)
    target = rng.integers(0, PAD, (3, 7))
    target[:, 0], target[1, 4:] = start, PAD
    return {"source_ids": source.astype("int32"), "target_ids": target.astype("int32")}


def theirs(model, inputs):
    source, target = (torch.tensor(inputs[n].astype("int64")) for n in inputs)
    with torch.no_grad():
        found = model(input_ids=source, attention_mask=source != PAD, decoder_input_ids=target)
    return [found.encoder_last_hidden_state.numpy(), found.logits.numpy()]


def compare(found, wanted, inputs):
    """Within 1e-5 of the largest value, on real tokens."""
    target = inputs["target_ids"] != PAD
    target[:, 0] = True  # the start
    for ours, their, seen in zip(found, wanted, (inputs["source_ids"] != PAD, target), strict=True):
        assert ours.shape == their.shape
        largest = np.abs(their[seen]).max()
        np.testing.assert_allclose(ours[seen], their[seen], atol=1e-5 * largest, rtol=0)


def as_h5(model, path):
    """Writes the weights as TFMarianMTModel did."""
    leaves = {
        "LayerNorm": {"weight": "gamma", "bias": "beta"},
        "Linear": {"weight": "kernel", "bias": "bias"},
    }
    with h5py.File(path, "w") as file:
        for name, module in model.model.named_modules():
            for kind, own in leaves.get(type(module).__name__, {}).items():
                array = getattr(module, kind).detach().numpy()
                place = f"model/tf_marian_mt_model/model/{name.replace('layers.', 'layers|')}"
                place = re.sub(r"\.", "/", place).replace("|", ".")
                file[f"{place}/{own}:0"] = array.T if own == "kernel" else array
        shared = model.model.shared.weight.detach().numpy()
        file["model/model.shared/model.shared/weight:0"] = shared
        file["final_logits_bias/final_logits_bias:0"] = model.final_logits_bias.numpy()


def written(model, folder):
    model.save_pretrained(folder)
    return folder


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n == "two" else pytest.mark.slow) for n in CASES]
)
def test_both_ways(tmp_path, name):
    """Outputs of the encoder and the decoder beside transformers, and of what is saved."""
    model = reference(name)
    inputs = batch(model.config.decoder_start_token_id)
    wanted = theirs(model, inputs)
    ours, _, report = load_pretrained(written(model, tmp_path / "theirs"))
    assert not report.new and not report.left_over
    compare(outputs(ours, inputs), wanted, inputs)

    config = read_pretrained(tmp_path / "theirs").config
    if name == "another start":
        with pytest.raises(ValueError, match="needs its tokenizer"):
            save_pretrained(tmp_path / "ours", ours, config)
        return
    save_pretrained(tmp_path / "ours", ours, config)
    kind = transformers.MarianMTModel
    again, info = kind.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not any(info.values())
    for found, want in zip(theirs(again.eval(), inputs), wanted, strict=True):
        np.testing.assert_array_equal(found, want)
    assert read_pretrained(tmp_path / "ours").config == config


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
def test_every_backend(tmp_path, backend):
    models = {name: reference(name) for name in CASES}
    for name, model in models.items():
        inputs = batch(model.config.decoder_start_token_id)
        np.savez(written(model, tmp_path / name) / "inputs.npz", **inputs)
    run_python(backend, Path(__file__).with_name("marian_script.py"), tmp_path)
    for name, model in models.items():
        inputs = batch(model.config.decoder_start_token_id)
        found = np.load(tmp_path / name / "found.npz")
        compare([found["arr_0"], found["arr_1"]], theirs(model, inputs), inputs)


def test_tensorflow_files(tmp_path):
    """`tf_model.h5`: the same weights; damaged files and files without a bias are told."""
    model = reference()
    folder = written(model, tmp_path / "model")
    expected = read_pretrained(folder)
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(b"x")
    with pytest.raises(FileNotFoundError, match=r"only pytorch_model.bin.*save_pretrained"):
        read_pretrained(folder)

    path = folder / "tf_model.h5"
    as_h5(model, path)
    found = read_pretrained(folder)
    assert found.config == expected.config and not found.unused
    assert found.tensors.keys() == expected.tensors.keys()
    for name, array in found.tensors.items():
        np.testing.assert_array_equal(array, expected.tensors[name])

    place = "model/tf_marian_mt_model/model/encoder/layers.0/fc1/kernel:0"
    for array, message in [
        (None, "requires a tensor encoder.layers.0.fc1.weight"),
        (np.zeros((12, 21), "float32"), r"\(20, 12\).*\(21, 12\)"),
        (np.zeros((12, 20), "int64"), "int64"),
        (np.array([[b"a"] * 20] * 12, dtype=object), "one of the dtypes"),
    ]:
        as_h5(model, path)
        with h5py.File(path, "a") as file:
            del file[place]
            if array is not None:
                file[place] = array
        with pytest.raises(ValueError, match=message):
            read_pretrained(folder)
    as_h5(model, path)
    with h5py.File(path, "a") as file:
        del file[place]
        file.create_dataset(place, (12, 20), "f4", external=[(tmp_path / "other", 0, 960)])
    with pytest.raises(ValueError, match="must be in this file"):
        read_pretrained(folder)
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(ValueError, match=r"whole HDF5 file.*tf_model.h5"):
        read_pretrained(folder)

    as_h5(model, path)
    with h5py.File(path, "a") as file:
        del file["final_logits_bias"]
    with pytest.warns(UserWarning, match="no `final_logits_bias`"):
        found = read_pretrained(folder)
    assert not found.tensors["source_embedding/bias"].any()


REFUSED = {
    "normalize_before": (True, "`normalize_before` must be False. Received: True"),
    "decoder_ffn_dim": (24, "`decoder_ffn_dim` must equal `encoder_ffn_dim`. Received: 24 and 20"),
    "decoder_attention_heads": (4, "`decoder_attention_heads` must equal `encoder_"),
    "activation_function": ("glu", "`activation_function` must be one of"),
    "pad_token_id": (31, "`pad_token_id` must be an id of the vocabulary, 0 to 30. Received: 31"),
    "decoder_start_token_id": (None, "`decoder_start_token_id` must be an id.*None"),
    "eos_token_id": ([0, 1], "`eos_token_id` must be an id"),
    "encoder_layers": (0, "`num_layers` must be at least 1"),
    "scale_embedding": ("yes", "`scale_embeddings`.*'yes'"),
    "d_model": (13, "divisible"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_settings_that_are_refused(name):
    value, message = REFUSED[name]
    with pytest.raises(ValueError, match=f"config.json: .*{message}"):
        read_marian_config({**SMALL, name: value}, "config.json")


@pytest.mark.slow
def test_wrong_files(tmp_path):
    """Tensors that contradict the settings or each other, and models that no Marian is."""
    model = reference()
    folder = written(model, tmp_path / "model")
    settings = json.loads((folder / "config.json").read_text())
    for change, message in [
        ({"decoder_layers": 10**9}, "requires a tensor decoder.layers.2"),
        ({"vocab_size": 10**12}, r"shared.weight must have the shape \(1000000000000, 12\)"),
        ({"d_model": 15}, r"must have the shape \(31, 15\)"),
    ]:
        (folder / "config.json").write_text(json.dumps({**settings, **change}))
        with pytest.raises(ValueError, match=message):
            read_pretrained(folder)
    (folder / "config.json").write_text(json.dumps(settings))
    tensors = {name: array.contiguous() for name, array in model.state_dict().items()}
    for name, array, message in [
        ("lm_head.weight", torch.zeros(31, 12), "lm_head.weight must equal model.shared.weight"),
        ("model.encoder.embed_positions.weight", torch.zeros(64, 12), "must have sinusoids"),
    ]:
        changed = {n: t.clone() for n, t in {**tensors, name: array}.items()}
        from safetensors.torch import save_file

        save_file(changed, folder / "model.safetensors")
        with pytest.raises(ValueError, match=message):
            read_pretrained(folder)

    config = TransformerEncoderDecoderConfig(31, dim=12, num_layers=1, num_heads=3)
    with pytest.raises(ValueError, match=r"no class for this.*positions='sinus"):
        save_pretrained(tmp_path / "ours", config.build(), config)


@pytest.mark.slow
def test_the_bias_is_written_for_a_model_without_one(tmp_path):
    config = TransformerEncoderDecoderConfig(
        31, dim=12, num_layers=1, num_heads=3, positions="sinusoidal_halves",
        normalize_first=False, pad_id=3, starts_with_padding=True,
    )  # fmt: skip
    model = config.build()
    save_pretrained(tmp_path / "ours", model, config)
    found = read_pretrained(tmp_path / "ours")
    assert found.config.pad_id == 3
    assert not found.tensors.pop("source_embedding/bias").any()
    assert found.tensors.keys() == model_tensors(model).keys()


@pytest.mark.slow
@pytest.mark.parametrize("separate", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_tokenizers_and_search(tmp_path, separate):
    """Ids as of MarianTokenizer, the search of the folder; all of it written again."""
    translator(tmp_path / "theirs", separate, min_length=2)
    found = read_pretrained(tmp_path / "theirs")
    size = found.config.source_vocabulary_size
    assert found.search == {
        "beams": 3, "alpha": 1.0, "length_penalty_kind": "power", "early_stopping": False,
        "min_length": 0, "no_repeat_ngram_size": 0, "renormalize": False,
        "forced_first_id": None, "forced_last_id": 0,
        "suppressed_ids": (size - 1,),
    }  # fmt: skip
    own = found.tokenizer, found.target_tokenizer
    model, *_ = load_pretrained(tmp_path / "theirs")
    save_marian(tmp_path / "ours", model, found.config, *own, found.search)
    again = read_pretrained(tmp_path / "ours")
    assert again.search == found.search
    assert again.config == found.config
    for folder in ("theirs", "ours"):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Recommended: pip install sacremoses")
            their = transformers.MarianTokenizer.from_pretrained(tmp_path / folder)
        for source, target in [*PAIRS[::5], ("", " "), ("an  unknown \u6f22 word", "x")]:
            source = f">>nld<< {source}"
            rows = [[*row, 0] for row in encode_marked(own[0], [source])]
            assert rows == [their(source)["input_ids"]]
            ids = own[1].encode(target, add_end=True)
            assert ids == their(text_target=target)["input_ids"]
            if 1 not in ids:  # what is unknown is "⁇" here, as in SentencePiece
                assert own[1].decode(ids) == their.decode(ids, skip_special_tokens=True)


def test_marks_of_languages(tmp_path):
    translator(tmp_path)
    tokenizer = read_pretrained(tmp_path).tokenizer
    marked = encode_marked(tokenizer, [" >>deu<<two dogs", "two dogs"], "nld")
    assert [row[0] for row in marked] == [2, 3]
    assert marked[0][1:] == marked[1][1:] == tokenizer.encode("two dogs")
    assert encode_marked(tokenizer, [], "nld") == []
    has = "It has '>>deu<<', '>>nld<<'."
    with pytest.raises(ValueError, match=f"no language mark '>>fra<<'. {has} Received"):
        encode_marked(tokenizer, [">>fra<< a"])
    with pytest.raises(ValueError, match=f"`language` must be .*'>>fra<<'. {has}"):
        encode_marked(tokenizer, ["a"], "fra")
    with pytest.raises(ValueError, match="one target language"):
        encode_marked(BytePairTokenizer.train(["a"], 259), ["a"], "fra")


def test_wrong_tokenizers_and_searches(tmp_path):
    translator(tmp_path)
    vocabulary = (tmp_path / "vocab.json").read_text(encoding="utf-8")
    search = json.loads((tmp_path / "generation_config.json").read_text())
    pieces = json.loads(vocabulary)
    first, *_, last = pieces
    cases = [
        ("vocab.json", {**pieces, "new": len(pieces)}, "must have the 43 pieces.*44 pieces"),
        ("vocab.json", {**pieces, "new": 5}, "ids 0 to 43, each once"),
        ("vocab.json", {**pieces, first: pieces[last], last: 0}, "must be '<pad>'. Received: '</s"),
        ("vocab.json", [], "expected a JSON object"),
        ("vocab.json", {f"{p}x": i for p, i in pieces.items()}, "must be '<pad>'"),
        ("generation_config.json", {**search, "num_beams": 0}, "`num_beams` must be int"),
        ("generation_config.json", {**search, "do_sample": True}, "`do_sample` must be False"),
        ("generation_config.json", {**search, "bad_words_ids": [[1, 2]]}, "single tokens"),
        ("generation_config.json", {**search, "early_stopping": "x"}, "true, false or 'never'"),
    ]
    for name, content, message in cases:
        before = (tmp_path / name).read_bytes()
        (tmp_path / name).write_text(json.dumps(content), encoding="utf-8")
        with pytest.raises(ValueError, match=f"{name}.*{message}|{message}.*{name}"):
            read_pretrained(tmp_path)
        (tmp_path / name).write_bytes(before)
    (tmp_path / "target.spm").write_bytes(b"no model")
    with pytest.raises(ValueError, match=r"target.spm, with vocab.json"):
        read_pretrained(tmp_path)
    (tmp_path / "target.spm").unlink()
    with pytest.raises(ValueError, match=r"no target.spm"):
        read_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"a power of the length.*'gnmt'"):
        search_file({"alpha": 1.0}, 5)

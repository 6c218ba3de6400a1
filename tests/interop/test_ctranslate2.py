"""CTranslate2's folders: variables, settings and vocabularies, beside the package itself."""

import json
import struct

import numpy as np
import pytest

ctranslate2 = pytest.importorskip("ctranslate2", reason="ctranslate2 is of the extra `test`")

from ctranslate2_toys import (  # noqa: E402
    ACTIVATIONS,
    LETTERS,
    SPECIAL,
    folder_of,
    log_probabilities,
)

from keras_attn.interop import read_pretrained  # noqa: E402
from keras_attn.interop.ctranslate2_files import read_model_file  # noqa: E402
from keras_attn.interop.ctranslate2_folders import read_ctranslate2  # noqa: E402
from keras_attn.models.tensors import load_tensors  # noqa: E402
from keras_attn.tasks.base.backbones import read_encoder_decoder  # noqa: E402
from keras_attn.text import SentencePieceTokenizer  # noqa: E402

SOURCES, TARGETS = ["abcd", "hg", "eefgabcd"], ["hgfe", "a", "bbcddc"]
SAME = [*SPECIAL, *LETTERS]


def ours(folder, sources=SOURCES, targets=TARGETS):
    """Log-probabilities of the tokens of targets and of their ends."""
    found = read_ctranslate2(folder)
    model = found.config.build()
    report = load_tensors(model, found.tensors)
    assert not report.new and not report.left_over
    source, target = found.tokenizer, found.target_tokenizer or found.tokenizer
    ends = json.loads((folder / "config.json").read_text())["add_source_eos"]
    values = []
    for text, answer in zip(sources, targets, strict=True):
        ids = [*source.encode(text), *([source.end_id] if ends else [])]
        answer = target.encode(answer)
        inputs = {"source_ids": [ids], "target_ids": [[target.start_id, *answer]]}
        inputs = {name: np.array(rows, "int32") for name, rows in inputs.items()}
        logits = np.asarray(model(inputs), "float64")[0]
        logits -= np.log(np.exp(logits).sum(-1, keepdims=True))
        values.append([logits[i, k] for i, k in enumerate([*answer, target.end_id])])
    return values


VARIANTS = {
    "post-norm, separate output": {"pre_norm": False, "tied": False},
    "one vocabulary": {"target": SAME, "halves": False},
    "Marian": {
        "pre_norm": False, "halves": True, "zero_start": True,
        "activation": ACTIVATIONS.SWISH, "config": {"add_source_eos": True},
        "source": ["</s>", "<unk>", *LETTERS], "target": ["</s>", "<unk>", *LETTERS],
    },
    "RMS norms, gated, no biases": {
        "rms_norm": True, "ffn_glu": True, "bias": False, "activation": ACTIVATIONS.GELU,
    },
    "other heads, no scale, epsilon": {
        "heads": 6, "scale": False, "activation": ACTIVATIONS.GELUTanh,
        "config": {"layer_norm_epsilon": 0.01},
    },
    "other activation": {"activation": ACTIVATIONS.GELUSigmoid, "halves": False, "layers": (1, 2)},
}  # fmt: skip
VARIANTS["Marian"]["config"] |= {"decoder_start_token": "</s>"}
QUICK = ("Marian", "RMS norms, gated, no biases")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [x if x in QUICK else pytest.param(x, marks=pytest.mark.slow) for x in VARIANTS]
)
def test_log_probabilities(tmp_path, name):
    folder = folder_of(tmp_path / "a", **VARIANTS[name])
    for found, expected in zip(
        ours(folder), log_probabilities(folder, SOURCES, TARGETS), strict=True
    ):
        np.testing.assert_allclose(found, expected, atol=2e-5)


def parts_of(path):
    """Version, name, revision, variables and aliases of a file, by hand."""
    content = path.read_bytes()
    place = 0

    def number(form):
        nonlocal place
        place += struct.calcsize(form)
        return struct.unpack_from(form, content, place - struct.calcsize(form))[0]

    def text():
        nonlocal place
        size = number("<H")
        place += size
        return content[place - size : place - 1].decode()

    version, name, revision = number("<I"), text(), number("<I")
    variables = {}
    for _ in range(number("<I")):
        key, rank = text(), number("<B")
        shape = [number("<I") for _ in range(rank)]
        kind, size = number("<B"), number("<I")
        place += size
        variables[key] = shape, kind, content[place - size : place]
    aliases = [(text(), text()) for _ in range(number("<I"))]
    assert place == len(content)
    return version, name, revision, variables, aliases


def file_of(version, name, revision, variables, aliases):
    """The bytes of a file of any version."""

    def text(value):
        return struct.pack("<H", len(value) + 1) + value.encode() + b"\0"

    found = [struct.pack("<I", version), text(name), struct.pack("<II", revision, len(variables))]
    for key, (shape, kind, data) in variables.items():
        size = [4, 1, 2, 4, 2, 2, *[1] * 9][kind]
        found.append(text(key) + struct.pack(f"<B{len(shape)}I", len(shape), *shape))
        old = struct.pack("<BI", size, len(data) // size)
        found.append((struct.pack("<BI", kind, len(data)) if version >= 4 else old) + data)
    if version >= 3:
        found.append(struct.pack("<I", len(aliases)))
        found += [text(alias) + text(key) for alias, key in aliases]
    return b"".join(found)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    place = tmp_path_factory.mktemp("ctranslate2")
    return {
        dtype: folder_of(place / dtype, quantization=dtype, layers=(1, 1))
        for dtype in ("float32", "float16", "bfloat16", "int16", "int8")
    }


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int16", "int8"])
def test_smaller_weights(folders, dtype):
    """Each number is the nearest that the type has, of float32 that are at most 2."""
    exact = read_model_file(folders["float32"] / "model.bin")
    found = read_model_file(folders[dtype] / "model.bin")
    name = "decoder/layer_0/self_attention/linear_0/weight"
    assert found.variables[name].dtype == dtype
    assert (
        found.variables["decoder/projection/weight"] == found.variables["decoder/embeddings/weight"]
    )
    whole = exact.weights(name)
    step = {
        "float16": 2.0**-11 * np.abs(whole) + 1e-7,
        "bfloat16": 2.0**-8 * np.abs(whole),
        "int16": np.abs(whole).max() / 1024 / 2 + 1e-6,
        "int8": np.abs(whole).max(axis=1, keepdims=True) / 127 / 2 + 1e-6,
    }[dtype]
    difference = np.abs(found.weights(name) - whole)
    assert (difference <= step).all() and difference.any()


@pytest.mark.parametrize("version", [2, 3, 4, 5])
def test_older_files(folders, tmp_path, version):
    """Of version 2 without aliases and settings, of version 3 with both; int16 without a scale."""
    _, _, revision, variables, aliases = parts_of(folders["int16"] / "model.bin")
    same = {}
    if version == 2:
        for alias, name in aliases:
            same |= {f"{alias}{x}": variables[f"{name}{x}"] for x in ("", "_scale")}
    path = tmp_path / "model.bin"
    path.write_bytes(file_of(version, "TransformerSpec", revision, {**variables, **same}, aliases))
    new, old = read_model_file(folders["int16"] / "model.bin"), read_model_file(path)
    assert (old.version, old.spec) == (version, "TransformerSpec")
    assert old.variables.keys() == new.variables.keys() | same.keys()
    for name in new.variables:
        if name.endswith("weight"):
            np.testing.assert_array_equal(old.weights(name), new.weights(name))
    name = "encoder/layer_0/ffn/linear_0/weight"
    del variables[f"{name}_scale"]
    path.write_bytes(file_of(version, "TransformerSpec", revision, {**variables, **same}, aliases))
    old = read_model_file(path)
    np.testing.assert_allclose(old.weights(name), old.variables[name].numbers() / 1000.0, rtol=1e-6)


NAME = "encoder/layer_0/ffn/linear_0/weight"


def put(parts, name, value):
    parts[3][name] = value


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda x: file_of(*x)[:-1], "is cut off: expected .* alias"),
        (lambda x: file_of(*x)[:200], "is cut off"),
        (lambda x: file_of(*x) + b"\0", "has 1 bytes after its last part"),
        (lambda x: b"", "is cut off: expected 4 more bytes for its version"),
        (lambda x: b"version https://git-lfs", "pointer of Git LFS"),
        (lambda x: struct.pack("<I", 1), "which begins with 1.*Convert the model again"),
        (lambda x: file_of(7, *x[1:]), "which begins with 7"),
        (lambda x: put(x, NAME, ([24, 12], 9, b"\0" * 288)), f"{NAME} has .* unknown type 9"),
        (lambda x: put(x, NAME, ([24, 13], 1, b"\0" * 288)), f"{NAME} .* has 312 bytes. .*: 288"),
        (lambda x: put(x, NAME, ([2**31, 2**31, 4], 1, b"")), f"{NAME} .* Received: 0"),
        (lambda x: put(x, NAME, ([1] * 9, 1, b"\0")), f"{NAME} must have a rank up to 8"),
        (lambda x: put(x, "a\nb", ([1], 1, b"\0")), "variable .* must be text"),
        (lambda x: x[4].append(("x/weight", "y/weight")), "alias x/weight must be a new name"),
        (lambda x: x[4].append((NAME, NAME)), f"alias {NAME} must be a new name"),
    ],
)
def test_damaged_files_are_named(folders, tmp_path, change, words):
    parts = list(parts_of(folders["int8"] / "model.bin"))
    found = change(parts)
    path = tmp_path / "model.bin"
    path.write_bytes(found if isinstance(found, bytes) else file_of(*parts))
    with pytest.raises(ValueError, match=words) as caught:
        read_model_file(path)
    assert str(path) in str(caught.value)


def test_where_numbers_of_heads_are_not_said(folders, tmp_path):
    """8, or 16 of a TransformerBig; settings may be of the model instead of each stack."""
    for name, heads in (("TransformerBase", 8), ("TransformerBig", 16), ("TransformerSpec", 8)):
        parts = list(parts_of(folder_of(tmp_path / name, dim=16, layers=(1, 1)) / "model.bin"))
        for stack in ("encoder", "decoder"):
            del parts[3][f"{stack}/num_heads"], parts[3][f"{stack}/pre_norm"]
        parts[1] = name
        parts[3]["pre_norm"] = [], 1, b"\1"
        (tmp_path / name / "model.bin").write_bytes(file_of(*parts))
        config = read_ctranslate2(tmp_path / name).config
        assert (config.num_heads, config.normalize_first) == (heads, True)
        assert config.positions == "sinusoidal_from_one"
        assert not read_encoder_decoder(tmp_path / name).learned["source_ends"]


def test_vocabularies(tmp_path):
    """In text, without a token for what is unknown, and shared ones; packages of Argos."""
    folder = folder_of(tmp_path / "a", target=SAME, layers=(1, 1))
    assert [file.name for file in folder.glob("*vocabulary*")] == ["shared_vocabulary.json"]
    found = read_ctranslate2(folder)
    assert found.config.target_vocabulary_size is None and found.target_tokenizer is None
    (folder / "shared_vocabulary.json").unlink()
    order = [*SPECIAL[:3], *LETTERS, "<unk>"]
    for side in ("source", "target"):
        text = "".join(f"{token}\n" for token in order[:-1])
        (folder / f"{side}_vocabulary.txt").write_text(text)
    other = read_ctranslate2(folder)
    tables = (x.tensors["source_embedding/embedding/embeddings"] for x in (found, other))
    first, second = tables
    np.testing.assert_array_equal(first[[0, 1, 2]], second[[0, 1, 2]])
    np.testing.assert_array_equal(first[3], second[4])
    (tmp_path / "argos").mkdir()
    folder.rename(tmp_path / "argos" / "model")
    assert read_pretrained(tmp_path / "argos").config == other.config


def test_sentence_pieces(tmp_path):
    """The rows of the file keep their order; both sides have padding behind the longer one."""
    words = ["the dog runs", "a cat sleeps", "the red bird", "a small hound"] * 9
    model = SentencePieceTokenizer.train(words, 60, byte_fallback=False, allow_fewer=True).model
    own = [*SPECIAL[1:3], "<unk>", *SentencePieceTokenizer(model).vocabulary[4:]]
    source, target = [*own, "more"], own
    config = {"add_source_eos": True, "decoder_start_token": "</s>"}
    for name, zeros, pair in (("a", False, (source, target)), ("b", True, (own, own))):
        folder = folder_of(tmp_path / name, *pair, layers=(1, 1), zero_start=zeros, config=config)
        (folder / "sentencepiece.model").write_bytes(model)
        found = read_ctranslate2(folder)
        size = len(pair[0])
        assert found.config.source_vocabulary_size == size + 1
        assert found.config.target_vocabulary_size == (None if zeros else size + 1)
        assert found.config.pad_id == found.tokenizer.pad_id == size
        assert found.tokenizer.vocabulary == (*pair[0], "<pad>")
        both = found.target_tokenizer or found.tokenizer
        assert both.start_id == (size if zeros else 1) and both.end_id == 1
        bias = found.tensors["source_embedding/bias" if zeros else "target_embedding/bias"]
        assert (bias == -30000).tolist() == [i >= len(pair[1]) for i in range(size + 1)]
        assert found.search["suppressed_ids"] == (() if zeros else (size - 1,))
        assert found.search["beams"] == 2 and found.source_ends
        text = "the small cat"
        assert found.tokenizer.decode(found.tokenizer.encode([text])) == [text]


def change_config(folder, **values):
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def change_file(change):
    def changed(folder):
        parts = list(parts_of(folder / "model.bin"))
        change(parts[3])
        (folder / "model.bin").write_bytes(file_of(*parts))

    return changed


def flag(name, value=1):
    return change_file(lambda x: x.update({name: ([], 1, bytes([value]))}))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (change_file(lambda x: x.pop(NAME)), f"there is no variable {NAME}"),
        (
            change_file(lambda x: x.update({NAME: ([12, 24], 0, b"\0" * 1152)})),
            rf"{NAME} must have shape \(12, 12\) .* Received: shape \(12, 24\)",
        ),
        (
            change_file(
                lambda x: x.update({"decoder/embeddings/weight": ([9, 12], 0, b"\0" * 432)})
            ),
            r"decoder/embeddings/weight must have the shape \(12, 12\), by the vocabulary",
        ),
        (
            change_file(lambda x: x.update({f"{NAME}x": ([1], 0, b"\0" * 4)})),
            f"variable {NAME}x is not supported",
        ),
        (flag("encoder/layernorm_embedding/gamma"), "layernorm_embedding/gamma is not supported"),
        (flag("decoder/alibi"), "`decoder/alibi` must be 0"),
        (flag("encoder/activation", 7), "`activation` must be the same"),
        (flag("encoder/pre_norm", 0), "`pre_norm` must be the same in encoder and decoder"),
        (flag("encoder/num_heads", 5), "`num_heads` must be the same"),
        (flag("encoder/scale_embeddings", 0), "`scale_embeddings` must be a flag, 1 or the root"),
        (
            change_file(
                lambda x: x.update(
                    {"encoder/position_encodings/encodings": ([2, 12], 0, b"\0" * 96)}
                )
            ),
            "encodings must have sinusoids. .* Learned positions are not supported",
        ),
        (
            lambda x: change_config(x, decoder_start_token=None),
            "`decoder_start_token` must be a tok",
        ),
        (lambda x: change_config(x, eos_token="<e>"), "`eos_token` must be in the vocabulary"),
        (lambda x: change_config(x, add_source_bos=True), "`add_source_bos` must be false"),
        (lambda x: change_config(x, layer_norm_epsilon=2), "`layer_norm_epsilon` must be a number"),
        (lambda x: change_config(x, quantization_bits=4), "`quantization_bits` is not supported"),
        (lambda x: (x / "source_vocabulary.json").unlink(), "expected one of source_vocabulary"),
        (
            lambda x: (x / "source_vocabulary.json").write_text('["a", null]'),
            "source_vocabulary.json must contain distinct strings.* Received: 'None'",
        ),
        (
            lambda x: (x / "source_vocabulary.json").write_text('["a", "\\ud800"]'),
            "source_vocabulary.json must contain distinct strings without lone surrogates",
        ),
        (
            lambda x: (x / "source_vocabulary.json").write_text('["a", "a"]'),
            "source_vocabulary.json must contain distinct strings",
        ),
        (
            lambda x: (x / "source_vocabulary.json").write_text('["</s>", "ab"]'),
            r"expected a sentencepiece.model, .* Received: the tokens \['ab'\]",
        ),
    ],
)
def test_what_cannot_be_loaded_is_named(tmp_path, change, words):
    folder = folder_of(tmp_path / "a", layers=(1, 1), tied=False)
    change(folder)
    with pytest.raises(ValueError, match=words) as caught:
        read_ctranslate2(folder)
    assert str(folder) in str(caught.value)


def test_other_specifications_are_refused(folders, tmp_path):
    parts = list(parts_of(folders["float32"] / "model.bin"))
    for name, revision in (("WhisperSpec", 3), ("TransformerSpec", 8)):
        (tmp_path / "model.bin").write_bytes(file_of(6, name, revision, *parts[3:]))
        with pytest.raises(ValueError, match=f"Received: {name}, revision {revision}"):
            read_ctranslate2(tmp_path)

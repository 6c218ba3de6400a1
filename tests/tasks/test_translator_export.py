"""The n best translations, and the SavedModel's two signatures, on ordinary and hostile texts."""

import json
import subprocess
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
import translation_toys
from hypothesis import example, given, settings
from hypothesis import strategies as st
from processes import answer
from tracing import eagerly
from translation_toys import CONFIG, PAIRS, stacked

from keras_attn import export
from keras_attn.explain import NBestTranslations
from keras_attn.export import check_equal, check_place, export_text_functions, replaced_folder
from keras_attn.tasks import Translator
from keras_attn.text import BytePairTokenizer

ROOT = Path(__file__).parents[2]
NORMAL = [source for source, _ in PAIRS[::9]]
HOSTILE = [
    "",
    "   ",
    "one two " * 12_500,  # 100,000 characters
    "x" * 100_000,
    "🙂" * 100_000,
    "a\x00b\x00",
    "👩\u200d👩\u200d👧\u200d👦 ☕\ufe0f",
    "שלום עולם، مرحبا",
    "\u0301e\u0301\u0302\u0303",
    "one\ntwo\r\n\n\tthree",
    "</s> <pad> <end> ▁",
]
BEAMS, R = 4, 3


@pytest.fixture(scope="module")
def translator():
    return translation_toys.fitted()


@pytest.fixture(scope="module")
def folder(translator, tmp_path_factory):
    path = tmp_path_factory.mktemp("export") / "model"
    translator.export(path, beams=BEAMS, num_return_sequences=R)
    return path


@pytest.fixture(scope="module")
def served(folder):
    signatures = tf.saved_model.load(str(folder)).signatures

    def call(name, texts):
        outputs = signatures[name](text=tf.constant(texts, tf.string))
        return {key: output.numpy() for key, output in outputs.items()}

    call.signatures = signatures
    return call


@pytest.fixture
def upper(tmp_path):
    """Exports a function that needs no model."""

    def make(path=tmp_path / "model", expected=("A", "B"), **arguments):
        def functions(tf):
            return {"serving_default": lambda text: {"upper": tf.strings.upper(text)}}, []

        outputs = {"serving_default": {"upper": list(expected)}}
        examples = {"text": ["a", "b"]}
        export_text_functions(path, functions, [], examples, outputs, **arguments)
        return path

    return make


def decoded(array):
    return [text.decode("utf-8") for text in array.ravel().tolist()]


def check_details(outputs, results):
    """The SavedModel's arrays are those of the Python object."""
    expected = stacked(results)
    assert outputs.keys() == expected.keys()
    for name, values in expected.items():
        check_equal(name, outputs[name], values, tolerance=1e-5)


def test_a_share_of_the_rows_must_be_equal():
    """Of quantized models, in which the last bit of a float may change a token."""
    received = np.array([[b"a", b"b"], [b"c", b"d"], [b"e", b"f"]], object)
    same = [["a", "b"], ["c", "d"], ["e", "f"]]
    one_differs = [["a", "b", ""], ["c", "d", ""], ["e", "f", "g"]]
    two_differ = [["a", "b", ""], ["c", "x", ""], ["e", "f", "g"]]
    for share in (1.0, 0.5):
        check_equal("text", received, same, 0, share)
    check_equal("text", received, one_differs, 0, 0.5)
    with pytest.raises(RuntimeError, match="shape"):
        check_equal("text", received, one_differs, 0)
    with pytest.raises(RuntimeError, match=r"Expected: 'x' at \(1, 1\)"):
        check_equal("text", received, two_differ, 0, 0.5)
    with pytest.raises(RuntimeError, match="shape"):
        check_equal("text", received, same[:2], 0, 0.5)
    check_equal("score", np.array([0.5, 0.25]), np.array([0.5, 0.75]), 1e-3, 0.5)
    with pytest.raises(RuntimeError, match=r"Expected: np.float64\(0.75\) at \(1,\)"):
        check_equal("score", np.array([0.5, 0.25]), np.array([0.5, 0.75]), 1e-3)


# In Python


@pytest.mark.slow
def test_n_best_begins_with_the_best(translator):
    found = translator.translate_n_best(NORMAL, num_return_sequences=R, beams=BEAMS)
    assert [n_best.translations[0] for n_best in found] == translator.translate(NORMAL)
    for n_best in found:
        assert isinstance(n_best, NBestTranslations)
        assert len(n_best.translations) == len(n_best.scores) == len(n_best.alignments) == R
        assert n_best.scores == sorted(n_best.scores, reverse=True)
        assert len(set(n_best.translations)) > 1
        assert n_best.source_truncated is False
    with eagerly():
        one = translator.translate_n_best(NORMAL[1], beams=2)
    assert one.translations[0] == found[1].translations[0]
    assert len(one.translations) == 2  # as many as beams
    assert translator.translate_n_best([]) == []
    batches = translator.translate_n_best(NORMAL, R, BEAMS, batch_size=5)
    assert [b.translations for b in batches] == [f.translations for f in found]


@pytest.mark.slow
def test_scores_are_those_of_the_plain_model(translator, eager):
    """Log-probabilities of the functional model, added up by hand."""
    tokenizer = translator.source_tokenizer
    checked = 0
    found = translator.translate_n_best(NORMAL[:4], R, BEAMS, alpha=0.7)
    for text, n_best in zip(NORMAL, found, strict=False):
        for translation, score, cut in zip(*n_best[:3], strict=True):
            ids = tokenizer.encode(translation, add_end=True)
            if cut or len(ids) != len(n_best.alignments[0].target_tokens):
                continue  # not found as the ids that its text has
            inputs = {
                "source_ids": np.array([tokenizer.encode(text, add_end=True)]),
                "target_ids": np.array([[tokenizer.start_id, *ids[:-1]]]),
            }
            logits = keras.ops.convert_to_numpy(translator.model(inputs))[0].astype("float64")
            logp = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
            total = logp[np.arange(len(ids)), ids].sum()
            assert score == pytest.approx(total / ((5 + len(ids)) / 6) ** 0.7, abs=1e-4)
            checked += 1
    assert checked >= 4


@pytest.mark.slow
def test_alignments_of_the_n_best_are_those_of_align(translator):
    checked = 0
    texts = [*NORMAL[:5], "seven", "and and"]
    for text, n_best in zip(texts, translator.translate_n_best(texts, R, BEAMS), strict=True):
        own = translator.align(text)
        assert own.target_tokens == n_best.alignments[0].target_tokens
        np.testing.assert_allclose(own.weights, n_best.alignments[0].weights, atol=1e-5)
        for translation, cut, alignment in zip(
            n_best.translations, n_best.truncated, n_best.alignments, strict=True
        ):
            again = translator.align(text, translation)
            assert (again.target_tokens[-1], cut) == ("</s>", alignment.target_tokens[-1] != "</s>")
            if again.target_tokens == alignment.target_tokens:
                np.testing.assert_allclose(again.weights, alignment.weights, atol=1e-5)
                checked += 1
    assert checked >= 10


@pytest.fixture(scope="module")
def deep():
    """Of two blocks; it has learned nothing."""
    keras.utils.set_random_seed(0)
    return Translator(
        translation_toys.tokenizer(),
        target_tokenizer=None,
        model={**CONFIG, "num_layers": 2},
        data={"max_length": 24},
    )


@pytest.mark.slow
def test_alignments_are_those_of_a_block(deep, eager):
    first, second, last = (deep.align("the one and two", "die eins", n) for n in (0, 1, -1))
    np.testing.assert_array_equal(second.weights, last.weights)
    assert np.abs(first.weights - last.weights).max() > 1e-3


@pytest.mark.slow
def test_what_was_cut_is_told(eager):
    """A model that knows nothing finds no end."""
    tokenizer = BytePairTokenizer.train(["one two"], 259)
    translator = Translator(tokenizer, model=CONFIG, data={"max_length": 8})
    short, long = translator.translate_n_best(["one", "one two three"], 2, beams=2)
    assert (short.source_truncated, long.source_truncated) == (False, True)
    assert long.alignments[0].source_tokens == [*"one▁two", "</s>"]
    for n_best, length in ((short, 4), (long, 8)):
        for cut, alignment in zip(n_best.truncated, n_best.alignments, strict=True):
            tokens = alignment.target_tokens
            assert cut == (tokens[-1] != "</s>")
            assert not cut or len(tokens) == translator.longest(length)
    assert any(short.truncated + long.truncated)


def test_wrong_settings_are_refused(translator, tmp_path):
    for call in (
        lambda **wrong: translator.translate_n_best("one", **wrong),
        lambda **wrong: translator.export(tmp_path / "never", **wrong),
    ):
        with pytest.raises(ValueError, match="`num_return_sequences` must be at most `beams`"):
            call(num_return_sequences=3, beams=2)
        for wrong in ({"num_return_sequences": 0}, {"beams": 1.5}, {"alpha": float("inf")}):
            with pytest.raises((TypeError, ValueError), match=f"`{next(iter(wrong))}` must be"):
                call(**wrong)
    assert not (tmp_path / "never").exists()
    with pytest.raises(TypeError, match="at position 0"):
        translator.translate_n_best([None])


@pytest.mark.slow
def test_align_refuses_what_is_not_there(translator, deep):
    for layer in (9, -3, 2, "last"):
        with pytest.raises(ValueError, match=r"one of the 2 cross-attentions, -2 to 1\. Received"):
            deep.align("one", layer=layer)
    with pytest.raises(ValueError, match="`target` must have at most 64 tokens"):
        translator.align("one", "x" * 1000)
    for wrong in ((5, None), ("one", 5)):
        with pytest.raises(TypeError, match="Received: 5 of type int"):
            translator.align(*wrong)
    assert translator.align("", "").weights.shape == (1, 1)


def test_a_source_without_text_is_explained_as_it_is_translated(deep):
    """By no text, which is what `predict` gives."""
    assert [view.title for view in deep.explain(["", " "])] == [" → ", "  → "]


@pytest.mark.slow
def test_hostile_texts_change_nothing(translator):
    alone = translator.translate(NORMAL)
    with pytest.warns(UserWarning, match="were cut"):
        together = translator.translate(NORMAL + HOSTILE)
    assert together[: len(NORMAL)] == alone
    found = translator.translate_n_best(HOSTILE[::-1] + NORMAL, R, BEAMS)
    n_best = translator.translate_n_best(NORMAL, R, BEAMS)
    assert [f.translations for f in found[len(HOSTILE) :]] == [n.translations for n in n_best]
    assert [f.translations[0] for f in found[: len(HOSTILE)]] == together[len(NORMAL) :][::-1]
    cut = [f.source_truncated for f in found[: len(HOSTILE)]][::-1]
    lengths = [len(translator.source_tokenizer.encode(text)) for text in HOSTILE]
    assert cut == [length > 23 for length in lengths]
    assert sum(cut) >= 4


# The SavedModel


@pytest.mark.slow
def test_the_signatures(served):
    outputs = {
        name: {key: (o.dtype.name, o.shape.as_list()) for key, o in f.structured_outputs.items()}
        for name, f in served.signatures.items()
    }
    assert outputs == {
        "serving_default": {"translation": ("string", [None])},
        "details": {
            "translations": ("string", [None, R]),
            "scores": ("float32", [None, R]),
            "truncated": ("bool", [None, R]),
            "source_truncated": ("bool", [None]),
            "source_tokens": ("string", [None, None]),
            "target_tokens": ("string", [None, R, None]),
            "alignments": ("float32", [None, R, None, None]),
        },
        "with_settings": {"translation": ("string", [None])},
    }
    for name, f in served.signatures.items():
        inputs = f.structured_input_signature[1].values()
        found = {x.name: (x.dtype, x.shape.as_list()) for x in inputs}
        numbers = {"alpha": (tf.float32, [None]), "min_length": (tf.int32, [None])}
        numbers = numbers if name == "with_settings" else {}
        assert found == {"text": (tf.string, [None]), **numbers}


@pytest.mark.slow
def test_the_saved_model_is_the_python_object(translator, served):
    texts = [*NORMAL, *HOSTILE, "q" * 22, "q" * 23, "q" * 24]  # q: an id each
    results = translator.translate_n_best(texts, R, BEAMS, batch_size=len(texts))
    best = served("serving_default", texts)["translation"]
    assert decoded(best) == [result.translations[0] for result in results]
    outputs = served("details", texts)
    check_details(outputs, results)
    assert outputs["source_truncated"][-3:].tolist() == [False, False, True]
    assert decoded(outputs["translations"][:, 0]) == decoded(best)
    # Weights are rows of probabilities on tokens, and nothing on padding.
    total = outputs["alignments"].sum(axis=-1)
    np.testing.assert_allclose(total, outputs["target_tokens"] != b"", atol=1e-5)
    columns = np.broadcast_to(
        (outputs["source_tokens"] == b"")[:, None, None], outputs["alignments"].shape
    )
    assert not outputs["alignments"][columns].any()


@pytest.mark.slow
def test_hostile_texts_change_nothing_in_the_saved_model(served):
    alone, together = served("details", NORMAL), served("details", HOSTILE + NORMAL)
    n, T, S = len(HOSTILE), alone["target_tokens"].shape[2], alone["source_tokens"].shape[1]
    for name in ("translations", "truncated", "source_truncated"):
        np.testing.assert_array_equal(together[name][n:], alone[name])
    np.testing.assert_array_equal(together["target_tokens"][n:, :, :T], alone["target_tokens"])
    np.testing.assert_allclose(together["scores"][n:], alone["scores"], atol=1e-5)
    weights = together["alignments"][n:, :, :T, :S]
    np.testing.assert_allclose(weights, alone["alignments"], atol=1e-5)


@pytest.mark.slow
def test_bytes_that_are_no_text(translator, served):
    broken = [b"one \xff two", b"\xc3", b"\xe2\x82", b"\xf0\x9f\x91 x", b"\x80\x80", b"\xff" * 9000]
    texts = [text.decode("utf-8", "replace") for text in broken]
    results = translator.translate_n_best(texts, R, BEAMS)
    assert decoded(served("serving_default", broken)["translation"]) == [
        result.translations[0] for result in results
    ]
    check_details(served("details", broken), results)


@pytest.mark.slow
def test_no_texts(served):
    assert served("serving_default", [])["translation"].shape == (0,)
    outputs = served("details", [])
    assert {name: output.shape[0] for name, output in outputs.items()} == dict.fromkeys(outputs, 0)
    assert outputs["translations"].shape == (0, R)


MODERN = {"positions": "rotary", "normalization": "rms_norm", "gated": True, "use_bias": False}


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, MODERN, {"positions": "alibi"}], ids=str)
def test_one_beam_and_half_precision(tmp_path, options):
    keras.utils.set_random_seed(0)
    tokenizer = translation_toys.tokenizer()
    target = BytePairTokenizer.train([target for _, target in PAIRS], 280)
    config = {**CONFIG, **options}
    translator = Translator(
        tokenizer,
        target_tokenizer=target,
        model=config,
        data={"max_length": 24},
        dtype="mixed_bfloat16",
    )
    translator.export(tmp_path / "model", beams=1)
    details = tf.saved_model.load(str(tmp_path / "model")).signatures["details"]
    outputs = details(text=tf.constant(NORMAL))
    assert outputs["translations"].shape == (len(NORMAL), 1)
    results = translator.translate_n_best(NORMAL, beams=1)
    assert decoded(outputs["translations"].numpy()) == [r.translations[0] for r in results]


@pytest.mark.slow
def test_a_process_without_the_package(translator, folder):
    texts = [*NORMAL, *(text for text in HOSTILE if len(text) < 60)]
    script = (
        "import json, sys\n"
        "assert sys.modules['keras_attn'] is None  # as if it were not there\n"
        "import tensorflow as tf\n"
        "details = tf.saved_model.load(sys.argv[1]).signatures['details']\n"
        "outputs = details(text=tf.constant(json.loads(sys.argv[2])))\n"
        "assert not [name for name, module in sys.modules.items() if module\n"
        "            and name.startswith(('keras_hub', 'tensorflow_text'))]\n"
        "def plain(x):\n"
        "    return [plain(i) for i in x] if isinstance(x, list) else x.decode()\n"
        "names = ('translations', 'source_tokens', 'target_tokens')\n"
        "print(json.dumps({n: plain(outputs[n].numpy().tolist()) for n in names}))\n"
    )
    # Hostile texts as JSON in ASCII: no argument of a process can hold a NUL.
    found = answer("alone", script, folder, json.dumps(texts))
    expected = stacked(translator.translate_n_best(texts, R, BEAMS, batch_size=len(texts)))
    for name, values in found.items():
        assert values == expected[name].tolist(), name


# What the graph reads and shows

TEXTS = st.one_of(st.text(max_size=40), st.text(alphabet="a 1.\n\u0301🙂文", max_size=300))


READER = translation_toys.tokenizer().to_graph()


@pytest.mark.slow
@settings(deadline=None, max_examples=20)
@given(st.lists(st.one_of(TEXTS.map(str.encode), st.binary(max_size=300)), min_size=1, max_size=4))
@example([b"x" * 300, "🙂".encode() * 200, b"", b"\xf0\x9f\x99" * 90, b"\xef\xbb\xbf one" * 40])
def test_the_start_of_a_text_has_the_first_ids(texts):
    expected = READER.encode(tf.constant(texts)).to_list()
    for count in (1, 2, 3, 7):
        received = READER.encode_start(tf.constant(texts), count).to_list()
        assert received == [ids[:count] for ids in expected]


def test_as_much_is_read_as_the_longest_pre_tokens_take():
    """64 letters of four bytes and the space before them, all of it one token."""
    word = " " + "\U00010348" * 64
    tokenizer = BytePairTokenizer.train([word * 3], 269)
    text = word * 9 + " a"
    assert len(tokenizer.encode(text)) == 11
    graph = tokenizer.to_graph()
    for count in (1, 8, 9, 10, 12):
        received = graph.encode_start(tf.constant([text]), count).to_list()
        assert received == [tokenizer.encode(text)[:count]]


def test_readable_tokens_in_the_graph():
    texts = ["a b\n\x00\u200d é 🙂 文字 \u0301x"] * 3
    tokenizer = BytePairTokenizer.train(texts, 275)
    ids = np.arange(tokenizer.vocabulary_size).reshape(5, -1)
    graph = tokenizer.to_graph()
    tokens = graph.tokens(tf.constant(ids)).numpy()
    assert [[t.decode("utf-8") for t in row] for row in tokens] == tokenizer.tokens(ids)


# Where it is written


def test_a_folder_that_is_not_empty_is_refused(upper, tmp_path):
    path = upper()
    before = (path / "saved_model.pb").read_bytes()
    with pytest.raises(FileExistsError, match="overwrite=True"):
        upper()
    assert (path / "saved_model.pb").read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["model"]
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "text").write_text("mine")
    (tmp_path / "file").write_text("mine")
    for wrong, message in [
        ("notes", "Only a folder with an export"),
        ("file", "is a file"),
    ]:
        with pytest.raises(FileExistsError, match=message):
            upper(tmp_path / wrong, overwrite=True)
    assert (tmp_path / "notes" / "text").read_text() == (tmp_path / "file").read_text() == "mine"
    with pytest.raises(NotADirectoryError, match="Expected a folder"):
        upper(tmp_path / "file" / "model")
    with pytest.raises(FileExistsError, match="Give a new folder inside it"):
        check_place(Path(path.anchor), overwrite=True)


def test_overwriting(upper, tmp_path):
    path = upper()
    (path / "old").write_text("")
    (tmp_path / "link").symlink_to(path)
    assert upper(tmp_path / "link", overwrite=True).is_symlink()
    assert not (path / "old").exists()
    loaded = tf.saved_model.load(str(path)).signatures["serving_default"]
    assert loaded(text=tf.constant(["é"]))["upper"].numpy().tolist() == ["é".encode()]
    # An empty folder, a new one, and parents that are not there need no permission.
    (tmp_path / "empty").mkdir()
    for name in ("empty", "new/er/model"):
        assert (upper(tmp_path / name) / "saved_model.pb").exists()
    assert not [p for p in tmp_path.rglob("*") if p.name.startswith(".")]


def test_a_failed_export_leaves_what_was_there(upper, tmp_path, monkeypatch):
    path = upper()
    (path / "old").write_text("")
    with pytest.raises(RuntimeError, match=r"`serving_default: upper`.*'Z' at \(1,\)"):
        upper(expected=("A", "Z"), overwrite=True)
    with pytest.raises(RuntimeError, match=r"shape \(3,\)\. Received: shape \(2,\)"):
        upper(expected=("A", "B", "C"), overwrite=True)
    with pytest.raises(KeyboardInterrupt), replaced_folder(path, overwrite=True):
        raise KeyboardInterrupt
    rename = Path.rename

    def no_new_one(self, target):
        if self.name == "new":
            raise OSError("disk")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", no_new_one)
    with pytest.raises(OSError, match="disk"):
        upper(overwrite=True)
    assert (path / "old").exists()
    assert (path / "saved_model.pb").exists()
    assert [p.name for p in tmp_path.iterdir()] == ["model"]


def test_permission_is_asked_before_the_work(translator, tmp_path, monkeypatch):
    def refused(folder):
        raise PermissionError(f"No permission to write to {folder}.")

    def work(*arguments):
        raise AssertionError("It should not get so far.")

    monkeypatch.setattr(export, "check_writable", refused)
    monkeypatch.setattr(translator, "computed", work)
    with pytest.raises(PermissionError, match="No permission"):
        translator.export(tmp_path / "model")


def test_the_child_process_gets_all_arguments(translator, tmp_path, monkeypatch):
    commands = []

    def run(command, **settings):
        commands.append((command, settings["env"]["KERAS_BACKEND"]))
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    translator.export(
        tmp_path / "model", beams=3, alpha=0.5, num_return_sequences=2, overwrite=True
    )
    translator.export(tmp_path / "model", beams=2)
    given_ = [json.loads(command[-1]) for command, _ in commands]
    assert given_ == [
        {"beams": 3, "alpha": 0.5, "num_return_sequences": 2, "overwrite": True},
        {"beams": 2, "overwrite": False},
    ]
    assert commands[0][0][-2] == str(tmp_path / "model")
    assert commands[0][1] == "tensorflow"
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "text").write_text("mine")
    with pytest.raises(FileExistsError):
        translator.export(tmp_path / "model")
    assert len(commands) == 2


@pytest.mark.slow
def test_the_examples_of_every_export_are_hostile_too(translator):
    texts = translator.export_examples()["text"]
    assert {"", " \n\t "} <= set(texts)
    for odd in ("\x00", "\n", "\u200d", "\u0301", "\u05e9", "  ", "\u00a0"):
        assert any(odd in text for text in texts), odd

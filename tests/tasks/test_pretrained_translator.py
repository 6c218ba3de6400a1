"""Translators with the weights of others: Marian's folders, used, trained on and written again."""

import copy
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from keras_attn.interop import read_pretrained
from keras_attn.tasks import TextGenerator, TranslationData, Translator
from keras_attn.tasks.translation import PreparedTranslation

transformers = pytest.importorskip("transformers", reason="transformers is of the extra `test`")

sys.path.append(str(Path(__file__).parents[1] / "interop"))
import marian_toys  # noqa: E402

PAIRS = [(f">>deu<< {source}", target) for source, target in marian_toys.PAIRS]
TRAINING = {"learning_rate": 1e-2, "tokens_per_batch": 128, "label_smoothing": 0.0, "verbose": 0}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("marian")
    marian_toys.translator(place, seed=3)
    return place


@pytest.fixture(scope="module")
def tuned(folder):
    translator = Translator.from_pretrained(folder)
    translator.fit(PAIRS, epochs=12, **TRAINING)
    return translator


@pytest.fixture(scope="module")
def fluent(tuned):
    """What knows the pairs, for the slow tests."""
    translator = copy.deepcopy(tuned)
    translator.fit(PAIRS, epochs=60, **TRAINING)
    return translator


def theirs(folder):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Recommended: pip install sacremoses")
        tokenizer = transformers.MarianTokenizer.from_pretrained(folder)
    return transformers.MarianMTModel.from_pretrained(folder).eval(), tokenizer


@pytest.mark.slow
def test_a_folder_of_others(folder, tuned, tmp_path):
    """It brings its search; what was trained translates in transformers the same."""
    translator = Translator.from_pretrained(folder)
    assert translator.own_use["beams"] == 3 and translator.own_use["forced_last_id"] == 0
    assert not translator.loaded.new and translator.pretrained

    sources = [source for source, _ in PAIRS[::7]]
    written = tuned.translate(sources)
    tuned.save(tmp_path / "tuned.task")
    loaded = Translator.load(tmp_path / "tuned.task")
    assert loaded.own_use == translator.own_use
    assert loaded.translate(sources) == written

    tuned.save_pretrained(tmp_path / "tuned")
    model, tokenizer = theirs(tmp_path / "tuned")
    for source, ours in zip(sources, written, strict=True):
        ids = tokenizer(source, return_tensors="pt")
        most = 2 * ids["input_ids"].shape[1] + 17  # with the start
        found = model.generate(**ids, max_length=most)
        assert tokenizer.decode(found[0], skip_special_tokens=True) == " ".join(ours.split())


@pytest.mark.slow
def test_languages(tuned):
    text = "two small dogs see the lake"
    assert tuned.translate(text, language="deu") == tuned.translate(f">>deu<< {text}")
    assert tuned.translate(["", ">>nld<< "], language="deu") == ["", ""]
    found = tuned.translate_n_best(f">>deu<< {text}", 2)
    assert found.scores[0] >= found.scores[1] and len(found.alignments) == 2
    for wrong in ({"texts": ">>fra<< a"}, {"texts": "a", "language": "fra"}):
        with pytest.raises(ValueError, match=r"'>>fra<<'. It has '>>deu<<', '>>nld<<'"):
            tuned.translate(**wrong)


@pytest.mark.slow
def test_the_end_is_trained(tuned):
    """Its id is 0, which is that of padding elsewhere."""
    loss = tuned.objective(tuned.Training())["loss"]
    assert loss.ignore_id == tuned.config.pad_id == tuned.target_tokenizer.pad_id != 0


@pytest.mark.slow
def test_lora_trains_only_the_attention(folder):
    translator = Translator.from_pretrained(folder)
    before = {w.path: np.array(w) for w in translator.model.weights}
    translator.fit(PAIRS, epochs=1, lora_rank=2, **TRAINING)
    changed = [w.path for w in translator.model.weights if not np.array_equal(before[w.path], w)]
    assert changed and all("attention" in path for path in changed)


@pytest.mark.slow
def test_prepared_pairs_of_a_backbone(folder, tmp_path):
    """The ids are those of the backbone's tokenizers, and training starts from its weights."""
    lines = "\n".join(f"{source}\t{target}" for source, target in PAIRS)
    (tmp_path / "pairs.tsv").write_text(lines, encoding="utf-8")
    sizes = {"train": str(tmp_path / "pairs.tsv"), "dev_size": 2, "test_size": 2}
    settings = TranslationData(backbone=str(folder), **sizes)
    prepared = PreparedTranslation.prepare(settings, tmp_path / "prepared")
    assert all(row[0] == 2 and row[-1] == 0 for row in np.array(prepared.sources, object))
    translator = Translator.create(prepared)
    expected = Translator.from_pretrained(folder)
    sources = [source for source, _ in PAIRS[:2]]
    assert translator.translate(sources) == expected.translate(sources)
    with pytest.raises(ValueError, match="`vocabulary_size` is only used for a new tokenizer"):
        TranslationData(backbone=str(folder), vocabulary_size=300)


@pytest.mark.slow
def test_wrong_folders(folder, tmp_path):
    with pytest.raises(ValueError, match="Expected a decoder"):
        TextGenerator.from_pretrained(folder)
    for name in ("config.json", "model.safetensors", "generation_config.json"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    assert read_pretrained(tmp_path).tokenizer is None
    with pytest.raises(ValueError, match="Expected weights with their tokenizer"):
        Translator.from_pretrained(tmp_path)


@pytest.mark.slow
def test_the_command_takes_a_folder(folder, tuned, tmp_path):
    """What the command's `--model` opens: a folder of others, or a file of a task."""
    expected = Translator.from_pretrained(folder).translate("old", language="deu")
    assert Translator.opened(folder).translate("old", language="deu") == expected
    tuned.save(tmp_path / "tuned.task")
    assert Translator.opened(tmp_path / "tuned.task").own_use == tuned.own_use


@pytest.mark.slow
def test_as_ctranslate2_converts_it(fluent, tmp_path):
    """With the SentencePiece models beside it; the start is of zeros, and sources have the end."""
    ctranslate2 = pytest.importorskip("ctranslate2", reason="ctranslate2 is of the extra `test`")
    fluent.save_pretrained(tmp_path / "marian")
    files = ["source.spm", "target.spm"]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Recommended: pip install sacremoses")
        convert = ctranslate2.converters.TransformersConverter
        convert(str(tmp_path / "marian"), copy_files=files).convert(str(tmp_path / "converted"))
    _, tokenizer = theirs(tmp_path / "marian")
    package = ctranslate2.Translator(str(tmp_path / "converted"), compute_type="float32")
    translator = Translator.from_pretrained(tmp_path / "converted")
    sources = [source for source, _ in PAIRS]
    rows = [tokenizer.convert_ids_to_tokens(tokenizer.encode(source)) for source in sources]
    for beams in (1, 4):
        best = translator.translate_n_best(sources, 1, beams)
        for ours, row in zip(best, rows, strict=True):
            most = 2 * len(row) + 16  # our limit: what doesn't end is cut at the same place
            options = {"beam_size": beams, "return_scores": True, "max_decoding_length": most}
            (their,) = package.translate_batch([row], **options)
            tokens = [token for token in their.hypotheses[0] if not token.startswith(">>")]
            text = tokenizer.decode(tokenizer.convert_tokens_to_ids(tokens))
            assert ours.translations == [text]
            np.testing.assert_allclose(ours.scores, their.scores, atol=1e-5)
    assert len({ours.translations[0] for ours in best}) > 5
    with pytest.raises(ValueError, match=r"'>>fra<<'. It has '>>deu<<', '>>nld<<'"):
        translator.translate("old", language="fra")


@pytest.mark.slow
def test_in_8_bits(fluent, tmp_path):
    """The embeddings that both sides share, too; saved, and written as floats."""
    small = copy.deepcopy(fluent).quantize()
    sources = [source for source, _ in PAIRS]
    written = small.translate(sources)
    plain = fluent.translate(sources)
    assert sum(a == b for a, b in zip(written, plain, strict=True)) > 0.6 * len(PAIRS)
    small.save(tmp_path / "int8.task")
    assert Translator.load(tmp_path / "int8.task").translate(sources) == written


@pytest.mark.slow
def test_a_saved_model(tuned, tmp_path):
    """Strings in and out, two SentencePiece models in one graph, marks of languages."""
    import tensorflow as tf

    tuned.export(tmp_path / "saved", language="deu")
    call = tf.saved_model.load(tmp_path / "saved").signatures["serving_default"]
    texts = ["two small dogs", ">>nld<< old cats see the lake", ""]
    found = call(text=tf.constant(texts))["translation"].numpy()
    assert [text.decode() for text in found] == tuned.translate(texts, language="deu")
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"no language mark.*>>deu<<.*>>nld<<"):
        call(text=tf.constant([">>fra<< old"]))

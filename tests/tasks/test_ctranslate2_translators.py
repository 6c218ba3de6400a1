"""Translators of CTranslate2's folders as tasks: the texts and scores of the package itself."""

import random
import sys
from pathlib import Path

import numpy as np
import pytest

from keras_attn.cli import main
from keras_attn.tasks import Summarizer, TranslationData, Translator
from keras_attn.tasks.translation import PreparedTranslation
from keras_attn.text import SentencePieceTokenizer

ctranslate2 = pytest.importorskip("ctranslate2", reason="ctranslate2 is of the extra `test`")

sys.path.append(str(Path(__file__).parents[1] / "interop"))
from ctranslate2_toys import LETTERS, SPECIAL, folder_of  # noqa: E402

DRAW = random.Random(1)
TEXTS = ["".join(DRAW.choices([*LETTERS, "x"], k=DRAW.randint(1, 9))) for _ in range(30)]
WORDS = ["the dog runs", "a cat sleeps", "the red bird", "a small hound"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """OpenNMT's: each token is a character, and sources have no end."""
    return folder_of(tmp_path_factory.mktemp("opennmt") / "a", layers=(1, 1), rng=3, end=1.0)


@pytest.fixture(scope="module")
def translator(folder):
    return Translator.from_pretrained(folder)


def theirs(folder, rows, beams, count=1):
    package = ctranslate2.Translator(str(folder), device="cpu", compute_type="float32")
    return package.translate_batch(
        rows, beam_size=beams, num_hypotheses=count, return_scores=True, max_decoding_length=60
    )


def compare(found, expected, decode, enough):
    """Results that end within the length that both may have are the same."""
    same = 0
    for ours, their in zip(found, expected, strict=True):
        if not any(ours.truncated):
            assert ours.translations == [*map(decode, their.hypotheses)]
            np.testing.assert_allclose(ours.scores, their.scores, atol=1e-5)
            same += 1
    assert same >= enough


def joined(tokens):
    return "".join(tokens).replace("<unk>", "\ufffd")


@pytest.mark.slow
@pytest.mark.parametrize("beams", [pytest.param(1, marks=pytest.mark.slow), 4])
def test_the_same_texts_and_scores(folder, translator, beams):
    """Its search makes the first token never the end, and computes probabilities without it."""
    count = min(beams, 2)
    found = translator.translate_n_best(TEXTS, count, beams)
    compare(found, theirs(folder, [*map(list, TEXTS)], beams, count), joined, 15)
    assert len({text for best in found for text in best.translations}) > 5
    assert len(found[0].alignments[0].source_tokens) == len(TEXTS[0])


@pytest.mark.slow
def test_sources_without_an_end(translator, tmp_path):
    """Only an empty one has it, in what is read and in what is trained on; saved as well."""
    assert translator.own_use["min_length"] == 2 and translator.own_use["renormalize"]
    translator.save(tmp_path / "a.task")
    loaded = Translator.load(tmp_path / "a.task")
    end = translator.source_tokenizer.end_id
    for task in (translator, loaded):
        ids = task.source_tokenizer.encode("abx")
        assert task.field.encode(["abx", ""])["source_ids"] == [ids, [end]]
        inputs, *_ = task.dataset([("abx", "ha")] * 2)[0]
        assert inputs["source_ids"][:, :4].tolist() == [[*ids, 0]] * 2
    assert loaded.own_use == translator.own_use
    old = translator.learned.to_config()
    assert Translator.from_pretrained(tmp_path / "a.task").learned.to_config() == old
    del old["source_ends"]
    assert Translator.Learned.from_config(old).source_ends


def test_a_folder_of_another_task(folder):
    with pytest.raises(TypeError, match="must be a BytePairTokenizer or a SentencePieceTokenizer"):
        Summarizer.from_pretrained(folder)


@pytest.mark.slow
def test_the_command_and_an_export(folder, translator, tmp_path):
    """The export compares all signatures with the object, with odd texts and an empty one."""
    import tensorflow as tf

    (tmp_path / "texts").write_text("\n".join([*TEXTS[:5], ""]) + "\n")
    with pytest.raises(SystemExit, match=r"^0$"):
        main([
            "translation", "predict", "--model", str(folder), str(tmp_path / "texts"),
            "--to", str(tmp_path / "found"),
        ])  # fmt: skip
    lines = (tmp_path / "found").read_text().split("\n")[:-1]
    assert lines == translator.translate([*TEXTS[:5], ""])
    translator.export(tmp_path / "saved", beams=4)
    served = tf.saved_model.load(tmp_path / "saved").signatures["details"]
    found = served(text=tf.constant(TEXTS))
    expected = theirs(folder, [*map(list, TEXTS)], 4, 4)
    for i, their in enumerate(expected):
        if not found["truncated"][i].numpy().any():
            texts = [text.decode() for text in found["translations"][i].numpy()]
            assert texts == [*map(joined, their.hypotheses)]
            np.testing.assert_allclose(found["scores"][i], their.scores, atol=1e-5)


@pytest.mark.slow
def test_trained_further_and_in_8_bits(folder, tmp_path):
    """From prepared pairs, whose sources have no end; then quantized and saved."""
    pairs = [(text, text[::-1]) for text in dict.fromkeys(TEXTS)]
    (tmp_path / "pairs.tsv").write_text("\n".join(map("\t".join, pairs)) + "\n")
    sizes = {"train": str(tmp_path / "pairs.tsv"), "dev_size": 2, "test_size": 2}
    settings = TranslationData(backbone=str(folder), **sizes)
    prepared = PreparedTranslation.prepare(settings, tmp_path / "prepared")
    translator = Translator.create(prepared)
    end = translator.source_tokenizer.end_id
    assert not any(end in row for row in prepared.sources)
    assert prepared.source_tokenizer.get_config() == translator.source_tokenizer.get_config()
    training = {"learning_rate": 1e-2, "tokens_per_batch": 128, "verbose": 0}
    run = translator.fit(prepared, epochs=4, **training)
    assert run.history["loss"][-1] < run.history["loss"][0]
    plain = translator.score_targets(pairs)
    small = translator.quantize()
    scores = small.score_targets(pairs)
    difference = [abs(a.score - b.score) for a, b in zip(plain, scores, strict=True)]
    assert 0 < max(difference) < 0.2
    written = small.translate(TEXTS)
    small.save(tmp_path / "int8.task")
    assert Translator.load(tmp_path / "int8.task").translate(TEXTS) == written


@pytest.mark.slow
def test_a_package_of_argos(tmp_path):
    """One SentencePiece model beside the folder of both sides."""
    import sentencepiece

    model = SentencePieceTokenizer.train(WORDS * 9, 60, byte_fallback=False, allow_fewer=True).model
    pieces = [piece for piece in SentencePieceTokenizer(model).vocabulary if piece[0] != "<"]
    (tmp_path / "argos").mkdir()
    folder = folder_of(
        tmp_path / "argos" / "model", [*SPECIAL[1:], *pieces], [*SPECIAL[1:], *pieces],
        layers=(1, 1), end=3.0,
    )  # fmt: skip
    (tmp_path / "argos" / "sentencepiece.model").write_bytes(model)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    texts = [" ".join(DRAW.choices(" ".join(WORDS).split(), k=DRAW.randint(1, 6))) for _ in TEXTS]
    translator = Translator.from_pretrained(tmp_path / "argos")
    found = translator.translate_n_best(texts, 2, beams=4)
    expected = theirs(folder, [processor.encode(text, out_type=str) for text in texts], 4, 2)
    for their in expected:
        assert not any("<unk>" in tokens for tokens in their.hypotheses)
    compare(found, expected, processor.decode_pieces, 15)

"""Special tokens that are written in training texts: text by default, tokens by a setting."""

import warnings

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers
from tracing import eagerly
from translation_toys import PAIRS, write_pairs

from keras_attn.tasks import (
    PreparedTranslation,
    PretrainingData,
    TextClassifier,
    TextGenerationData,
    TextGenerator,
    TranslationData,
)
from keras_attn.tasks.pretraining import prepare
from keras_attn.text import BytePairTokenizer, CharacterTokenizer

QUICK = {"epochs": 1, "batch_size": 4, "verbose": 0}
SMALL = {"units": 4, "dim": 4, "num_layers": 1}
TEXT = "to be</s>or not<|endoftext|>to be<unk>" * 4


@pytest.fixture(autouse=True)
def _eagerly():
    with eagerly():
        yield


def test_ends_of_texts_from_scratch(tmp_path):
    """Ids by hand: the characters by frequency, and 2 for both kinds of ends."""
    data = {"special_tokens": True, "sequence_length": 8}
    generator = TextGenerator.create(TEXT, data=data, model=SMALL)
    characters = generator.tokenizer.vocabulary[4:]
    assert "|" not in characters and "/" not in characters and "<" in characters  # of <unk>
    ids_of = {c: i for i, c in enumerate(characters, start=4)}
    joined = "to be\x02or not\x02to be<unk>" * 4
    expected = [2 if c == "\x02" else ids_of[c] for c in joined]
    assert generator.reader.encode(TEXT).tolist() == expected
    assert generator.dataset(TEXT, shuffle=False)[0][1][:11].ravel().tolist() == expected[:88]
    assert generator.ends and generator.writer.rules(True)["suppressed_ids"] == [0, 1, 3]
    # Each end counts as a character.
    assert generator.evaluate(TEXT).characters == len(expected)
    generator.save(tmp_path / "a.task")
    again = TextGenerator.load(tmp_path / "a.task")
    assert again.special_tokens and again.ends
    assert again.reader.encode(TEXT).tolist() == expected
    # Prompts are text.
    assert again.generate("</s>", 3).startswith("</s>")


def test_text_is_text_by_default():
    generator = TextGenerator.create(TEXT, data={"sequence_length": 8}, model=SMALL)
    assert not generator.ends
    assert generator.reader.encode(TEXT).tolist() == generator.tokenizer.encode(TEXT)
    assert generator.evaluate(TEXT).characters == len(TEXT)
    # Without an end in the text, the setting changes nothing.
    plain = TextGenerator.create(
        "to be", data={"sequence_length": 4, "special_tokens": True}, model=SMALL
    )
    assert not plain.ends


@pytest.mark.slow
def test_they_are_counted_in_training():
    generator = TextGenerator.create(TEXT, data={"sequence_length": 8}, model=SMALL)
    counts = r"`</s>` 4 times, `<unk>` 4 times, `<\|endoftext\|>` 4 times.*--special-tokens"
    with pytest.warns(UserWarning, match=f"are read as text: {counts}"):
        generator.fit(TEXT, **QUICK)
    said = []
    data = {"special_tokens": True, "sequence_length": 8}
    generator = TextGenerator.create(TEXT, data=data, model=SMALL)
    with pytest.warns(UserWarning, match="are read as text: `<unk>` 4 times") as warned:
        generator.fit(TEXT, log=said.append, **QUICK)
    assert "endoftext" not in str(warned[0].message)
    assert "read as tokens: `</s>` 4 times, `<|endoftext|>` 4 times." in said[0]


def gpt2_like():
    """A tokenizer whose padding, start and end are one token, as in GPT-2."""
    plain = BytePairTokenizer.train([TEXT], 262, normalize=False, pattern="gpt2")
    end = "<|endoftext|>"
    return BytePairTokenizer(
        [*plain.vocabulary[3:], end], plain.merges, False, "gpt2", special_tokens=[end] * 3
    )


def test_the_tokens_of_a_tokenizer_are_those_of_the_library():
    tokenizer = gpt2_like()
    ids_of = {token: i for i, token in enumerate(tokenizer.vocabulary)}
    engine = Tokenizer(models.BPE(ids_of, [*map(tuple, tokenizer.merges)]))
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    engine.add_special_tokens(["<|endoftext|>"])
    generator = TextGenerator(
        tokenizer, ends=True, model=SMALL, data={"sequence_length": 8, "special_tokens": True}
    )
    for text in (
        TEXT, "<|endoftext|>", "", "a\n<|endoftext|> to be <|endoftext|><|endoftext|>\n\nor",
        "</s> <|endoftext| > <|endoftext|>\u00e9",
    ):  # fmt: skip
        assert generator.reader.encode(text).tolist() == engine.encode(text).ids
    assert generator.reader.encode("</s>").tolist() == tokenizer.encode("</s>")


@pytest.mark.slow
def test_a_start_takes_the_setting(tmp_path):
    """Going on with a model, and it learns of ends if the text has some."""
    first = TextGenerator(
        CharacterTokenizer.train(["to be</s>r<|dxtunk>"]), model=SMALL, data={"sequence_length": 8}
    )
    first.save(tmp_path / "first.task")
    data = {"backbone": str(tmp_path / "first.task"), "special_tokens": True}
    assert TextGenerator.create(TEXT, data=data).ends
    assert not TextGenerator.create("to be", data=data).ends
    assert not TextGenerator.create(TEXT, data={**data, "special_tokens": False}).ends
    assert TextGenerationData().special_tokens is False


@pytest.mark.slow
def test_other_tasks_say_it_too(tmp_path):
    texts = [("good [SEP] film", "a"), ("bad film", "b")] * 4
    classifier = TextClassifier.create(
        texts, data={"max_length": 8}, model={"model": "transformer", "dim": 8}
    )
    with pytest.warns(UserWarning, match=r"read as text: `\[SEP\]` 4 times. If they are not meant"):
        classifier.fit(texts, epochs=1, verbose=0)
    pairs = [*PAIRS, ("one <s> two", "eins zwei </s>")]
    settings = TranslationData(
        train=write_pairs(tmp_path / "a.tsv", pairs), dev_size=5, test_size=5, split_seed=1
    )
    with pytest.warns(UserWarning, match="`</s>` once, `<s>` once"):
        PreparedTranslation.prepare(settings, tmp_path / "data")


def test_a_mask_is_a_mask_in_pretraining(tmp_path):
    lines = [f"the dog {i} barks [SEP] loudly\nit [MASK] runs\n\n" for i in "abcdefghijkl"]
    (tmp_path / "a.txt").write_text("".join(lines))
    said = []
    settings = PretrainingData(text=str(tmp_path / "a.txt"), dev_share=0.3, max_length=16)
    with pytest.warns(UserWarning, match=r"read as text: `\[SEP\]` 12 times\. If"):
        prepare(settings, tmp_path / "data", said.append)
    assert any("read as tokens: `[MASK]` 12 times." in line for line in said)


@pytest.mark.slow
def test_texts_without_them_are_silent():
    generator = TextGenerator.create("to be or not to be", data={"sequence_length": 4}, model=SMALL)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="Special tokens")
        generator.fit("to be or not to be", **QUICK)

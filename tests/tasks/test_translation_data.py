"""Prepared data: what is in the folder, and that it is there or not."""

import json
import os

import numpy as np
import pytest
from translation_toys import PAIRS, write_pairs

from keras_attn.batches import TokenBatches
from keras_attn.folder_headers import write_header
from keras_attn.tasks import (
    PreparedTranslation,
    TranslationData,
    TranslationTraining,
    Translator,
)
from keras_attn.text import SentencePieceTokenizer

SMALL = {"dev_size": 5, "test_size": 7, "vocabulary_size": 300, "max_length": 64}


@pytest.fixture
def pairs(tmp_path):
    return write_pairs(tmp_path / "pairs.tsv")


@pytest.mark.slow
def test_what_is_prepared_is_loaded(tmp_path, pairs):
    said = []
    settings = TranslationData(train=pairs, **SMALL)
    data = PreparedTranslation.prepare(settings, tmp_path / "data", said.append)
    assert data.settings == settings
    assert data.counts == {"train": 88, "dev": 5, "test": 7, "like_dev_or_test": 0, "too_long": 0}
    assert any("88" in line for line in said)
    tokenizer = data.source_tokenizer
    assert data.target_tokenizer is tokenizer
    # Each pair is in one place.
    trained = {
        (tokenizer.decode(s[:-1]), tokenizer.decode(t))
        for s, t in zip(data.sources, data.targets, strict=True)
    }
    assert all(row[-1] == tokenizer.end_id for row in data.sources)
    held = {(pair.source, pair.target) for pair in [*data.dev, *data.test]}
    assert trained | held == set(PAIRS)
    assert not trained & held
    again = PreparedTranslation.prepare(settings, tmp_path / "again")
    assert again.fingerprint == data.fingerprint
    other = TranslationData(train=pairs, **{**SMALL, "split_seed": 1})
    assert PreparedTranslation.prepare(other, tmp_path / "c").fingerprint != data.fingerprint
    translator = Translator.create(data, model={"dim": 8, "num_heads": 2})
    training = TranslationTraining(tokens_per_batch=128)
    batches = translator.batches(data, training)
    assert isinstance(batches, TokenBatches)
    assert batches.num_examples == 88
    assert translator.batches(data.dev, training, shuffle=False).num_examples == 5


@pytest.mark.parametrize("separate", [False, True])
def test_small_data_give_fewer_byte_pairs(tmp_path, pairs, separate):
    """The usual size is the largest one."""
    more = {"dev_size": 5, "test_size": 7, "separate_vocabularies": separate}
    said = []
    settings = TranslationData(train=pairs, **more)
    data = PreparedTranslation.prepare(settings, tmp_path / "data", said.append)
    sizes = [t.vocabulary_size for t in (data.source_tokenizer, data.target_tokenizer)]
    assert all(259 < size < 400 for size in sizes)
    assert said[-1].startswith(f"{sizes[0]} and {sizes[1]}" if separate else f"{sizes[0]} diff")


def test_given_sets_and_two_vocabularies(tmp_path, pairs):
    dev = write_pairs(
        tmp_path / "dev.tsv", [("The ONE, and two!", "die eins und zwei"), ("a", "b")]
    )
    test = write_pairs(tmp_path / "test.tsv", [("the three and four", "xyz"), ("c d", "e f")])
    settings = TranslationData(
        train=pairs, dev=dev, test=test, separate_vocabularies=True, vocabulary_size=290
    )
    data = PreparedTranslation.prepare(settings, tmp_path / "data")
    assert data.counts["like_dev_or_test"] == 2
    assert len(data.sources) == 98
    assert [tuple(pair[:2]) for pair in data.test] == [
        ("the three and four", "xyz"),
        ("c d", "e f"),
    ]
    assert data.source_tokenizer.encode("the") != data.target_tokenizer.encode("the")
    only_test = PreparedTranslation.prepare(
        TranslationData(train=pairs, test=test, **SMALL), tmp_path / "only_test"
    )
    assert [only_test.counts[k] for k in ("train", "dev", "test")] == [94, 5, 2]


def test_a_folder_of_languages(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    for split, pairs in [
        ("train", PAIRS),
        ("val", [("a b", "c d")]),
        ("test_2016_flickr", [("e", "f")]),
    ]:
        for i, language in enumerate(["en", "de"]):
            text = "".join(pair[i] + "\n" for pair in pairs)
            (folder / f"{split}.{language}").write_text(text, encoding="utf-8")
    settings = TranslationData(train=str(folder), source="en", target="de", vocabulary_size=300)
    data = PreparedTranslation.prepare(settings, tmp_path / "data")
    assert data.counts == {"train": 100, "dev": 1, "test": 1, "like_dev_or_test": 0, "too_long": 0}
    assert data.dev[0][:2] == ("a b", "c d")


def test_columns_by_number_and_json_by_key(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{t}\tx\t{s}\n" for s, t in PAIRS), encoding="utf-8")
    settings = TranslationData(train=str(path), source="2", target="0", **SMALL)
    data = PreparedTranslation.prepare(settings, tmp_path / "data")
    lines = [json.dumps({"english": s, "deutsch": t}) for s, t in PAIRS]
    (tmp_path / "pairs.jsonl").write_text("\n".join(lines))
    settings = TranslationData(
        train=str(tmp_path / "pairs.jsonl"), source="english", target="deutsch", **SMALL
    )
    other = PreparedTranslation.prepare(settings, tmp_path / "other")
    assert other.fingerprint == data.fingerprint


def test_a_failure_leaves_nothing(tmp_path, pairs, monkeypatch):
    bad = tmp_path / "bad.tsv"
    bad.write_text("one\teins\ntwo\nthree\tdrei\n")
    with pytest.raises(ValueError, match=r"line 2"):
        PreparedTranslation.prepare(TranslationData(train=str(bad), **SMALL), tmp_path / "data")
    with pytest.raises(ValueError, match="Expected `train`"):
        PreparedTranslation.prepare(TranslationData(), tmp_path / "data")

    def no_space(*args, **arrays):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", no_space)
    with pytest.raises(OSError, match="No space"):
        PreparedTranslation.prepare(TranslationData(train=pairs, **SMALL), tmp_path / "data")
    assert sorted(os.listdir(tmp_path)) == ["bad.tsv", "pairs.tsv"]


def test_folders_that_are_there_or_are_not(tmp_path, pairs):
    settings = TranslationData(train=pairs, **SMALL)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("x")
    with pytest.raises(FileExistsError, match="Give another folder"):
        PreparedTranslation.prepare(settings, tmp_path / "mine")
    with pytest.raises(FileNotFoundError, match="keras-attn translation prepare"):
        PreparedTranslation.load(tmp_path / "mine")
    (tmp_path / "empty").mkdir()
    PreparedTranslation.prepare(settings, tmp_path / "empty")
    header = json.loads((tmp_path / "empty" / "prepared.json").read_text())
    header["format_version"] += 1
    (tmp_path / "empty" / "prepared.json").write_text(json.dumps(header))
    with pytest.raises(ValueError, match="Install a newer keras_attn"):
        PreparedTranslation.load(tmp_path / "empty")


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("source_ids", lambda x: x + 300, "the id .* for a vocabulary of"),
        ("target_ids", lambda x: -x, "the id -.* at place 0, for a vocabulary of"),
        ("target_ids", lambda x: x[:-1], "the lengths of the target rows are not those of its ids"),
        ("source_lengths", lambda x: np.concatenate([-x[:1], x[1:]]), "the lengths of"),
        (
            "target_lengths",
            lambda x: np.array([-1, x[0] + x[1] + 1, *x[2:]], "int32"),
            "lengths of",
        ),
        ("source_lengths", lambda x: np.append(x, 0).astype("int32"), "sources and .* targets"),
        ("source_ids", lambda x: x.astype("float32"), "no lists of int32"),
    ],
)
def test_ids_that_lie(tmp_path, pairs, name, change, message):
    """Ids are checked even where the checksums are right."""
    folder = tmp_path / "data"
    PreparedTranslation.prepare(TranslationData(train=pairs, **SMALL), folder)
    header = json.loads((folder / "prepared.json").read_text())
    with np.load(folder / "train.npz", allow_pickle=False) as arrays:
        arrays = dict(arrays)
    np.savez(folder / "train.npz", **{**arrays, name: change(arrays[name])})
    named = {entry: header[entry] for entry in ("fingerprint", "counts")}
    with pytest.raises(ValueError, match=r"train\.npz.*its checksum is another"):
        PreparedTranslation.load(folder)
    write_header(folder / "prepared.json", header["format_version"], files=True, **named)
    with pytest.raises(ValueError, match=rf"train\.npz.*{message}"):
        PreparedTranslation.load(folder)


def test_older_folders_are_made_again(tmp_path, pairs):
    folder = tmp_path / "data"
    PreparedTranslation.prepare(TranslationData(train=pairs, **SMALL), folder)
    header = {"format_version": 1, "keras_attn": "0.1.0", "fingerprint": "a", "counts": {}}
    (folder / "prepared.json").write_text(json.dumps(header))
    with pytest.raises(ValueError, match=r"format version 2\..*version 1.* Prepare the data again"):
        PreparedTranslation.load(folder)


def test_pairs_that_are_too_long_are_counted(tmp_path, pairs):
    long = write_pairs(tmp_path / "long.tsv", [*PAIRS, ("one " * 80, "eins")])
    data = PreparedTranslation.prepare(TranslationData(train=long, **SMALL), tmp_path / "data")
    assert data.counts["too_long"] + len(data.sources) + 12 == 101
    settings = TranslationData(train=pairs, **{**SMALL, "max_length": 2})
    with pytest.raises(ValueError, match="`max_length`=2 tokens"):
        PreparedTranslation.prepare(settings, tmp_path / "none")


@pytest.mark.parametrize("separate", [False, True])
def test_vocabularies_that_are_learned(separate):
    """One of both sides, or one of each."""
    pairs = [("one dog", "ein Hund"), ("one cat", "eine Katze")] * 3
    data = Translator.Data(vocabulary_size=264, separate_vocabularies=separate)
    learned = Translator.learn(pairs, data)
    assert (learned.target_tokenizer is None) == (not separate)
    if separate:
        assert learned.target_tokenizer.get_config() != learned.tokenizer.get_config()


@pytest.mark.slow
def test_sentence_pieces(tmp_path, pairs):
    settings = TranslationData(train=pairs, tokenizer="sentence_piece", **SMALL)
    data = PreparedTranslation.prepare(settings, tmp_path / "data")
    again = PreparedTranslation.load(tmp_path / "data")
    tokenizer = again.source_tokenizer
    assert isinstance(tokenizer, SentencePieceTokenizer) and again.target_tokenizer is tokenizer
    assert [list(row) for row in again.sources] == [list(row) for row in data.sources]
    translator = Translator(tokenizer, model={"dim": 8, "num_layers": 1, "num_heads": 1})
    translator.save(tmp_path / "task")
    translator = Translator.load(tmp_path / "task")
    assert translator.source_tokenizer.get_config() == tokenizer.get_config()
    assert translator.exported_with() == ("tensorflow", "tensorflow_text")
    alignment = translator.align(again.test[0].source, again.test[0].target)
    assert len(alignment.source_tokens) == alignment.weights.shape[1]

"""Texts made into ids for pretraining: what is held out, the vocabulary, ids in files."""

import dataclasses
import json
import os
import shutil

import numpy as np
import pytest
from pretraining_toys import documents

from keras_attn.batches import open_shards, sentence_ids
from keras_attn.batches.sentence_ids import load_prepared
from keras_attn.records.documents import Documents
from keras_attn.tasks import pretraining
from keras_attn.tasks.pretraining import PretrainingData, prepare, read_sentences

SETTINGS = {"vocabulary_size": 200, "dev_share": 0.3}


def unique(count, seed=0):
    """Documents that differ: each has a number."""
    return [[f"number {i}", *rows] for i, rows in enumerate(documents(count, seed))]


def write(path, some):
    path.write_text("\n\n".join("\n".join(document) for document in some) + "\n")
    return str(path)


def texts_of(ids):
    """The sentences of each document, by decoding."""
    found = []
    for shard in ids.shards:
        rows = [
            ids.tokenizer.decode(shard.ids[a:b].tolist())
            for a, b in zip(shard.sentences, shard.sentences[1:], strict=False)
        ]
        found += [rows[a:b] for a, b in zip(shard.documents, shard.documents[1:], strict=False)]
    return found


@pytest.mark.slow
def test_each_document_is_on_one_side(tmp_path):
    some = unique(200)
    settings = PretrainingData(text=write(tmp_path / "a.txt", some + some[:20]), **SETTINGS)
    train, dev = map(texts_of, read_sentences(settings))
    assert sorted(train + dev) == sorted(some + some[:20])
    assert not {*map(tuple, train)} & {*map(tuple, dev)}
    assert 0.2 < len(dev) / 220 < 0.4
    # The order of the file is kept, and the seed decides.
    assert train == [rows for rows in some + some[:20] if rows in train]
    other = PretrainingData(text=settings.text, split_seed=1, **SETTINGS)
    assert texts_of(read_sentences(other)[1]) != dev
    # A document stays on its side when others come.
    more = PretrainingData(text=write(tmp_path / "b.txt", some + unique(9, 5)), **SETTINGS)
    assert all(rows in texts_of(read_sentences(more)[1]) for rows in dev)


def test_a_held_out_file(tmp_path):
    text, dev = write(tmp_path / "a.txt", unique(9)), write(tmp_path / "b.txt", unique(4, seed=1))
    train, held_out = read_sentences(PretrainingData(text=text, dev=dev, **SETTINGS))
    assert (texts_of(train), texts_of(held_out)) == (unique(9), unique(4, seed=1))


def test_the_vocabulary_is_that_of_the_training_documents(tmp_path, monkeypatch):
    text = write(tmp_path / "a.txt", [["abc abc", "abc"], ["abc", "abc"]])
    dev = write(tmp_path / "b.txt", [["xyz xyz", "xyz"], ["xyz", "xyz"]])
    settings = PretrainingData(text=text, dev=dev, vocabulary_size=50)
    train, held_out = read_sentences(settings)
    assert "abc" in train.tokenizer.vocabulary
    assert not {*"xyz"} & {*"".join(train.tokenizer.vocabulary)}
    assert (np.asarray(held_out.shards[0].ids) == train.tokenizer.unknown_id).all()
    assert train.tokenizer.encode("[MASK]") == [train.tokenizer.mask_id]
    # It is made from the beginning of the text.
    write(tmp_path / "a.txt", [["abc abc", "abc"], ["klm", "klm"]])
    monkeypatch.setattr(pretraining, "_VOCABULARY_CHARACTERS", 5)
    assert not {*"klm"} & {*"".join(read_sentences(settings)[0].tokenizer.vocabulary)}


def test_prepared_ids_are_those_in_memory(tmp_path, monkeypatch):
    settings = PretrainingData(text=write(tmp_path / "a.txt", unique(60)), **SETTINGS)
    monkeypatch.setattr(sentence_ids, "_AT_A_TIME", 7)
    lines = []
    prepare(settings, tmp_path / "ids", lines.append)
    prepared = load_prepared(tmp_path / "ids")
    monkeypatch.undo()
    for ours, theirs in zip(prepared, read_sentences(settings), strict=True):
        assert ours.fingerprint == theirs.fingerprint
        assert ours.tokenizer.get_config() == theirs.tokenizer.get_config()
        assert texts_of(ours) == texts_of(theirs)
        assert isinstance(ours.shards[0].ids, np.memmap)
        assert any(ours.summary() in line for line in lines)
    with pytest.raises(FileExistsError):
        prepare(settings, tmp_path / "ids", lines.append)
    header = tmp_path / "ids/prepared.json"
    values = json.loads(header.read_text())
    header.write_text(json.dumps({**values, "format_version": 99}))
    with pytest.raises(ValueError, match="99"):
        load_prepared(tmp_path / "ids")
    header.write_text("{}")
    with pytest.raises(ValueError, match=r"a prepared\.json of another kind"):
        load_prepared(tmp_path / "ids")
    with pytest.raises(FileNotFoundError, match="pretraining prepare"):
        load_prepared(tmp_path)


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    """Three shards of texts in files of both kinds, and what they are made of."""
    folder = tmp_path_factory.mktemp("shards")
    some = unique(40)
    (folder / "texts").mkdir()
    write(folder / "texts/a.txt", some[:25])
    write(folder / "texts/b.txt", some[25:26])
    rows = [json.dumps({"text": " ".join(f"{x}." for x in rows)}) + "\n\n" for rows in some[26:]]
    (folder / "texts/c.jsonl").write_text("".join(rows))
    settings = PretrainingData(text=str(folder / "texts"), **SETTINGS)
    for number in range(3):
        part = dataclasses.replace(settings, shard=f"{number}/3")
        prepare(part, folder / "ids", lambda line: None)
    return folder, settings


def test_shards_are_the_whole(shards):
    folder, settings = shards
    given = list(Documents(settings.text))
    ordered = [document for number in range(3) for document in given[number::3]]
    merged = load_prepared(folder / "ids")
    for side, whole in zip(merged, read_sentences(settings), strict=True):
        expected = texts_of(whole)
        assert texts_of(side) == [d for d in texts_of_text(whole, ordered) if d in expected]
        assert sorted(texts_of(side)) == sorted(expected)
        assert side.tokenizer.get_config() == whole.tokenizer.get_config()
        assert all(isinstance(shard.ids, np.memmap) for shard in side.shards)
    prepared = PretrainingData(prepared=str(folder / "ids"), **SETTINGS)
    assert read_sentences(prepared)[0].fingerprint == merged[0].fingerprint


def texts_of_text(ids, some):
    """Documents as `texts_of` returns them."""
    return texts_of(ids.encoded(some, ids.tokenizer))


@pytest.mark.slow
def test_shards_that_are_missing_doubled_or_others(shards, tmp_path):
    folder, settings = shards
    ids = tmp_path / "ids"
    shutil.copytree(folder / "ids", ids)
    shutil.copytree(ids / "shard-1-of-3", ids / "shard-1 copy")
    with pytest.raises(ValueError, match="shard 1/3 twice, in shard-1 copy and shard-1-of-3"):
        load_prepared(ids)
    shutil.rmtree(ids / "shard-1 copy")
    shutil.rmtree(ids / "shard-1-of-3")
    with pytest.raises(ValueError, match=r"all 3 shards.*none for 1/3"):
        load_prepared(ids)
    with pytest.raises(ValueError, match=r"all 3 shards.*none for 1/3, 2/3"):
        load_prepared(ids / "shard-0-of-3")
    other = dataclasses.replace(settings, shard="1/3", vocabulary_size=90)
    prepare(other, ids, lambda line: None)
    with pytest.raises(ValueError, match=r"shard-1-of-3, one of 3.*with another vocabulary"):
        load_prepared(ids)
    prepare(dataclasses.replace(settings, shard="1/2"), ids, lambda line: None)
    with pytest.raises(ValueError, match=r"shard-1-of-2, one of 2 shards, and .*, one of 3"):
        load_prepared(ids)
    with pytest.raises(FileExistsError):
        prepare(other, ids, lambda line: None)


@pytest.mark.parametrize("shard", ["3/3", "1", "a/2", "-1/2", "0/0"])
@pytest.mark.slow
def test_what_is_no_shard(shard):
    with pytest.raises(ValueError, match="`shard` must be a number"):
        PretrainingData(text="a", shard=shard)


def test_damaged_ids(tmp_path):
    settings = PretrainingData(text=write(tmp_path / "a.txt", unique(60)), **SETTINGS)
    prepare(settings, tmp_path / "ids", lambda line: None)
    path = tmp_path / "ids/train/00000.sentences.npy"
    whole = path.read_bytes()
    os.truncate(path, len(whole) // 2)
    with pytest.raises(ValueError, match=r"00000\.sentences\.npy"):
        load_prepared(tmp_path / "ids")
    path.write_bytes((tmp_path / "ids/dev/00000.sentences.npy").read_bytes())
    with pytest.raises(ValueError, match=r"00000\.sentences\.npy.*its checksum is another"):
        load_prepared(tmp_path / "ids")
    with pytest.raises(ValueError, match="files that belong to the same shard"):
        open_shards(tmp_path / "ids/train")
    path.unlink()
    with pytest.raises(FileNotFoundError):
        load_prepared(tmp_path / "ids")


def test_nothing_stays_of_what_cannot_be_prepared(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"Good.\nGood.\n\nBad \xff.\n")
    with pytest.raises(ValueError, match=r"a\.txt.*line 4"):
        prepare(PretrainingData(text=str(path)), tmp_path / "ids", lambda line: None)
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]
    lines = []
    settings = PretrainingData(
        text=str(path), dev=write(tmp_path / "b.txt", unique(3)), on_error="skip",
        next_sentence=False,
    )  # fmt: skip
    prepare(settings, tmp_path / "ids", lines.append)
    assert "1 bad lines were left out" in lines

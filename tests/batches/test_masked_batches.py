"""Masked words and pairs of sentences: what is drawn, what is read once, what goes on exactly."""

import numpy as np
import pytest

from keras_attn.batches import MaskedBatches, ShardWriter, make_shard, open_shards
from keras_attn.batches.masked_batches import _exchanged, by_blocks
from keras_attn.batches.masking import draw_masks
from keras_attn.batches.text_chunks import chunk_sentences
from keras_attn.text import WordPieceTokenizer

WORDS = [chr(97 + i) * 2 for i in range(20)]
TOKENIZER = WordPieceTokenizer(
    ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *(f"##{w}" for w in WORDS)]
)
MASK, FIRST, V = 4, 5, 45


def corpus(documents=40, seed=0, most=6):
    """Documents whose ids tell them apart: the sentence s of document d begins with a pair (d, s).

    Each token is drawn; ids 5 to 44.
    """
    rng = np.random.default_rng(seed)
    return [
        [rng.integers(FIRST, V, rng.integers(2, 9)).tolist() for _ in range(rng.integers(2, most))]
        for _ in range(documents)
    ]


def flat(rows):
    return [i for row in rows for i in row]


def unmasked(inputs, labels, weights):
    """The rows as they were before masks were drawn."""
    ids = inputs["token_ids"].copy()
    rows, columns = np.nonzero(weights["masked_words"])
    places = inputs["masked_positions"][rows, columns]
    ids[rows, places] = labels["masked_words"][rows, columns]
    return ids


def parts(row, segments):
    """The ids of both parts of a row."""
    row, segments = row.tolist(), segments.tolist()
    ends = [i for i, token in enumerate(row) if token == 3]
    assert row[0] == 2 and len(ends) == 2
    assert segments[: ends[0] + 1] == [0] * (ends[0] + 1)
    assert segments[ends[0] + 1 : ends[1] + 1] == [1] * (ends[1] - ends[0])
    assert not any(row[ends[1] + 1 :])
    return row[1 : ends[0]], row[ends[0] + 1 : ends[1]]


def rows_of(batches):
    """Both parts and the label of every real row of an epoch."""
    for i in range(len(batches)):
        inputs, labels, weights = batches[i]
        ids = unmasked(inputs, labels, weights)
        assert (inputs["padding_mask"] == (ids != 0)).all()
        real = np.flatnonzero(weights["next_sentence"])
        for row in real:
            label = int(labels["next_sentence"][row])
            yield *parts(ids[row], inputs["segment_ids"][row]), label


def test_labels_are_true():
    """A second part follows the first, or is the end of another document's chunk."""
    documents = corpus()
    batches = MaskedBatches([make_shard(documents)], TOKENIZER, max_length=24, batch_size=8)
    # All ways to cut a document into two neighbouring runs of whole sentences; and all runs.
    neighbours, runs = set(), set()
    for rows in documents:
        for i in range(len(rows)):
            for j in range(i + 1, len(rows) + 1):
                runs.add(tuple(flat(rows[i:j])))
                for k in range(j + 1, len(rows) + 1):
                    neighbours.add((tuple(flat(rows[i:j])), tuple(flat(rows[j:k]))))
    found = list(rows_of(batches))
    assert len(found) == batches.num_examples
    for first, second, label in found:
        assert ((tuple(first), tuple(second)) in neighbours) == (label == 0)
        assert tuple(first) in runs and tuple(second) in runs
    assert 0.4 < np.mean([label for *_, label in found]) <= 0.5


def test_lengths_do_not_tell_what_follows():
    """The label that is commonest for a length is no better than chance in other epochs."""
    shard = make_shard(corpus(900, most=12))
    batches = MaskedBatches([shard], TOKENIZER, max_length=48, batch_size=32, multiple=16)
    epochs = []
    for epoch in range(4):
        batches.set_epoch(epoch)
        rows = [(len(a) + len(b), len(b), label) for a, b, label in rows_of(batches)]
        epochs.append(np.array(rows))
    known, other = np.concatenate(epochs[:2]), np.concatenate(epochs[2:])
    for column in (0, 1):
        apart = np.bincount(known[:, column], 2 * known[:, 2] - 1, minlength=60) > 0
        right = apart[other[:, column]] == other[:, 2]
        assert right.mean() < 0.58


def test_without_pairs_all_is_read():
    documents = corpus()
    batches = MaskedBatches(
        [make_shard(documents)], TOKENIZER, max_length=24, batch_size=8, next_sentence=False
    )
    counts = np.zeros(V)
    for i in range(len(batches)):
        inputs, labels, weights = batches[i]
        assert not inputs["segment_ids"].any() and set(labels) == {"masked_words"}
        ids = unmasked(inputs, labels, weights)[weights["masked_words"].any(axis=1)]
        counts += np.bincount(ids.ravel(), minlength=V)
    whole = np.bincount(flat(map(flat, documents)), minlength=V)
    assert counts[FIRST:].tolist() == whole[FIRST:].tolist()
    assert batches.left_out == 0


def test_shares_of_masks():
    """15 % of the tokens; of these 80 % masks, 10 % random tokens, 10 % as they were."""
    rng = np.random.default_rng(1)
    documents = [[rng.integers(FIRST, V, 9).tolist() for _ in range(400)] for _ in range(12)]
    batches = MaskedBatches([make_shard(documents)], TOKENIZER, max_length=128, batch_size=32)
    picked = masked = kept = 0
    for i in range(len(batches)):
        inputs, labels, weights = batches[i]
        rows, columns = np.nonzero(weights["masked_words"])
        places = inputs["masked_positions"][rows, columns]
        assert len(set(zip(rows, places, strict=True))) == len(rows)
        read, there = inputs["token_ids"][rows, places], labels["masked_words"][rows, columns]
        assert (there >= FIRST).all() and (read >= MASK).all()
        picked, masked = picked + len(rows), masked + (read == MASK).sum()
        kept += (read == there).sum()
        words = (unmasked(inputs, labels, weights) >= FIRST).sum(axis=1)
        drawn = weights["masked_words"].sum(axis=1)
        real = weights["next_sentence"] > 0
        assert (drawn == np.clip(np.round(0.15 * words), 1, None) * real).all()
    assert abs(masked / picked - 0.8) < 0.02
    assert abs(kept / picked - 0.1 - 0.1 / 40) < 0.015  # a random token may be the same


def test_whole_words():
    rng = np.random.default_rng(2)
    rows = rng.integers(FIRST, V, (200, 40))
    rows[:, 0] = FIRST
    continues = np.array([token.startswith("##") for token in TOKENIZER.vocabulary])
    masks = draw_masks(
        rows, np.ones_like(rows, bool), rng.random((2, 200, 41)), rows, MASK, 0.15, continues
    )
    sizes = []
    for row, places, weight in zip(rows, masks.positions, masks.weights, strict=True):
        places = set(places[weight > 0].tolist())
        for place in places:
            if continues[row[place]]:
                assert place - 1 in places
            if place + 1 < 40 and continues[row[place + 1]]:
                assert place + 1 in places
        sizes.append(len(places))
    assert max(sizes) == 6 and np.mean(sizes) > 4


def test_an_epoch_follows_from_the_seed():
    shard = make_shard(corpus())

    def made(**settings):
        return MaskedBatches([shard], TOKENIZER, max_length=24, batch_size=8, **settings)

    def values(batch):
        return np.concatenate([x.ravel() for part in batch for x in part.values()])

    one, two = made(), made()
    two.set_epoch(3)
    first = [values(one[i]) for i in range(len(one))]
    one.set_epoch(3)
    third = [values(one[i]) for i in range(len(one))]
    # In any order, as workers read them.
    again = {i: values(two[i]) for i in reversed(range(len(two)))}
    assert all((again[i] == third[i]).all() for i in again)
    assert len(first) == len(third)
    assert not all(len(a) == len(b) and (a == b).all() for a, b in zip(first, third, strict=True))
    other = made(seed=1)
    assert not all(
        len(a) == len(b) and (a == b).all()
        for a, b in zip(first, [values(other[i]) for i in range(len(other))], strict=True)
    )
    still = made(shuffle=False)
    before = [values(still[i]) for i in range(len(still))]
    still.set_epoch(2)
    assert all((values(still[i]) == before[i]).all() for i in range(len(still)))


@pytest.mark.parametrize("shuffle", [True, False])
def test_lengths_that_vary_differ_in_the_first_two_batches(shuffle):
    """Rows of 32 and 34 tokens have room for 5 and 6 masked words, those of 36 for 6."""
    documents = [[[FIRST + d % 9] * (d % 14), [FIRST] * 20] for d in range(1, 120) if d % 14]
    shards = [make_shard(documents)]
    settings = {"max_length": 36, "multiple": 2, "batch_size": 4, "shuffle": shuffle}
    batches = MaskedBatches(shards, TOKENIZER, **settings)
    rooms = {length: int(np.ceil(0.15 * length)) for (_, length) in batches.shapes}
    assert 1 < len(set(rooms.values())) < len(rooms)
    for epoch in range(20):
        batches.set_epoch(epoch)
        (one, masks, _), (other, others, _) = batches[0], batches[1]
        assert one["token_ids"].shape[1] != other["token_ids"].shape[1]
        assert masks["masked_words"].shape[1] != others["masked_words"].shape[1]


def test_masks_are_drawn_anew_in_each_epoch():
    """Rows of one length: which places are masked depends on what is drawn alone."""
    shard = make_shard([[[FIRST] * 22] for _ in range(16)])
    settings = {"max_length": 24, "batch_size": 16, "next_sentence": False}
    batches = MaskedBatches([shard], TOKENIZER, **settings)
    first = batches[0][0]["masked_positions"]
    batches.set_epoch(1)
    assert (batches[0][0]["masked_positions"] != first).any()
    batches.set_epoch(0)
    assert (batches[0][0]["masked_positions"] == first).all()


def test_parts_of_a_batch_are_those_of_the_whole():
    shard = make_shard(corpus())
    settings = {"max_length": 24, "batch_size": 8, "rows_multiple_of": 4}
    whole = MaskedBatches([shard], TOKENIZER, **settings)
    halves = [MaskedBatches([shard], TOKENIZER, part=p, parts=2, **settings) for p in (0, 1)]
    for i in range(len(whole)):
        for name, of in enumerate(whole[i]):
            for key, array in of.items():
                both = np.concatenate([half[i][name][key] for half in halves])
                assert (both == array).all()
    with pytest.raises(ValueError, match="`part` must be from 0 to 1"):
        MaskedBatches([shard], TOKENIZER, part=2, parts=2)


def test_shards_on_disk_are_those_in_memory(tmp_path):
    documents = corpus()
    writer, other = ShardWriter(V, tmp_path, shard_tokens=300), ShardWriter(V)
    for document in documents:
        writer.add(document)
        other.add(document)
    shards = writer.close()
    assert writer.counts["shards"] == len(shards) > 1 and writer.counts["documents"] == 40
    assert all(isinstance(s.ids, np.memmap) and s.ids.dtype == "uint16" for s in shards)
    ids = np.concatenate([s.ids for s in shards])
    assert ids.tolist() == [i for d in documents for row in d for i in row]
    one = MaskedBatches([make_shard(documents)], TOKENIZER, max_length=24, shuffle=False)
    many = MaskedBatches(shards, TOKENIZER, max_length=24, shuffle=False)
    assert len(one) == len(many)
    for i in range(len(one)):
        assert (one[i][0]["token_ids"] == many[i][0]["token_ids"]).all()
    (memory,) = other.close()
    assert memory.ids.tolist() == ids.tolist() and writer.digest != other.digest
    assert ShardWriter(V, tmp_path / "b").close() == []
    (tmp_path / "00000.ids.npy").write_bytes(b"\x93NUMPY damaged")
    with pytest.raises(ValueError, match=r"00000\.ids\.npy"):
        open_shards(tmp_path)
    with pytest.raises(FileNotFoundError, match="Expected shards of ids"):
        open_shards(tmp_path / "none")


@pytest.mark.parametrize(
    ("part", "values", "message"),
    [
        ("ids", [5, 6, 7, 10], r"the id 10 at place 3, for a vocabulary of 10"),
        ("sentences", [0, 3, 2, 4], "its offsets do not rise from 0"),
        ("sentences", [1, 2, 3, 4], "its offsets do not rise from 0"),
        ("documents", [0, 2, 2], "its offsets do not rise from 0"),
        ("documents", [0, 1, 2], "3 sentences instead of 2"),
        ("sentences", [0, 2, 3, 5], "4 ids instead of 5"),
        ("documents", [], "int64 values of shape"),
        ("ids", [0.5, 1.0, 1.5, 2.0], "float64 values of shape"),
    ],
)
def test_shards_that_lie(tmp_path, part, values, message):
    writer = ShardWriter(10, tmp_path)
    writer.add([[5, 6], [7]])
    writer.add([[9]])
    writer.close()
    (shard,) = open_shards(tmp_path, 10)
    assert shard.documents.tolist() == [0, 2, 3]
    dtype = getattr(shard, part).dtype
    del shard
    values = np.array(values) if values and part == "ids" else np.array(values, dtype)
    if values.dtype.kind == "i" and part == "ids":
        values = values.astype(dtype)
    np.save(tmp_path / f"00000.{part}.npy", values)
    with pytest.raises(ValueError, match=message):
        open_shards(tmp_path, 10)


def test_chunks():
    """Whole sentences; long ones in pieces; a single sentence at the end takes one before it."""
    shard = make_shard([[[5] * 4, [6] * 3, [7] * 2, [8] * 2], [[9] * 25], [[10] * 2]])
    chunks = chunk_sentences(shard, room=10, least=1)
    assert chunks.lengths.tolist() == [9, 2, 10, 10, 5, 2]
    assert chunks.documents.tolist() == [0, 0, 1, 1, 1, 2]
    chunks = chunk_sentences(shard, room=10, least=2)
    # 4 + 3 | 2 + 2; 25 in five pieces of 5, of which the last would be alone.
    assert chunks.lengths.tolist() == [7, 4, 10, 10]
    assert chunks.left_out == 7
    for room in (6, 9, 13, 40):
        shard = make_shard(corpus(seed=room))
        chunks = chunk_sentences(shard, room, 1)
        assert chunks.lengths.max() <= room and chunks.left_out == 0
        assert chunks.lengths.sum() == len(shard.ids)


def test_a_long_document_comes_first():
    """A book of more than a thousand rows, and a short text: pairs can be made of both."""
    book, text = [[FIRST] * 6] * 4000, [[FIRST + 1] * 6] * 4
    batches = MaskedBatches([make_shard([book, text])], TOKENIZER, max_length=27, shuffle=False)
    assert batches.num_examples == 1001
    apart = [batches[i][1]["next_sentence"] for i in range(len(batches))]
    assert np.concatenate(apart).sum() <= 2


def test_second_parts_come_from_other_documents():
    """Even if most rows of a batch are of one document; about half of mixed ones are exchanged."""
    rng = np.random.default_rng(0)
    shares = []
    for documents in ([0] * 7 + [1], [0] * 5 + [1, 1, 2], [*range(8)], [0] * 8, [0], [0, 1]):
        documents = np.array(documents)
        for _ in range(50):
            source = _exchanged(documents, rng)
            apart = source != np.arange(len(documents))
            assert (documents[source] != documents)[apart].all()
            shares += [apart.mean()] * (len(set(documents)) == 8)
    assert np.mean(shares) == 0.5


def test_orders_by_blocks():
    rng = np.random.default_rng(0)
    assert sorted(by_blocks(1003, rng, block=50).tolist()) == list(range(1003))
    order = by_blocks(1000, rng, block=50)
    for i in range(0, 1000, 200):
        assert len(set(order[i : i + 200] // 50)) == 4
    assert (order[:200] // 50 != np.sort(order[:200] // 50)).any()


@pytest.mark.parametrize(
    ("documents", "settings", "message"),
    [
        ([[[5, 6], [7]]], {}, "at least two documents"),
        ([[[5, 6]], [[7]]], {}, "at least two documents"),
        ([[[5]], [[7]]], {"masked_share": 1.0}, "`masked_share` must be above 0"),
        ([[[5]], [[7]]], {"max_length": 4}, "`max_length` must be >= 5"),
        ([[[]]], {}, "at least one token"),
    ],
)
def test_what_cannot_be_pretrained_on(documents, settings, message):
    with pytest.raises(ValueError, match=message):
        MaskedBatches([make_shard(documents)], TOKENIZER, **settings)


def test_a_vocabulary_without_a_mask():
    tokenizer = WordPieceTokenizer(TOKENIZER.vocabulary[:4])
    with pytest.raises(ValueError, match=r"vocabulary has \[MASK\]"):
        MaskedBatches([make_shard(corpus())], tokenizer)

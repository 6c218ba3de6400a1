"""Baselines of pretraining: numbers by hand, and the same rows as a model is measured on."""

import numpy as np
import pytest

from keras_attn.batches import MaskedBatches, make_shard
from keras_attn.metrics import (
    bigram_accuracy,
    common_words_accuracy,
    masked_words,
    unigram_accuracy,
)
from keras_attn.text import WordPieceTokenizer

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
VOCABULARY = [*SPECIAL, "a", "b", "c", "d", "##x", "##y"]
PAD, UNK, CLS, SEP, MASK, A, B, C, D, X, Y = range(11)
TOKENIZER = WordPieceTokenizer(VOCABULARY)


class Rows:
    """One batch of rows, each (what is read, {place: what stood there}, whether it is apart)."""

    def __init__(self, *rows):
        self.rows = rows
        self.tokenizer = TOKENIZER
        self.next_sentence = rows[0][2] is not None

    def __len__(self):
        return 1

    def __getitem__(self, index):
        assert index == 0
        count = len(self.rows) + 1  # the last row fills the batch up
        width = max(len(ids) for ids, _, _ in self.rows)
        ids = np.zeros((count, width), "int32")
        positions, labels = np.zeros((count, 3), "int32"), np.zeros((count, 3), "int32")
        weights = np.zeros((count, 3), "float32")
        for row, (read, masked, _) in enumerate(self.rows):
            ids[row, : len(read)] = read
            for i, (place, label) in enumerate(masked.items()):
                positions[row, i], labels[row, i], weights[row, i] = place, label, 1
        ids[-1], positions[-1], labels[-1] = ids[0], positions[0], labels[0]
        apart = np.array([x for _, _, x in [*self.rows, self.rows[0]]])
        inputs = {"token_ids": ids, "padding_mask": ids != 0, "masked_positions": positions}
        return (
            inputs,
            {"masked_words": labels, "next_sentence": apart},
            {"masked_words": weights, "next_sentence": np.arange(count) < count - 1},
        )


def single(read, **masked):
    return [CLS, *read, SEP], {int(k[1:]): v for k, v in masked.items()}, None


# Before words were masked: a b c d, a b, c b a b. b five times (one is masked), a four, c two, d.
TRAIN = Rows(
    single([A, MASK, C, D], _2=B), single([A, B], _1=A), single([C, B, A, D], _4=B),
    single([B], _1=B), single([A], _1=A),
)  # fmt: skip


def test_the_commonest_token():
    held_out = Rows(single([MASK, A, C], _1=B, _3=C), single([MASK, A], _1=B, _2=A))
    assert unigram_accuracy(TRAIN, held_out) == 2 / 4


def test_neighbours():
    # After [CLS]: a 3, b 1, c 1. After a: b 3, [SEP] 1. After b: [SEP] 3, c 1, a 1. After c: d, b.
    # Frequencies: b 5, a 4, c 2, d 1; V = 11.
    held_out = Rows(
        single([MASK, C], _1=B),
        single([A, MASK], _2=B),
        single([MASK, B], _1=A),
        single([B, MASK, D], _2=C),
    )
    # [CLS] w c: a (3+1)(0+1)/15, b (1+1)(1+1)/16, c 2/13: a. One side: a. Label b.
    # a w [SEP]: b (3+1)(3+1)/16 = 1. Label b. One side: b.
    # [CLS] w b: a (3+1)(3+1)/15. Label a. One side: a.
    # b w d: c (1+1)(1+1)/13, a 2/15. Label c. One side: a and c once each (and [SEP], which is
    # never guessed): a, the commoner.
    assert bigram_accuracy(TRAIN, held_out, smoothing=1) == 3 / 4
    assert bigram_accuracy(TRAIN, held_out, both_sides=False) == 2 / 4


def test_masked_neighbours():
    # [CLS] is known before the first, [SEP] behind the last: a (3+1); b (5+1)(3+1)/16.
    held_out = Rows(single([MASK, MASK], _1=A, _2=B))
    assert bigram_accuracy(TRAIN, held_out, smoothing=1) == 1
    assert bigram_accuracy(TRAIN, held_out, both_sides=False) == 1
    # Nothing is known of the one in the middle: b, the commonest.
    held_out = Rows(single([MASK, MASK, MASK], _2=B))
    assert bigram_accuracy(TRAIN, held_out) == 1
    assert bigram_accuracy(TRAIN, held_out, both_sides=False) == 1


def pair(first, second, apart, **masked):
    places = {int(k[1:]): v for k, v in masked.items()} or {1: first[0]}
    return [CLS, *first, SEP, *second, SEP], places, apart


def test_shared_words():
    train = Rows(
        pair([A, X, B], [A, X], 0),  # "ax" is shared
        pair([A, X], [A, Y], 1),  # "ax" and "ay" are other words
        pair([B, C], [C, D], 0),
        pair([B], [C], 1),
    )
    held_out = Rows(
        pair([C], [D, C], 0),
        pair([MASK], [MASK], 0, _1=C, _3=C),  # what is masked is not read
        pair([UNK], [UNK], 1),
        pair([C], [C], 1),
    )
    assert common_words_accuracy(train, train, common=0) == 1
    assert common_words_accuracy(train, held_out, common=0) == 2 / 4
    # c, with the others of four tokens the commonest of all, is left out; "ax" is two tokens.
    assert common_words_accuracy(train, held_out, common=4) == 1 / 4 + 1 / 4
    with pytest.raises(ValueError, match="next_sentence=False"):
        common_words_accuracy(train, TRAIN)


def toy(documents, **settings):
    tokenizer = WordPieceTokenizer.train([s for d in documents for s in d], 60, allow_fewer=True)
    shard = make_shard([tokenizer.encode(document) for document in documents])
    return MaskedBatches([shard], tokenizer, max_length=24, multiple=8, batch_size=7, **settings)


DOCUMENTS = [
    [f"the {animal} {verb} here", f"a {animal} {verb} there", f"one {animal} ran"]
    for animal in ("dog", "cat", "cow", "hen", "fox")
    for verb in ("sat", "hid")
]


@pytest.mark.parametrize("next_sentence", [True, False])
def test_real_batches_give_the_texts_back(next_sentence):
    """The words of all rows, with the masked ones in their places, are those of the documents."""
    batches = toy(DOCUMENTS, next_sentence=next_sentence, seed=3)
    counts = np.zeros(len(batches.tokenizer.vocabulary), int)
    examples = 0
    for rows in masked_words._rows(batches):
        examples += len(rows.ids)
        counts += np.bincount(rows.original()[rows.real], minlength=len(counts))
    assert examples == batches.num_examples
    ids = [i for d in DOCUMENTS for row in batches.tokenizer.encode(d) for i in row]
    if not next_sentence:
        assert (counts[5:] == np.bincount(ids, minlength=len(counts))[5:]).all()
    commonest = masked_words._by_frequency(batches)[0]
    assert counts[5:].max() == counts[commonest]


def test_more_is_read_more_is_guessed():
    train = toy(DOCUMENTS * 4, shuffle=False)
    held_out = toy(DOCUMENTS * 4, seed=1, shuffle=False)
    one, before, both = (
        unigram_accuracy(train, held_out),
        bigram_accuracy(train, held_out, both_sides=False),
        bigram_accuracy(train, held_out),
    )
    assert 0 < one < before < both < 1
    assert common_words_accuracy(train, held_out, common=2) > 0.55


def test_the_table_grows_in_parts(monkeypatch):
    train = toy(DOCUMENTS * 4, shuffle=False)
    size = len(train.tokenizer.vocabulary)
    whole = masked_words._pair_counts(train, np.arange(size), size)
    monkeypatch.setattr(masked_words, "_MOST_PAIRS", 50)
    parts = masked_words._pair_counts(train, np.arange(size), size)
    assert all((a == b).all() for a, b in zip(whole, parts, strict=True))

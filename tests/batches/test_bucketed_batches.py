"""All bucketed batches: the same orders and contents in every version, and one base."""

import hashlib

import numpy as np
import pytest

from keras_attn.batches import (
    AnswerBatches,
    BucketedBatches,
    CaptionBatches,
    EncoderBatches,
    PackedBatches,
    PairBatches,
    ScoredPairBatches,
    TextBatches,
    TokenBatches,
    VisualQuestionBatches,
)

IDS = [[5 + (7 * i + j) % 50 for j in range(1 + i * i % 37)] for i in range(60)]
OTHERS = IDS[::-1]
CLASSES = [i % 3 for i in range(60)]
NUMBERS = [i * i % 8 for i in range(60)]
ROWS = [(ids, len(ids) // 2) for ids in IDS]
TAGS = [[j % 4 - 1 for j in range(len(ids))] for ids in IDS]
LAYOUT = {"rows_multiple_of": 3, "seed": 4}


class Drawn:
    shape = (1, 2)

    def __len__(self):
        return 8

    def read(self, numbers):
        return np.array([[[n, n]] for n in numbers], "float32")


MAKERS = {
    "token": lambda: TokenBatches(
        IDS, OTHERS, start_id=1, end_id=2, tokens_per_batch=200, max_length=30, **LAYOUT
    ),
    "answer": lambda: AnswerBatches(
        IDS, OTHERS, end_id=2, tokens_per_batch=200, max_length=50, **LAYOUT
    ),
    "text": lambda: TextBatches(IDS, CLASSES, max_length=25, batch_size=8, start_id=1, **LAYOUT),
    "pair": lambda: PairBatches(IDS, OTHERS, CLASSES, max_length=25, batch_size=8, **LAYOUT),
    "scored": lambda: ScoredPairBatches(IDS, OTHERS, CLASSES, batch_size=8, least=8, **LAYOUT),
    "encoder": lambda: EncoderBatches(
        ROWS, {"classes": CLASSES, "tags": TAGS}, token_labels=["tags"], batch_size=8, **LAYOUT
    ),
    "caption": lambda: CaptionBatches(
        Drawn(), NUMBERS, IDS, start_id=1, end_id=2, batch_size=8, max_length=30, **LAYOUT
    ),
    "question": lambda: VisualQuestionBatches(
        Drawn(), NUMBERS, IDS, CLASSES, batch_size=4, questions_per_row=3, max_length=25, **LAYOUT
    ),
    "packed": lambda: PackedBatches(
        IDS, OTHERS, start_id=1, end_id=2, tokens_per_row=50, tokens_per_batch=200, **LAYOUT
    ),
}

DIGESTS = {
    "token": "7303919b9b5049eb",
    "answer": "19e1361182b0e6c9",
    "text": "be608151d9f9f3f5",
    "pair": "c63961235dcef7b5",
    "scored": "798f91af1cfae71b",
    "encoder": "92173613a67cde2f",
    "caption": "c8d2a29450bcaff0",
    "question": "6b27814ec81120b3",
    "packed": "3a0bafb43f27f0e6",
}


def digest(batches):
    """A digest of all arrays of two epochs, with their dtypes and shapes."""
    hashed = hashlib.sha256()

    def add(value):
        if isinstance(value, dict):
            value = [part for name in sorted(value) for part in (np.array(name), value[name])]
        if isinstance(value, list | tuple):
            for part in value:
                add(part)
        else:
            hashed.update(f"{value.dtype}{value.shape}".encode() + value.tobytes())

    for epoch in (0, 3):
        batches.set_epoch(epoch)
        for index in range(len(batches)):
            add(batches[index])
    return hashed.hexdigest()[:16]


@pytest.mark.parametrize("name", MAKERS)
def test_orders_and_contents_stay(name):
    """A run of an older version is resumed exactly, and losses can be compared."""
    assert digest(MAKERS[name]()) == DIGESTS[name]


@pytest.mark.parametrize("name", MAKERS)
def test_members_are_each_example_once(name):
    batches = MAKERS[name]()
    for epoch in (0, 1):
        batches.set_epoch(epoch)
        members = np.concatenate([batches.members(i) for i in range(len(batches))])
        assert len(np.unique(members)) == len(members)
        assert batches.num_examples in (len(members), 60)
    assert not batches._plan[-1].any()  # nothing was taken


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("setting", ["multiple", "max_shapes", "rows_multiple_of", "seed"])
def test_settings_that_it_refuses(monkeypatch, name, setting):
    monkeypatch.setitem(LAYOUT, setting, -1)
    with pytest.raises(ValueError, match=f"`{setting}` must be >= .*Received: -1"):
        MAKERS[name]()


def test_all_bucketed_batches_have_one_base():
    assert all(isinstance(make(), BucketedBatches) for make in MAKERS.values())

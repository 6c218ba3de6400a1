"""Batches of pictures with the questions about each."""

import numpy as np
import pytest

from keras_attn.batches import VisualQuestionBatches


class Numbered:
    """Pictures that are their numbers."""

    shape = (1, 1)

    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def read(self, numbers):
        return np.asarray(numbers, "float32")[:, None, None]


rng = np.random.default_rng(0)
NUMBERS = rng.integers(0, 7, 60)
IDS = [[int(n) + 5] * int(rng.integers(1, 9)) for n in NUMBERS]  # a question says its picture
LABELS = np.arange(60)


@pytest.mark.parametrize("settings", [{}, {"max_shapes": 1, "shuffle": False}])
def test_each_question_once_with_its_picture(settings):
    batches = VisualQuestionBatches(
        Numbered(7), NUMBERS, IDS, LABELS, batch_size=3, questions_per_row=4, rows_multiple_of=2,
        **settings,
    )  # fmt: skip
    for _ in range(2):
        seen = []
        for i in range(len(batches)):
            inputs, labels, weights = batches[i]
            ids = inputs["question_ids"]
            assert ids.shape[:2] == labels.shape == weights.shape
            assert len(ids) % 2 == 0 and ids.shape[1] <= 4
            for b, q in zip(*np.nonzero(weights), strict=True):
                label = int(labels[b, q])
                seen.append(label)
                assert inputs["regions"][b, 0, 0] == NUMBERS[label]
                assert [x for x in ids[b, q] if x] == IDS[label]
            assert not ids[:, 1:][weights[:, 1:] == 0].any() or batches.padded_share > 0
        assert sorted(seen) == list(range(60))
        batches.set_epoch(1)
    assert len(batches.shapes) <= settings.get("max_shapes", 4)
    rows = [-(-count // 4) for count in np.bincount(NUMBERS)]
    if "shuffle" in settings:
        assert len(batches) == -(-sum(rows) // 3)
    places = sum(np.prod(batches[i][0]["question_ids"].shape) for i in range(len(batches)))
    assert abs(batches.padded_share - (1 - sum(map(len, IDS)) / places)) < 1e-9


def test_places_without_a_question_are_padding():
    batches = VisualQuestionBatches(
        Numbered(2), [0, 0, 1], [[5, 6], [7], [8]], [1, 2, 3], shuffle=False, max_shapes=1
    )
    inputs, labels, weights = batches[0]
    assert inputs["question_ids"].tolist() == [[[5, 6], [7, 0]], [[8, 0], [0, 0]]]
    assert (labels.tolist(), weights.tolist()) == ([[1, 2], [3, 0]], [[1, 1], [1, 0]])
    assert batches.num_examples == 3


def test_long_questions_and_wrong_use():
    batches = VisualQuestionBatches(Numbered(1), [0, 0], [[5] * 9, []], [0, 1], max_length=3)
    assert (batches.truncated, batches[0][0]["question_ids"].shape) == (1, (1, 2, 3))
    for numbers, ids, labels, message in [
        ([], [], [], "at least one question"),
        ([0], [[5], [6]], [0, 1], "number of a picture for each"),
        ([0, 7], [[5], [6]], [0, 1], "from 0 to 7"),
        ([0, 0], [[5], [6]], [[0, 1], [1, 0]], "a label for each"),
        ([0, 0], [[5], [0]], [0, 1], "must not occur"),
    ]:
        with pytest.raises(ValueError, match=message):
            VisualQuestionBatches(Numbered(7), numbers, ids, labels)
    with pytest.raises(ValueError, match="different names for images and questions"):
        VisualQuestionBatches(Numbered(7), [0], [[5]], [0], name="question_ids")
    with pytest.raises(ValueError, match="questions_per_row"):
        VisualQuestionBatches(Numbered(7), [0], [[5]], [0], questions_per_row=0)

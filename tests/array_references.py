"""Windows and spans by loops over Python's numbers."""

import math
from typing import NamedTuple


class Windows(NamedTuple):
    """How one sequence is cut into windows that overlap."""

    room: int
    margin: int

    @property
    def step(self) -> int:
        return self.room - 2 * self.margin

    def count(self, length: int) -> int:
        return max(1, -(-(length - 2 * self.margin) // self.step))

    def starts(self, length: int) -> list[int]:
        last = max(length - self.room, 0)
        return [min(k * self.step, last) for k in range(self.count(length))]

    def number(self, place: int, length: int) -> int:
        return min(max((place - self.margin) // self.step, 0), self.count(length) - 1)


def spans(starts, ends, begin, longest):
    """The scores of all spans of a window, `{(first, last): score}`, in order."""
    found = {}
    for i, start in enumerate(starts):
        for j in range(i, min(i + longest, len(ends))):
            if begin[i] and start > -math.inf and ends[j] > -math.inf:
                found[i, j] = start + ends[j]
    return found


def best(scores, count):
    """The best spans, the first ones of those with equal scores."""
    return sorted(scores, key=lambda span: -scores[span])[:count]


def log_sum(scores):
    return math.log(math.fsum(map(math.exp, scores))) if scores else -math.inf


def marked_entities(labels, scheme):
    """The entities of a sentence by seqeval, and the labels that mark them, word by word."""
    from seqeval.metrics.sequence_labeling import get_entities

    letters = {"L": "E", "U": "S"} if scheme == "BILOU" else {}
    read = [letters.get(label[0], label[0]) + label[1:] for label in labels]
    found = [(kind, first, last + 1) for kind, first, last in get_entities(read)]
    first, inside, last, alone = {"BIO": "BIIB", "BIOES": "BIES", "BILOU": "BILU"}[scheme]
    repaired = ["O"] * len(labels)
    for kind, start, behind in found:
        marks = alone if behind - start == 1 else first + inside * (behind - start - 2) + last
        repaired[start:behind] = [f"{mark}-{kind}" for mark in marks]
    return repaired, found

"""Generated stories with questions, answers and supporting facts."""

import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

PEOPLE = ("mary", "john", "sandra", "daniel")
PLACES = ("bathroom", "bedroom", "garden", "hallway", "kitchen", "office")
THINGS = ("apple", "football", "milk")
_LENGTHS = {1: (4, 10), 2: (6, 14), 3: (9, 18)}
_MOVED, _TOOK, _DROPPED = "went to the", "took the", "dropped the"


@dataclass(frozen=True)
class StoryQuestion:
    """A story, a question about the story, its answer, and the supporting facts.

    Example:

    >>> story = ("mary took the milk", "mary went to the office")
    >>> StoryQuestion(story, "where is the milk", "office", facts=(0, 1)).answer
    'office'
    """

    sentences: tuple[str, ...]
    question: str
    answer: str
    facts: tuple[int, ...]
    """Indices of the supporting facts in `sentences`, in order."""


def make_stories(count: int, facts: int = 1, seed: int = 0) -> list[StoryQuestion]:
    """Generates stories of people who move and carry things, similar to bAbI's tasks 1 to 3.

        facts   question                                  supporting facts
        1       where is mary                             her last move
        2       where is the milk                         who took or dropped it last, and the last
                                                          move of this person (before the drop, if
                                                          it was dropped)
        3       where was the milk before the office      who took it, the move to the office, and
                                                          this person's move before that

    All stories are different, so that any split of the list is free of leaks. There are four
    people, six places and three things. Stories have 4 to 10 sentences with `facts=1`, 6 to 14 with
    `facts=2`, and 9 to 18 with `facts=3`.

    References:
        - [Weston et al., 2015](https://arxiv.org/abs/1502.05698): Towards AI-complete question
          answering.

    Args:
        count: Number of stories.
        facts: Number of supporting facts, 1, 2 or 3.
        seed: Seed of the stories.

    Returns:
        The stories, each with one question.

    Raises:
        ValueError: If `facts` is not 1, 2 or 3.

    Example:

    >>> story = make_stories(1, facts=1, seed=1)[0]
    >>> person = story.question.split()[-1]
    >>> story.sentences[story.facts[0]] == f"{person} went to the {story.answer}"
    True
    """
    if facts not in _LENGTHS:
        raise ValueError(f"`facts` must be one of {list(_LENGTHS)}. Received: {facts!r}.")
    rng = random.Random(f"{facts} {seed}")
    stories: dict[tuple[str, ...], StoryQuestion] = {}
    while len(stories) < count:
        world = _World(rng)
        for _ in range(rng.randint(*_LENGTHS[facts])):
            world.act(carry=facts > 1)
        asked = rng.choice(
            [world.of_people, world.of_things, world.of_before][facts - 1]() or [None]
        )
        if asked is not None:
            question, answer, places = asked
            story = tuple(world.sentences)
            stories.setdefault(story, StoryQuestion(story, question, answer, places))
    return list(stories.values())


class _World:
    """The state of people, places and things in a story."""

    def __init__(self, rng: random.Random):
        self.rng = rng
        self.sentences: list[str] = []
        self.moves: dict[str, list[tuple[int, str]]] = {person: [] for person in PEOPLE}
        self.holder: dict[str, str] = {}
        self.handled: dict[str, tuple[int, str]] = {}  # sentence and person
        # Places of a thing: sentence and place of the move, and the sentence in which it was taken.
        self.track: dict[str, list[tuple[int, str, int]]] = {thing: [] for thing in THINGS}

    def act(self, carry: bool) -> None:
        """Adds a random event and its sentence."""
        rng = self.rng
        here = {person: moves[-1][1] for person, moves in self.moves.items() if moves}
        lying = {t: track[-1][1] for t, track in self.track.items() if track}
        takes = [
            (person, thing)
            for person, place in here.items()
            for thing in THINGS
            if thing not in self.holder and lying.get(thing, place) == place
        ]
        number, chance = len(self.sentences), rng.random()
        if carry and takes and chance < 0.35:
            person, thing = rng.choice(takes)
            self.holder[thing] = person
            self.handled[thing] = number, person
            move, place = self.moves[person][-1]
            self.track[thing].append((move, place, number))
            self.sentences.append(f"{person} {_TOOK} {thing}")
        elif carry and self.holder and chance < 0.45:
            thing = rng.choice(sorted(self.holder))
            person = self.holder.pop(thing)
            self.handled[thing] = number, person
            self.sentences.append(f"{person} {_DROPPED} {thing}")
        else:
            person = rng.choice(PEOPLE)
            place = rng.choice([place for place in PLACES if place != here.get(person)])
            self.moves[person].append((number, place))
            for thing, holder in self.holder.items():
                if holder == person:
                    self.track[thing].append((number, place, self.handled[thing][0]))
            self.sentences.append(f"{person} {_MOVED} {place}")

    def of_people(self) -> list[tuple[str, str, tuple[int, ...]]]:
        """Questions with one supporting fact."""
        return [
            (f"where is {person}", moves[-1][1], (moves[-1][0],))
            for person, moves in self.moves.items()
            if moves
        ]

    def of_things(self) -> list[tuple[str, str, tuple[int, ...]]]:
        """Questions with two supporting facts."""
        found = []
        for thing, (number, person) in self.handled.items():
            until = len(self.sentences) if self.holder.get(thing) == person else number
            move, place = [move for move in self.moves[person] if move[0] < until][-1]
            found.append((f"where is the {thing}", place, _in_order(number, move)))
        return found

    def of_before(self) -> list[tuple[str, str, tuple[int, ...]]]:
        """Questions with three supporting facts, about things carried from place to place."""
        found = []
        for thing, track in self.track.items():
            places = [place for _, place, _ in track]
            for (before, former, taken), (move, place, carried) in itertools.pairwise(track):
                # Carried by one person, and the only time that the thing came there.
                if taken == carried and places.count(place) == 1 and taken < move:
                    facts = _in_order(taken, before, move)
                    found.append((f"where was the {thing} before the {place}", former, facts))
        return found


def _in_order(*numbers: int) -> tuple[int, ...]:
    return tuple(sorted(numbers))


def story_words(stories: Sequence[StoryQuestion]) -> list[str]:
    """Returns the vocabulary of stories, a list: padding `""`, then all words in sorted order.

    Example:

    >>> story = StoryQuestion(("mary took the milk",), "where is mary", "office", (0,))
    >>> story_words([story])
    ['', 'is', 'mary', 'milk', 'office', 'the', 'took', 'where']
    """
    words: set[str] = set()
    for story in stories:
        words.update(" ".join((*story.sentences, story.question, story.answer)).split())
    return ["", *sorted(words)]


def story_arrays(
    stories: Sequence[StoryQuestion], words: Sequence[str]
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Returns the inputs of a `MemoryNetworkConfig` model and the ids of the answers.

    Args:
        stories: N stories, at least one.
        words: The vocabulary from `story_words`.

    Returns:
        A tuple of the inputs `{"story_ids": (N, S, T), "question_ids": (N, Q)}`, in which 0 is
        padding, and the ids of the answers `(N,)`, all int32. S is the largest number of sentences
        of a story, and T and Q are the largest numbers of words of a sentence and a question.

    Raises:
        KeyError: If a word is not in the vocabulary.

    Example:

    >>> story = StoryQuestion(("mary took the milk",), "where is mary", "office", (0,))
    >>> inputs, answers = story_arrays([story], story_words([story]))
    >>> inputs["story_ids"].tolist(), inputs["question_ids"].tolist(), answers.tolist()
    ([[[2, 6, 5, 3]]], [[7, 1, 2]], [4])
    """
    number = {word: i for i, word in enumerate(words)}
    rows = [[[number[w] for w in s.split()] for s in story.sentences] for story in stories]
    asked = [[number[word] for word in story.question.split()] for story in stories]
    length = max(len(row) for row in rows)
    width = max(len(sentence) for row in rows for sentence in row)
    story_ids = np.zeros((len(rows), length, width), "int32")
    question_ids = np.zeros((len(rows), max(map(len, asked))), "int32")
    for n, (row, question) in enumerate(zip(rows, asked, strict=True)):
        question_ids[n, : len(question)] = question
        for s, sentence in enumerate(row):
            story_ids[n, s, : len(sentence)] = sentence
    answers = np.array([number[story.answer] for story in stories], "int32")
    return {"story_ids": story_ids, "question_ids": question_ids}, answers

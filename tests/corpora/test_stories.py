"""Stories: every answer again, by a reader of the text that knows nothing of how they are made."""

import pytest

from keras_attn.corpora import StoryQuestion, make_stories, story_arrays, story_words


def answered(sentences, question):
    """Reads the sentences in turn, and keeps where everything has been."""
    person_at, held_by, been = {}, {}, {}
    for sentence in sentences:
        person, verb, *_, what = sentence.split()
        if verb == "went":
            person_at[person] = what
            for thing, holder in held_by.items():
                if holder == person:
                    been[thing].append(what)
        elif verb == "took":
            held_by[what] = person
            been.setdefault(what, []).append(person_at.get(person))
        else:
            assert held_by.pop(what, person) == person
            been.setdefault(what, [person_at.get(person)])
    words = question.split()
    if "before" in words:
        track = been[words[3]]
        return track[track.index(words[-1]) - 1]
    return person_at[words[-1]] if words[-1] in person_at else been[words[-1]][-1]


@pytest.mark.parametrize("facts", [1, 2, 3])
def test_answers_follow_from_the_story_and_from_its_facts_only(facts):
    stories = make_stories(100, facts, seed=3)
    assert len({story.sentences for story in stories}) == 100
    for story in stories:
        assert len(story.facts) == facts and list(story.facts) == sorted(set(story.facts))
        assert answered(story.sentences, story.question) == story.answer, story
        chosen = [story.sentences[place] for place in story.facts]
        assert answered(chosen, story.question) == story.answer, story
        for left_out in range(facts):  # each of them is needed
            rest = [s for i, s in enumerate(chosen) if i != left_out]
            try:
                assert answered(rest, story.question) != story.answer
            except (KeyError, ValueError):
                continue


def test_the_seed_decides():
    assert make_stories(5, 2, seed=1) == make_stories(5, 2, seed=1)
    assert make_stories(5, 2, seed=1) != make_stories(5, 2, seed=2)


def test_arrays():
    stories = [
        StoryQuestion(("a b", "c"), "b a", "c", (0,)),
        StoryQuestion(("a b d",), "c", "d", (0,)),
    ]
    words = story_words(stories)
    assert words == ["", "a", "b", "c", "d"]
    inputs, answers = story_arrays(stories, words)
    assert inputs["story_ids"].tolist() == [[[1, 2, 0], [3, 0, 0]], [[1, 2, 4], [0, 0, 0]]]
    assert inputs["question_ids"].tolist() == [[2, 1], [3, 0]] and answers.tolist() == [3, 4]


def test_wrong_arguments():
    with pytest.raises(ValueError, match=r"`facts` must be one of \[1, 2, 3\]. Received: 4"):
        make_stories(1, facts=4)

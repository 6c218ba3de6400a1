"""Drawn shapes: what is drawn is where the boxes say, and the captions say what is drawn."""

import numpy as np
import pytest

from benchmarks.drawn_shapes import (
    COLOURS,
    HELD_OUT,
    SHAPES,
    DrawnObject,
    DrawnPicture,
    draw_shapes,
    save_drawn_shapes,
)
from keras_attn.images import load_image

SEEN = draw_shapes(300, seed=3, num_objects=(1, 2, 3))


def things(pictures):
    return {(thing.colour, thing.shape) for picture in pictures for thing in picture.objects}


def test_captions_name_the_objects_in_order():
    for picture in SEEN:
        relations = picture.caption.count(" above "), picture.caption.count(" left of ")
        assert sum(relations) == len(picture.objects) - 1
        assert min(relations) == 0
        named = [
            tuple(phrase.split()[1:])
            for phrase in picture.caption.replace(" left of ", " above ").split(" above ")
        ]
        assert named == [(thing.colour, thing.shape) for thing in picture.objects]
        for word, number in zip(picture.caption.split(), picture.of_words, strict=True):
            if word in COLOURS or word in SHAPES:
                assert word in picture.objects[number][:2]
            else:
                assert number is None
                assert word in ("a", "left", "of", "above")


def test_relations_are_those_of_the_places():
    seen = set()
    for picture in SEEN:
        for first, second in zip(picture.objects, picture.objects[1:], strict=False):
            (top, left, bottom, right), (top2, left2, bottom2, right2) = first.box, second.box
            down, along = top2 + bottom2 - top - bottom, left2 + right2 - left - right
            if "above" in picture.caption:
                assert down > abs(along)
                assert bottom <= top2
            else:
                assert along > abs(down)
                assert right <= left2
            seen.add("above" in picture.caption)
    assert seen == {True, False}


@pytest.mark.parametrize("image_size", [32, 64, 96])
def test_boxes_hold_the_colours_and_nothing_else_is_coloured(image_size):
    pictures = draw_shapes(40, seed=5, kind="any", num_objects=(1, 2, 3), image_size=image_size)
    for picture in pictures:
        assert picture.image.shape == (image_size, image_size, 3)
        image = picture.image.astype(float)
        ground = np.ones(image.shape[:2], bool)
        for thing in picture.objects:
            top, left, bottom, right = thing.box
            assert 0 <= top < bottom <= image_size
            assert 0 <= left < right <= image_size
            part = image[top:bottom, left:right]
            off = np.abs(part - COLOURS[thing.colour]).max(axis=2)
            assert (off < 60).mean() > 0.2  # a thin star fills a third of its box
            middle = (top + bottom) // 2, (left + right) // 2
            is_hole = thing.shape == "ring"
            expected = np.median(image, axis=(0, 1)) if is_hole else COLOURS[thing.colour]
            assert np.abs(image[middle] - expected).max() < 60
            ground[max(top - 1, 0) : bottom + 1, max(left - 1, 0) : right + 1] = False
        assert image[ground].std() < 8  # grey and noise
        assert ground.mean() > 0.4


def test_each_shape_is_its_own():
    shares = {shape: [] for shape in SHAPES}
    for picture in draw_shapes(300, seed=1, kind="any", num_objects=1):
        [thing] = picture.objects
        top, left, bottom, right = thing.box
        part = picture.image[top:bottom, left:right].astype(float)
        shares[thing.shape].append((np.abs(part - COLOURS[thing.colour]).max(axis=2) < 60).mean())
    mean = {shape: np.mean(values) for shape, values in shares.items()}
    assert mean["square"] > mean["circle"] > max(mean["ring"], mean["cross"], mean["triangle"])
    assert mean["star"] == min(mean.values())


@pytest.mark.slow
def test_held_out_combinations_are_in_no_seen_picture():
    assert len(set(HELD_OUT)) == 6
    every = {(colour, shape) for colour in COLOURS for shape in SHAPES}
    assert things(SEEN) == every - set(HELD_OUT)
    unseen = draw_shapes(200, seed=4, kind="unseen", num_objects=(1, 2, 3))
    for picture in unseen:
        held_out = [thing for thing in picture.objects if (thing.colour, thing.shape) in HELD_OUT]
        assert len(held_out) == 1
    assert set(HELD_OUT) <= things(unseen)
    places = {
        picture.objects.index(thing)
        for picture in unseen
        for thing in picture.objects
        if (thing.colour, thing.shape) in HELD_OUT
    }
    assert places == {0, 1, 2}
    assert things(draw_shapes(400, kind="any")) == every
    own = draw_shapes(20, kind="unseen", held_out=[("red", "star")])
    assert all(("red", "star") in things([picture]) for picture in own)


def test_objects_of_a_picture_differ():
    for picture in draw_shapes(200, kind="any", num_objects=3):
        assert len(picture.objects) == 3
        assert len(things([picture])) == 3


def test_the_seed_says_it_all():
    again = draw_shapes(20, seed=3, num_objects=(1, 2, 3))
    for first, second in zip(again, SEEN, strict=False):  # more begin with the fewer
        assert np.array_equal(first.image, second.image)
        assert first[1:] == second[1:]
    other = draw_shapes(20, seed=4, num_objects=(1, 2, 3))
    assert all(not np.array_equal(a.image, b.image) for a, b in zip(again, other, strict=True))
    assert draw_shapes(0) == []


def test_words_of_objects_that_share_a_colour():
    objects = (DrawnObject("red", "ring", (0, 0, 9, 9)), DrawnObject("red", "star", (0, 9, 9, 20)))
    picture = DrawnPicture(np.zeros((32, 32, 3), "uint8"), "a red ring left of a red star", objects)
    assert picture.of_words == [None, 0, 0, None, None, None, 1, 1]


def test_covers_at_the_edges():
    thing = DrawnObject("red", "ring", (8, 16, 24, 32))
    assert thing.covers(8 / 64, 16 / 64, 64)
    assert not thing.covers(7.9 / 64, 16 / 64, 64)
    assert not thing.covers(24 / 64, 16 / 64, 64)
    assert not thing.covers(8 / 64, 32 / 64, 64)


def test_saved_pictures_are_read_as_they_were_drawn(tmp_path):
    images = save_drawn_shapes(SEEN[:3], tmp_path / "a" / "b", "validation")
    assert images.split_counts == {"validation": 3}
    assert images.captions == [picture.caption for picture in SEEN[:3]]
    for picture, path in zip(SEEN, images.paths, strict=False):
        assert np.array_equal(load_image(path), picture.image)
    assert save_drawn_shapes(SEEN[:1], tmp_path)[0].id == "shapes_000000"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"count": -1}, "`count` to be an integer >= 0. Received: -1"),
        ({"seed": -2}, "`seed` to be an integer >= 0. Received: -2"),
        ({"image_size": 16}, "`image_size` to be an integer >= 32. Received: 16"),
        ({"kind": "new"}, "'seen', 'unseen' or 'any'. Received: 'new'"),
        ({"num_objects": 4}, "`num_objects` from 1 to 3. Received: 4"),
        ({"num_objects": ()}, "`num_objects` from 1 to 3. Received: ()"),
        ({"held_out": [("pink", "star")]}, "Received: [('pink', 'star')]"),
        ({"kind": "unseen", "held_out": []}, "0 of 36 held out"),
        (
            {"held_out": [(colour, shape) for colour in COLOURS for shape in SHAPES]},
            "36 of 36 held out",
        ),
    ],
)
def test_errors(settings, message):
    with pytest.raises(ValueError) as error:
        draw_shapes(**{"count": 1, **settings})
    assert message in str(error.value)

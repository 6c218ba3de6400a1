"""All contenders have one GPT: the same loss of the next tokens, the same texts."""

import importlib

import numpy as np
import pytest

from benchmarks import gpt
from benchmarks.suites import SUITES

CASE = {
    "dim": 16, "layers": 2, "heads": 2, "vocabulary": 30, "context": 40, "batch": 3, "steps": 2,
    "activation": "gelu", "dropout": 0.0, "prompt": 4, "new": 8,
}  # fmt: skip
WRITING = {**CASE, "activation": "gelu_tanh"}


def test_rows_and_their_next_tokens():
    ids, labels = gpt.rows(CASE)
    assert ids.shape == labels.shape == (6, 40)
    np.testing.assert_array_equal(ids[:, 1:], labels[:, :-1])


def test_the_numbers_of_weights():
    """nanoGPT says 0.80 million for its CPU setting, without positions."""
    suite = SUITES["language_model"]
    counts = []
    for case in suite.cases(suite.sizes):
        weights = gpt.make_weights({**suite.sizes, **case.values})
        counts.append(sum(v.size for name, v in weights.items() if name != "positions"))
    assert round(counts[0] / 1e6, 1) == 0.8 and round(counts[1] / 1e6, 1) == 3.2
    nano = SUITES["language_model"].cases(suite.sizes)[0].values
    assert (nano["dim"], nano["context"], nano["batch"], nano["dropout"]) == (128, 64, 12, 0.0)


@pytest.mark.slow
def test_the_losses_are_equal():
    """Those of untrained models, and the second one after a step of Adam from the first."""
    torch = pytest.importorskip("torch")
    import keras

    from benchmarks.peers import gpt as ours
    from benchmarks.peers import torch_gpt
    from keras_attn.training import MaskedCrossEntropy

    ids, labels = gpt.rows({**CASE, "steps": 1})
    model = ours.make_model(CASE)
    model.compile("adam", MaskedCrossEntropy(ignore_id=None))
    theirs = torch_gpt.Gpt(CASE)
    given = torch.from_numpy(ids).long()
    with torch.no_grad():
        logits = theirs(given).numpy()
    np.testing.assert_allclose(model.predict(ids, verbose=0), logits, atol=1e-4)
    adam = torch.optim.Adam(theirs.parameters(), lr=1e-3, eps=1e-7)
    assert float(keras.ops.convert_to_numpy(model.optimizer.learning_rate)) == pytest.approx(1e-3)
    for _ in range(3):
        value = torch_gpt.loss(theirs(given), torch.from_numpy(labels).long())
        assert model.train_on_batch(ids, labels) == pytest.approx(value.item(), rel=1e-4)
        adam.zero_grad()
        value.backward()
        adam.step()


@pytest.mark.slow
def test_equally_many_weights():
    torch = pytest.importorskip("torch")
    assert torch is not None
    from benchmarks.peers import gpt as ours
    from benchmarks.peers import torch_gpt

    theirs = sum(p.numel() for p in torch_gpt.Gpt(CASE).parameters())
    assert ours.make_model(CASE).count_params() == theirs
    assert sum(value.size for value in gpt.make_weights(CASE).values()) == theirs


@pytest.mark.slow
@pytest.mark.parametrize("peer", ["hub_gpt", "hf_gpt"])
def test_the_same_texts(peer):
    for name in ("keras_hub",) if peer == "hub_gpt" else ("torch", "transformers"):
        pytest.importorskip(name, reason=f"{name} is of the extra `benchmarks`")
    from benchmarks.peers import gpt as ours

    module = importlib.import_module(f"benchmarks.peers.{peer}")
    jobs = [ours.writing(WRITING, jit=False), ours.writing(WRITING, jit=True)]
    jobs.append(module.writing(WRITING, **({"jit": False} if peer == "hub_gpt" else {})))
    wanted, *others = (job.result(job.run()) for job in jobs)
    assert np.shape(wanted) == (3, 8) and len(np.unique(wanted)) > 3
    assert all(found == wanted for found in others)
    assert {job.amount for job in jobs} == {24}


@pytest.mark.slow
def test_a_token_behind_others(monkeypatch):
    """Single steps at their positions, in caches with more and with less room."""
    from benchmarks.peers import gpt as ours

    case = {**WRITING, "batch": 1, "at": 5, "new": 2, "turns": 2}
    found = [ours.tokens_at({**case, "room": room}, jit=False).run() for room in (8, 40)]
    assert found[0].shape == (1,) and found[0].tolist() == found[1].tolist()


@pytest.mark.parametrize("jit", [False, True])
def test_the_products_alone_stay_finite(jit):
    from benchmarks.peers import products

    job = products.writing({**WRITING, "batch": 3}, jit)
    found = job.run()
    assert (found.shape, job.amount) == ((3, CASE["dim"]), 3 * CASE["new"])
    assert np.isfinite(found).all() and (np.abs(found).max(axis=1) > 1e-6).all()


@pytest.mark.slow
def test_the_products_of_training():
    from benchmarks.peers import products

    job = products.language_model(CASE, jit=False)
    history = job.run().history
    assert np.isfinite(history["loss"]).all() and job.amount == 6 * CASE["context"]


def test_what_a_token_costs():
    suite = SUITES["writing"]
    rows = [
        {
            "case": case.name, "contender": "keras_attn, A", "values": case.values,
            "speed": {"median": speed},
        }
        for case, speed in zip(suite.cases(suite.sizes), (9.0, 9.0, 500, 250, 1000), strict=True)
    ]  # fmt: skip
    assert suite.remarks(suite.sizes, rows) == [
        "keras_attn, A: a token takes 2.00 ms behind 100 others and 4.00 ms behind 1000, with room "
        "for 1024: 2.00 and 4.00 times the 1.00 ms that it takes behind 100 with room for 128."
    ]
    assert suite.remarks(suite.sizes, rows[:3]) == []

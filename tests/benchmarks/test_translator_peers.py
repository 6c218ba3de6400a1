"""All contenders decode one model: what NumPy computes from the same weights, without caches."""

import importlib

import numpy as np
import pytest
from translator_reference import CASE, Reference

from benchmarks import translator

PEERS = {
    "ours": ({"jit": False}, ()),
    "hub": ({"jit": False}, ()),
    "marian": ({}, ("torch", "transformers")),
    "ctranslate": ({}, ("ctranslate2",)),
}


@pytest.fixture(scope="module")
def wanted():
    reference = Reference(CASE)
    return {beams: reference.decode(beams) for beams in (1, 3)}


def test_what_is_decoded_varies(wanted):
    """Else equal tokens would say little."""
    assert len({tuple(row) for row in wanted[1]}) > 2
    assert max(len(set(row)) for row in wanted[1]) > 2
    assert wanted[1] != wanted[3]
    assert not {translator.PAD, translator.END} & set(np.ravel(wanted[1]))


@pytest.mark.slow
@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("peer", PEERS)
def test_tokens(peer, beams, wanted):
    settings, packages = PEERS[peer]
    for name in packages:
        pytest.importorskip(name, reason=f"{name} is of the extra `benchmarks`")
    module = importlib.import_module(f"benchmarks.peers.{peer}")
    job = module.decoding({**CASE, "beams": beams}, **settings)
    assert job.result(job.run()) == wanted[beams]
    assert job.amount == CASE["batch"]


@pytest.mark.quick("3-False")
@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("beams", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_the_products_alone_stay_finite(beams, jit):
    """A row a beam, and none of them nothing: products of zeros or NaN may take another time."""
    from benchmarks.peers import products

    found = products.decoding({**CASE, "beams": beams}, jit).run()
    assert found.shape == (CASE["batch"] * beams, CASE["dim"])
    assert np.isfinite(found).all()
    assert (np.abs(found).max(axis=1) > 1e-6).all()


def test_batches_hold_the_same_pairs_and_as_many_tokens():
    """Plain batches and `TokenBatches`: the same tokens, in other batches."""
    from benchmarks.peers import ours

    case = {**CASE, "longest": 20, "pairs": 30, "sentences": 7, "multiple": 4, "shapes": 3,
            "batch_tokens": 80}  # fmt: skip

    def pairs(batches):
        found = []
        for inputs, labels, weight in batches:
            real = weight.any(axis=1)
            columns = (inputs["source_ids"], inputs["target_ids"], labels, weight, real)
            for row in zip(*columns, strict=True):
                source, target, label, counted, is_real = row
                if is_real:
                    assert (counted == (label != translator.PAD)).all()
                    lists = [[i for i in ids if i] for ids in (source, target, label)]
                    assert lists[1][0] == translator.START and lists[2][-1] == translator.END
                    assert lists[1][1:] == lists[2][:-1]
                    found.append((tuple(lists[0]), tuple(lists[2])))
        return sorted(found)

    plain = list(translator.plain_batches(case))
    bucketed = ours.token_batches(case)
    assert pairs(plain) == pairs(bucketed[i] for i in range(len(bucketed)))
    assert len(pairs(plain)) == 30
    assert all(labels.shape[1] % 4 == 0 for _, labels, _ in plain)

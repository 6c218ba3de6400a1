"""All contenders have one imported translator: the same texts from the same strings."""

import importlib

import pytest

pytest.importorskip("sentencepiece")

from benchmarks import opus

CASE = {
    "dim": 16, "layers": 1, "heads": 2, "intermediate": 32, "vocabulary": 500, "pieces": 300,
    "source": 8, "target": 9, "batch": 3, "beams": 3,
}  # fmt: skip


@pytest.fixture(autouse=True)
def made_up(monkeypatch):
    monkeypatch.delenv("KERAS_ATTN_DATA", raising=False)
    opus.sentence_pieces.cache_clear()
    opus.vocabulary.cache_clear()


def test_sources():
    """All have the same number of tokens, whatever the batch."""
    model, _ = opus.processors(CASE)
    texts = opus.texts(CASE)
    assert {len(model.encode(text)) for text in texts} == {7} and len(set(texts)) == 3
    assert opus.texts({**CASE, "batch": 1}) == texts[:1]
    tokens = opus.vocabulary(500, 300)
    assert len(set(tokens)) == 500 and tokens[0] == "</s>" and tokens[-1] == "<pad>"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")
@pytest.mark.parametrize("beams", [1, 3])
def test_the_same_texts(beams):
    pytest.importorskip("ctranslate2", reason="ctranslate2 is of the extra `benchmarks`")
    found = {}
    for name, settings in {
        "opus": {"jit": True},
        "opus_torch": {},
        "opus_ctranslate": {"compute": "float32"},
    }.items():
        peer = importlib.import_module(f"benchmarks.peers.{name}")
        job = peer.translating({**CASE, "beams": beams}, **settings)
        assert job.amount == 3
        found[name] = [" ".join(text.split()) for text in job.result(job.run())]
        assert peer.file({**CASE, "beams": beams}, **settings).amount > 1e4
    assert found["opus"] == found["opus_torch"] == found["opus_ctranslate"]
    assert len(set(found["opus"])) > 1

"""Tasks on a bidirectional LSTM instead of a Transformer: tags, answers, vectors, masked words."""

import keras
import pytest
import tensorflow as tf
from answering_toys import PAIRS, questions
from tagging_toys import DATA, TEXTS, sentences

from keras_attn.interop import save_pretrained
from keras_attn.models.tensors import model_tensors
from keras_attn.tasks import (
    AnswerSelector,
    Pretrainer,
    QuestionAnswerer,
    SimilarityScorer,
    Tagger,
    TextClassifier,
)

BILSTM = {"model": "bilstm", "dim": 16, "dropout": 0.0}
SCORED = [(("a dog runs", "a hound runs"), 4.5), (("a dog runs", "the sea is cold"), 0.5)] * 8


@pytest.fixture(scope="module")
def untrained():
    keras.utils.set_random_seed(0)
    return Tagger.create(sentences(), data=DATA, model=BILSTM)


@pytest.fixture(scope="module")
def tagger():
    keras.utils.set_random_seed(0)
    tagger = Tagger.create(sentences(), data=DATA, model=BILSTM)
    tagger.fit(sentences(120), epochs=12, batch_size=16, learning_rate=2e-2, verbose=0)
    return tagger


@pytest.mark.slow
def test_a_tagger_learns_and_is_exported(tagger, unsaved, tmp_path):
    assert tagger.score(sentences(20, seed=1))["f1"] > 0.8
    assert repr(tagger).startswith("Tagger(bilstm, ")
    tagger.export("nowhere")
    found = unsaved[0]["serving_default"](text=tf.constant(TEXTS))
    for i, tagged in enumerate(tagger.predict(TEXTS)):
        assert [x.decode() for x in found["labels"].numpy()[i] if x] == list(tagged.labels)
    tagger.save(tmp_path / "t.task")
    again = Tagger.load(tmp_path / "t.task")
    assert again.config == tagger.config and again.predict(TEXTS) == tagger.predict(TEXTS)


@pytest.mark.slow
def test_what_has_no_attention_is_explained_by_gradients(untrained, eager):
    assert untrained.explain(TEXTS[0], word="Rome", method="gradient").strongest(1)
    with pytest.raises(ValueError, match="If it has no attention, use gradients"):
        untrained.explain([TEXTS[0]])


@pytest.mark.slow
def test_what_needs_blocks_or_another_model_is_refused(untrained, tmp_path):
    tagger = untrained
    for settings in ({"lora_rank": 2}, {"layer_decay": 0.9}, {"frozen_layers": 1}):
        with pytest.raises(ValueError, match=r"which has no such blocks\. Remove these settings"):
            tagger.fit(sentences(8), epochs=1, verbose=0, **settings)
    with pytest.raises(TypeError, match="a `BertConfig`"):
        save_pretrained(tmp_path / "folder", tagger.model, tagger.config, tagger.tokenizer)
    tagger.save(tmp_path / "t.task")
    texts = [("Ada meets Bob", "good"), ("Tom sees Eva", "bad")]
    backbone = {"backbone": str(tmp_path / "t.task"), "max_length": 24}
    with pytest.raises(ValueError, match="'bilstm', which this task does not support"):
        TextClassifier.create(texts, data=backbone)


@pytest.mark.slow
def test_pretraining_comes_before_tagging(tmp_path):
    documents = [[" ".join(words) for words, _ in sentences(6, seed)] for seed in range(4)]
    pretrainer = Pretrainer.create(documents, data=DATA, model=BILSTM)
    pretrainer.fit(documents, epochs=1, batch_size=8, verbose=0)
    pretrainer.save(tmp_path / "p.task")
    found = Tagger.create(
        sentences(8), data={"backbone": str(tmp_path / "p.task"), "max_length": 24}
    )
    assert {name.split("/")[0] for name in found.loaded.new} == {"tags"}
    theirs = model_tensors(pretrainer.model)
    for name, value in model_tensors(found.model).items():
        assert name.startswith("tags/") or (value == theirs[name]).all()


@pytest.mark.slow
def test_other_heads():
    asked = questions(24)
    data = {"vocabulary_size": 150, "max_length": 48, "max_question_length": 16}
    answerer = QuestionAnswerer.create(asked, data=data, model=BILSTM)
    answerer.fit(asked, epochs=2, batch_size=8, verbose=0)
    assert all(
        answer.text in text
        for answer, (_, text) in zip(answerer.predict(PAIRS), PAIRS, strict=True)
    )
    for kind in ("bi", "cross"):
        scorer = SimilarityScorer.create(
            SCORED, data={"kind": kind, "vocabulary_size": 60}, model=BILSTM
        )
        scorer.fit(SCORED, epochs=12, learning_rate=1e-2, verbose=0)
        close, far = scorer.predict([SCORED[0][0], SCORED[1][0]])
        assert close > far + 1
    selector = AnswerSelector.create(
        [("Where is the clock?", ["The clock is in the sea."]), ("Which dog?", ["A hound."])],
        data={"vocabulary_size": 60},
        model=BILSTM,
    )
    assert len(selector.predict("Where is the clock?", top_k=2)) == 2

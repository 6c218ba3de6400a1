"""Tasks from a folder of ModernBERT: classes, tags, and their exports."""

import keras
import numpy as np
import pytest
import tensorflow as tf
import torch
from tagging_toys import TEXTS, sentences

from keras_attn.interop import read_pretrained, save_pretrained
from keras_attn.models import ModernBertConfig, with_heads
from keras_attn.tasks import Tagger, TextClassifier, read_backbone
from keras_attn.text import BytePairTokenizer

transformers = pytest.importorskip("transformers", reason="transformers is of the extra `test`")

SPECIAL = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"]
WHOLE = ["  ", "   "]
LABELLED = [("a good  film", "yes"), ("a bad   film", "no"), ("bad", "no"), ("good", "yes")] * 4
ODD = ["", "  ", "a\u0301 good film", "not  bad\n\n x", "a film about the sea and the sun " * 3]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A ModernBERT for masked words with random weights, whose padding has the last id but one."""
    words = [" ".join(words) for words, _ in sentences(30)]
    trained = BytePairTokenizer.train(
        [*words, *(text for text, _ in LABELLED)], 300, normalize=False, pattern="gpt2",
        allow_fewer=True,
    )  # fmt: skip
    tokens = [*trained.vocabulary[3:], *WHOLE, *SPECIAL[1:], "[PAD]"]
    tokenizer = BytePairTokenizer(
        tokens, trained.merges, False, "gpt2", SPECIAL, compose=True, whole_tokens=WHOLE
    )
    keras.utils.set_random_seed(0)
    config = ModernBertConfig(
        tokenizer.vocabulary_size, dim=16, num_layers=2, num_heads=2, intermediate_dim=24,
        sliding_window=4, pad_id=tokenizer.pad_id, pooling="average", pooler_activation=None,
        dropout=0.0,
    )  # fmt: skip
    folder = tmp_path_factory.mktemp("modern") / "folder"
    save_pretrained(folder, with_heads(config, ("masked_words",)), config, tokenizer)
    return str(folder)


def data(folder, **more):
    return {"backbone": folder, "max_length": 32, **more}


@pytest.fixture(scope="module")
def classifier(folder):
    classifier = TextClassifier.create(LABELLED, data=data(folder))
    assert {name.split("/")[0] for name in classifier.loaded.new} == {"head"}
    classifier.fit(LABELLED, epochs=2, batch_size=8, learning_rate=1e-2, verbose=0)
    return classifier


@pytest.mark.slow
def test_a_classifier_of_texts(classifier, tmp_path):
    """It pools as the folder says, saves and loads, and is a folder that transformers reads."""
    config = classifier.config
    assert (config.pooling, config.pad_id) == ("average", classifier.tokenizer.pad_id)
    texts = [*ODD, *(text for text, _ in LABELLED[:4])]
    found = classifier.predict(texts)
    classifier.save(tmp_path / "t.task")
    again = TextClassifier.load(tmp_path / "t.task")
    assert again.tokenizer.get_config() == classifier.tokenizer.get_config()
    assert again.predict(texts) == found
    save_pretrained(
        tmp_path / "out", classifier.model, config, classifier.tokenizer, labels=["no", "yes"]
    )
    theirs = transformers.ModernBertForSequenceClassification.from_pretrained(tmp_path / "out")
    reference = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    with torch.no_grad():
        for text, one in zip(texts, found, strict=True):
            rows = reference(text, truncation=True, max_length=32, return_tensors="pt")
            if len(reference(text)["input_ids"]) > 32:
                continue  # here the end of a long text is read too
            logits = theirs(**rows).logits[0]
            best = torch.softmax(logits, -1).max().item()
            assert theirs.config.id2label[int(logits.argmax())] == one.label
            np.testing.assert_allclose(max(one.probabilities.values()), best, atol=1e-5)
    explained = classifier.explain("a good  film", method="gradient")
    assert len(explained.tokens) == len(classifier.tokenizer.encode("a good  film"))


@pytest.mark.slow
def test_a_classifier_is_exported(classifier, tmp_path):
    classifier.export(tmp_path / "served")
    serve = tf.saved_model.load(tmp_path / "served").signatures["serving_default"]
    texts = [*ODD, *(text for text, _ in LABELLED[:4])]
    found = serve(text=tf.constant(texts))
    wanted = classifier.predict(texts)
    assert [x.decode() for x in found["label"].numpy()] == [one.label for one in wanted]


@pytest.mark.slow
def test_a_tagger(folder, tmp_path):
    """Tags read the transformation that masked words had, as in transformers."""
    tagger = Tagger.create(sentences(64), data=data(folder), model={"dropout": 0.0})
    assert {name.split("/")[0] for name in tagger.loaded.new} == {"tags"}
    tagger.fit(sentences(64), epochs=2, batch_size=16, learning_rate=1e-2, verbose=0)
    tagger.save(tmp_path / "t.task")
    assert Tagger.load(tmp_path / "t.task").predict(TEXTS) == tagger.predict(TEXTS)
    assert read_backbone(tmp_path / "t.task").model == "modern_bert"
    save_pretrained(tmp_path / "out", tagger.model, tagger.config, tagger.tokenizer)
    transformers.ModernBertForTokenClassification.from_pretrained(tmp_path / "out")
    assert read_pretrained(tmp_path / "out").heads == ("tags",)
    tagger.export(tmp_path / "served")
    serve = tf.saved_model.load(tmp_path / "served").signatures["serving_default"]
    found = serve(text=tf.constant(TEXTS))
    for i, tagged in enumerate(tagger.predict(TEXTS)):
        assert [x.decode() for x in found["labels"].numpy()[i] if x] == list(tagged.labels)

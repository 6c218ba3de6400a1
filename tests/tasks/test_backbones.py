"""Tasks that start from folders of Hugging Face weights."""

import numpy as np
import pretraining_toys
import pytest
from pretraining_toys import SIZES, documents

from keras_attn.interop import save_pretrained
from keras_attn.models import BertConfig, hidden_states
from keras_attn.models.tensors import model_tensors
from keras_attn.tasks import EncoderTask, Pretrainer, SentenceIds, TextClassifier, read_backbone
from keras_attn.text import WordPieceTokenizer

EXAMPLES = [(sentence, "ab"[i % 2]) for i, (sentence, *_) in enumerate(documents(8))]


@pytest.fixture(scope="module")
def pretrainer(tmp_path_factory):
    return pretraining_toys.untrained(tmp_path_factory.mktemp("task") / "p.task")


@pytest.fixture(scope="module")
def folder(pretrainer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("folder") / "bert"
    save_pretrained(folder, pretrainer.model, pretrainer.config, pretrainer.tokenizer)
    return folder


@pytest.mark.slow
def test_a_pretrainer_goes_on_from_a_folder(pretrainer, folder):
    again = Pretrainer.create(documents(5), data={"backbone": str(folder), "max_length": 32})
    assert again.loaded.new == [] and again.loaded.left_over == []
    assert again.tokenizer.get_config() == pretrainer.tokenizer.get_config()
    ours = model_tensors(pretrainer.model)
    for name, value in model_tensors(again.model).items():
        np.testing.assert_array_equal(value, ours[name])


@pytest.mark.slow
def test_a_classifier_starts_from_a_folder(pretrainer, folder):
    data = {"backbone": str(folder), "max_length": 32}
    classifier = TextClassifier.create(EXAMPLES, data=data)
    assert {name.split("/")[0] for name in classifier.loaded.new} == {"head"}
    ids, segments = pretrainer.field.encode(["the dog barks"])
    inputs = {"token_ids": ids, "segment_ids": segments, "padding_mask": ids != 0}
    states = hidden_states(pretrainer.model, inputs)[-1]
    layers = {layer.name: layer for layer in classifier.model.layers}
    expected = layers["head"](layers["pooler"](states[:, 0]))
    np.testing.assert_allclose(classifier.predict_logits("the dog barks"), expected, atol=1e-5)
    other = TextClassifier(
        classifier.tokenizer, ["a", "b"], model=classifier.config, data={"max_length": 32}
    )
    assert other.load_backbone(folder) == classifier.loaded
    # A setting alone is one of the backbone's architecture, whatever the default is.
    dropped = TextClassifier.create(EXAMPLES, data=data, model={"dropout": 0.3})
    assert type(dropped.config) is type(classifier.config) and dropped.config.dropout == 0.3
    with pytest.raises(ValueError, match="'bert', which has no setting `hidden_dim`"):
        TextClassifier.create(EXAMPLES, data=data, model={"hidden_dim": 8})
    with pytest.raises(
        ValueError, match=r"`lowercase` is only used for a new tokenizer.*lowercase=False"
    ):
        EncoderTask.Data(backbone=str(folder), lowercase=False)
    for name, value in (
        ("tokenizer", "words"), ("vocabulary_size", 50), ("vocabulary_file", "vocab.txt"),
    ):  # fmt: skip
        with pytest.raises(
            ValueError, match=rf"`{name}` is only used for a new tokenizer.*{name}={value!r}"
        ):
            TextClassifier.Data(**data, **{name: value})
    average = TextClassifier.create(
        EXAMPLES, data=data, model={"model": "bert", "pooling": "average"}
    )
    assert {name.split("/")[0] for name in average.loaded.left_over} >= {"pooler"}


@pytest.mark.slow
def test_a_distilbert(pretrainer, tmp_path):
    config = BertConfig(
        **{
            **pretrainer.config.to_dict(),
            "num_segments": None,
            "pooler_activation": None,
        }
    )
    save_pretrained(tmp_path / "d", config.build(), config, pretrainer.tokenizer)
    data = {"backbone": str(tmp_path / "d"), "max_length": 32}
    classifier = TextClassifier.create(EXAMPLES, data=data)
    assert {name.split("/")[0] for name in classifier.loaded.new} == {"head"}
    assert classifier.config.num_segments is None
    classifier.fit(EXAMPLES, epochs=1, verbose=0)
    pretrainer = Pretrainer.create(documents(9), data={**data, "next_sentence": False})
    assert {x.split("/")[0] for x in pretrainer.loaded.new} == {
        "embedding", "masked_words", "masked_words_norm"
    }  # fmt: skip
    pretrainer.fit(documents(9), epochs=1, verbose=0)
    assert len(pretrainer.predict("the [MASK] barks").masks[0]) == 5
    with pytest.raises(ValueError, match="require a pooler"):
        Pretrainer.create(documents(9), data=data)
    with pytest.raises(ValueError, match="require a pooler"):
        Pretrainer(
            pretrainer.tokenizer, model=config, data={"max_length": 32, "next_sentence": True}
        )


@pytest.mark.slow
def test_another_vocabulary(pretrainer, tmp_path):
    """As many tokens in another order: the embedding is not taken, the encoder is."""
    pretrainer.save(tmp_path / "p.task")
    words = pretrainer.tokenizer.vocabulary
    tokenizer = WordPieceTokenizer([*words[:5], *words[:4:-1]], mask_in_text=True)
    classifier = TextClassifier(
        tokenizer, ["a", "b"], model={"model": "bert", **SIZES}, data={"max_length": 32}
    )
    report = classifier.load_backbone(tmp_path / "p.task")
    assert {name.split("/")[0] for name in report.new} == {"embedding", "head"}
    assert any(name.startswith("encoder/") for name in report.loaded)
    # Ids that were made with another vocabulary are refused.
    ids = SentenceIds.encoded(documents(9), tokenizer)
    data = {"backbone": str(tmp_path / "p.task"), "max_length": 32}
    with pytest.raises(ValueError, match="ids of the backbone's vocabulary"):
        Pretrainer.create(ids, data=data)


def test_the_documents_of_a_run_have_a_name(pretrainer):
    one, two = documents(4), documents(4, seed=1)
    names = [pretrainer.digest(*sides) for sides in ((one, two), (two, one), (one, one), (one, ()))]
    assert len(set(names)) == 4
    ids = pretrainer.sentence_ids(one)
    assert pretrainer.digest(ids, two) == names[0]


def test_a_folder_without_a_tokenizer(pretrainer, tmp_path):
    save_pretrained(tmp_path / "bert", pretrainer.model, pretrainer.config)
    with pytest.raises(ValueError, match="weights with their tokenizer"):
        read_backbone(tmp_path / "bert")

"""sentence-transformers folders: their settings in vector tasks, and folders of our own."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import transformers
from similarity_toys import TEXTS, TOKENIZER

from keras_attn.interop.sentence_folders import (
    SentenceSettings,
    read_sentence_settings,
)
from keras_attn.tasks import AnswerSelector, SimilarityScorer

EAGER = pytest.mark.usefixtures("eager")
PROMPTS = {"query": "who : ", "passage": "the ", "text": "a red "}
TYPE = "sentence_transformers.models"


def write(folder, modules, **files):
    """Writes the settings of a folder as their authors publish them."""
    modules = [{"idx": i, "path": p, "type": kind} for i, (p, kind) in enumerate(modules)]
    for name, content in {"modules": modules, **files}.items():
        path = folder / f"{name.replace('__', '/')}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(content))


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    """A random BERT of transformers in a folder with its vocabulary, and the model itself."""
    folder = tmp_path_factory.mktemp("sentences")
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=TOKENIZER.vocabulary_size, hidden_size=12, num_hidden_layers=1,
        num_attention_heads=3, intermediate_size=20, max_position_embeddings=16,
    )  # fmt: skip
    model = transformers.BertModel(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.3 * torch.randn_like(weight))
    model.save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(TOKENIZER.vocabulary) + "\n")
    return folder, model


def states(model, text, max_length):
    ids = TOKENIZER.encode([text])[0][: max_length - 2]
    row = torch.tensor([[TOKENIZER.start_id, *ids, TOKENIZER.end_id]])
    with torch.no_grad():
        return model(input_ids=row).last_hidden_state[0].numpy()


POOLED = {"average": lambda x: x.mean(axis=0), "first": lambda x: x[0], "max": lambda x: x.max(0)}


@pytest.mark.quick("first")
@EAGER
@pytest.mark.parametrize("pooling", ["max", "average", "first"])
def test_a_folder_brings_its_own_settings(encoder, pooling):
    folder, model = encoder
    unit = pooling != "max"
    kinds = ["Transformer", "Pooling", *(["Normalize"] if unit else [])]
    names = {"max": "max_tokens", "average": "mean_tokens", "first": "cls_token"}
    modes = {f"pooling_mode_{name}": ours == pooling for ours, name in names.items()}
    if pooling == "first":
        modes = {"pooling_mode": "cls", "include_prompt": True}
    write(
        folder,
        [("" if i == 0 else f"{i}_{kind}", f"{TYPE}.{kind}") for i, kind in enumerate(kinds)],
        **{"1_Pooling__config": {"word_embedding_dimension": 12, **modes}},
        sentence_bert_config={"max_seq_length": 9, "do_lower_case": False},
        config_sentence_transformers={"prompts": PROMPTS, "default_prompt_name": "text"},
    )
    scorer = SimilarityScorer.from_backbone(folder)
    expected = np.array([POOLED[pooling](states(model, "a red " + text, 9)) for text in TEXTS])
    if unit:
        expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(scorer.embed(TEXTS), expected, atol=1e-5)
    assert (scorer.data.max_length, scorer.data.prompt) == (9, "a red ")
    assert SimilarityScorer.from_backbone(folder, prompt="", pooling="first").sentences == (
        SentenceSettings("first", unit, 9)
    )
    if pooling == "max":
        cross = SimilarityScorer.from_backbone(folder, kind="cross", max_length=16)
        assert cross.data.pooling is cross.data.prompt is None
    if pooling == "average":
        selector = AnswerSelector.from_backbone(folder, ["big dog", "cat"])
        vectors = [POOLED[pooling](states(model, text, 9)) for text in ("the big dog", "the cat")]
        question = POOLED[pooling](states(model, "who : a dog", 9))
        cosines = [v @ question / np.linalg.norm(v) / np.linalg.norm(question) for v in vectors]
        found = sorted(selector.predict("a dog"), key=lambda x: x.number)
        np.testing.assert_allclose([x.score for x in found], cosines, atol=1e-5)


@pytest.mark.slow
@EAGER
def test_prompts_are_not_explained(encoder):
    """Only the words of the texts have weights, which are those of the text with the prompt."""
    scorer = SimilarityScorer.from_backbone(encoder[0], prompt="a red ", max_length=12)
    whole = SimilarityScorer.from_backbone(encoder[0], prompt="", max_length=12)
    found = scorer.explain(("dog runs", "big bird"))
    expected = whole.explain(("a red dog runs", "a red big bird"))
    assert list(found.tokens) == ["dog", "runs", "big", "bird"]
    assert list(found.offsets) == [(0, 3), (4, 8), (0, 3), (4, 8)]
    wanted = [w for i, w in enumerate(expected.weights) if i % 4 > 1]
    np.testing.assert_allclose(found.weights, wanted, atol=1e-6)


@pytest.mark.slow
@EAGER
def test_our_own_folders(encoder, tmp_path):
    data = {"prompt": "a red ", "pooling": "first", "unit_length": True, "max_length": 11}
    scorer = SimilarityScorer.from_backbone(encoder[0], **data)
    scorer.save_pretrained(tmp_path / "a")
    again = SimilarityScorer.from_backbone(tmp_path / "a")
    assert again.sentences == scorer.sentences
    np.testing.assert_allclose(again.embed(TEXTS), scorer.embed(TEXTS), atol=1e-6)
    cross = SimilarityScorer.from_backbone(encoder[0], kind="cross", max_length=16)
    with pytest.raises(ValueError, match="Vectors of texts require kind='bi'"):
        cross.save_pretrained(tmp_path / "b")


def broken(change):
    files = SimpleNamespace(
        modules=[("", f"{TYPE}.Transformer"), ("1_Pooling", f"{TYPE}.Pooling")],
        pooling={"word_embedding_dimension": 12, "pooling_mode_mean_tokens": True},
        lengths={"max_seq_length": 9},
        prompts={},
        config={"hidden_size": 12, "max_position_embeddings": 16},
    )
    change(files)
    return files


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda x: x.modules.append(("2_Dense", f"{TYPE}.Dense")), r"'Dense'\]. Other modules"),
        (lambda x: x.modules.pop(), r"Received: \['Transformer'\]"),
        (lambda x: x.modules.__setitem__(1, ("../a", f"{TYPE}.Pooling")), "inside its own"),
        (lambda x: x.modules.__setitem__(0, ("", "mine.Transformer")), "mine.Transformer"),
        (lambda x: x.pooling.update(pooling_mode_max_tokens=True), r"\['max', 'mean'\]"),
        (lambda x: x.pooling.update(pooling_mode="lasttoken"), "Received: .*lasttoken"),
        (lambda x: x.pooling.update(include_prompt=False), "`include_prompt` must be True"),
        (lambda x: x.pooling.update(word_embedding_dimension=13), "must be 12 by .* Received: 13"),
        (lambda x: x.pooling.update(sharpness=2), "`sharpness` is not supported"),
        (lambda x: x.lengths.update(max_seq_length=0), "at least 1. Received: 0"),
        (lambda x: x.lengths.update(do_lower_case=True), "`do_lower_case` must be False"),
        (lambda x: x.lengths.update(transformer_task="fill-mask"), "`transformer_task` must be"),
        (lambda x: x.prompts.update(prompts={"a": 3}), "`prompts` must be strings"),
        (lambda x: x.prompts.update(default_prompt_name="b"), "one of these names"),
        (lambda x: x.prompts.update(similarity_fn_name="dot"), "must be 'cosine'. Received: 'dot'"),
        (lambda x: x.prompts.update(model_type="CrossEncoder"), "`model_type` must be"),
        (lambda x: x.config.pop("hidden_size"), "must give the width, the number of pos"),
        (lambda x: x.config.update(model_type="roberta", pad_token_id=None), "16, None"),
        (lambda x: x.modules.__setitem__(1, ("\ud800", f"{TYPE}.Pooling")), "inside its own"),
    ],
)  # fmt: skip
def test_what_would_give_other_vectors_is_refused(tmp_path, change, words):
    files = broken(change)
    write(
        tmp_path, files.modules, config=files.config, sentence_bert_config=files.lengths,
        config_sentence_transformers=files.prompts, **{"1_Pooling__config": files.pooling},
    )  # fmt: skip
    with pytest.raises(ValueError, match=words) as caught:
        read_sentence_settings(tmp_path)
    assert str(tmp_path) in str(caught.value)


def test_a_length_that_no_text_has_names_the_folder(tmp_path):
    files = broken(lambda x: x.lengths.update(max_seq_length=1))
    write(
        tmp_path, files.modules, config=files.config, sentence_bert_config=files.lengths,
        **{"1_Pooling__config": files.pooling},
    )  # fmt: skip
    with pytest.raises(ValueError, match=r"`max_length` must be at least 5\.") as caught:
        SimilarityScorer.from_backbone(tmp_path)
    assert str(tmp_path) in str(caught.value)


def test_folders_of_older_and_newer_versions(tmp_path):
    """The encoder may be in a folder of its own; lengths may be those of the tokenizer."""
    modules = [("0_Transformer", f"{TYPE}.Transformer"), ("1_Pooling", f"{TYPE}.Pooling")]
    write(
        tmp_path, modules, **{"1_Pooling__config": {"embedding_dimension": 12}},
        **{"0_Transformer__config": {"dim": 12, "max_position_embeddings": 16}},
        **{"0_Transformer__sentence_distilbert_config": {"max_seq_length": 30}},
    )  # fmt: skip
    assert read_sentence_settings(tmp_path) == SentenceSettings(max_length=16)
    roberta = {"model_type": "roberta", "hidden_size": 12, "max_position_embeddings": 18}
    (tmp_path / "new").mkdir()
    write(
        tmp_path / "new", [("", modules[0][1]), modules[1]], config=roberta,
        tokenizer_config={"model_max_length": 10**30}, **{"1_Pooling__config": {
            "embedding_dimension": 12, "pooling_mode": ["mean"]}},
    )  # fmt: skip
    assert read_sentence_settings(tmp_path / "new") == SentenceSettings(max_length=16)
    (tmp_path / "new" / "tokenizer_config.json").write_text('{"model_max_length": 12}')
    assert read_sentence_settings(tmp_path / "new").max_length == 12
    assert read_sentence_settings(tmp_path / "0_Transformer") is None


@pytest.mark.slow
@EAGER
@pytest.mark.parametrize("pooling", ["average", "first", "max"])
@pytest.mark.parametrize("unit_length", [True, False])
def test_sentence_transformers_loads_our_folders(encoder, pooling, unit_length, tmp_path):
    library = pytest.importorskip("sentence_transformers")
    data = {"pooling": pooling, "unit_length": unit_length, "max_length": 11}
    scorer = SimilarityScorer.from_backbone(encoder[0], prompt="a red ", **data)
    scorer.save_pretrained(tmp_path / "a")
    theirs = library.SentenceTransformer(str(tmp_path / "a"), device="cpu")
    np.testing.assert_allclose(scorer.embed(TEXTS), theirs.encode(TEXTS), atol=1e-5)
    prompts = {"query_prompt": "who : ", "passage_prompt": "the "}
    selector = AnswerSelector.from_backbone(encoder[0], ["a"], **data, **prompts)
    selector.save_pretrained(tmp_path / "b")
    theirs = library.SentenceTransformer(str(tmp_path / "b"), device="cpu")
    for prompt, encode in zip(
        selector.prompts, (theirs.encode_query, theirs.encode_document), strict=True
    ):
        found = selector.embed(TEXTS, prompt=prompt)
        np.testing.assert_allclose(found, encode(TEXTS), atol=1e-5)
    theirs.save_pretrained(str(tmp_path / "c"))
    assert read_sentence_settings(tmp_path / "c") == selector.sentences

"""Similarity: vectors as transformers pools them, training, files, the SavedModel, backends."""

import functools
from pathlib import Path

import keras
import numpy as np
import pytest
import similarity_toys
import tensorflow as tf
import torch
import transformers
from integrated_reference import integrated
from processes import answer
from similarity_toys import LONG, PAIRS, SIZES, TEXTS, TOKENIZER, everything, make
from tracing import eagerly

from keras_attn.batches import ScoredPairBatches
from keras_attn.interop import save_pretrained
from keras_attn.models import paired_encoder
from keras_attn.records import ScoredPair
from keras_attn.tasks import SimilarityData, SimilarityScorer

EACH = pytest.mark.parametrize("kind", ["bi", "cross"])
QUICK_BI = pytest.mark.parametrize("kind", ["bi", pytest.param("cross", marks=pytest.mark.slow)])
EAGER = pytest.mark.usefixtures("eager")
EXAMPLES = [
    ((f"a {one} dog", f"the {other} {noun}"), 5.0 if noun == "hound" else 1.0)
    for one in ("big", "small")
    for other in ("big", "small")
    for noun in ("hound", "bird")
]


@pytest.fixture(scope="module")
def scorers(tmp_path_factory):
    """Untrained scorers, and the folder of their files."""
    folder = tmp_path_factory.mktemp("similarity")
    made = {kind: make(kind) for kind in ("bi", "cross")}
    for kind, scorer in made.items():
        scorer.save(folder / kind)
    return made, folder


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    """A random BERT of transformers in a folder with its vocabulary, and the model itself."""
    folder = tmp_path_factory.mktemp("pretrained")
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=TOKENIZER.vocabulary_size, hidden_size=12, num_hidden_layers=2,
        num_attention_heads=3, intermediate_size=20, max_position_embeddings=16,
    )  # fmt: skip
    model = transformers.BertModel(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.3 * torch.randn_like(weight))
    model.save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(TOKENIZER.vocabulary) + "\n")
    return folder, model


def pooled(model, texts, pooling, max_length):
    """Vectors of texts, each alone, by PyTorch."""
    found = []
    for ids in TOKENIZER.encode(texts):
        row = torch.tensor([[TOKENIZER.start_id, *ids[: max_length - 2], TOKENIZER.end_id]])
        with torch.no_grad():
            states = model(input_ids=row).last_hidden_state[0].numpy()
        found.append(states.mean(axis=0) if pooling == "average" else states[0])
    return np.array(found)


@EAGER
@pytest.mark.parametrize("pooling", [None, pytest.param("first", marks=pytest.mark.slow)])
def test_vectors_are_those_of_transformers(pretrained, pooling):
    folder, model = pretrained
    scorer = SimilarityScorer.from_backbone(folder, max_length=10, pooling=pooling)
    assert scorer.kind == "bi"
    assert {name.split("/")[0] for name in scorer.loaded.loaded} >= {"embedding", "encoder"}
    expected = pooled(model, TEXTS, pooling or "average", 10)
    found = scorer.embed(TEXTS, batch_size=4)
    assert (found.dtype, found.shape) == (np.float32, (6, 12))
    np.testing.assert_allclose(found, expected, atol=1e-5)
    unit = expected / np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(scorer.embed(TEXTS, normalize=True), unit, atol=1e-5)
    cosines = [float(unit[TEXTS.index(a)] @ unit[TEXTS.index(b)]) for a, b in PAIRS]
    np.testing.assert_allclose(scorer.predict(PAIRS), cosines, atol=1e-5)
    scaled = SimilarityScorer.from_backbone(
        folder, max_length=10, pooling=pooling, lowest=1.0, highest=5.0
    )
    np.testing.assert_allclose(scaled.predict(PAIRS), 1 + 4 * np.array(cosines), atol=4e-5)
    assert scorer.embed([]).shape == (0, 12)
    assert scorer.predict([]) == []


@pytest.mark.slow
@EAGER
def test_cross_reads_both_texts(pretrained):
    """As BertForSequenceClassification with one class and segments."""
    folder, model = pretrained
    scorer = SimilarityScorer.from_backbone(folder, kind="cross", max_length=16)
    head = scorer.model.get_layer("classes")
    pair = ("a dog runs", "the cat sleeps")
    one, two = TOKENIZER.encode(list(pair))
    start, end = TOKENIZER.start_id, TOKENIZER.end_id
    row = torch.tensor([[start, *one, end, *two, end]])
    segments = torch.tensor([[0] * (len(one) + 2) + [1] * (len(two) + 1)])
    with torch.no_grad():
        vector = model(input_ids=row, token_type_ids=segments).pooler_output[0].numpy()
    kernel, bias = (np.asarray(w) for w in (head.kernel, head.bias))
    assert scorer.predict(pair) == pytest.approx(float((vector @ kernel + bias)[0]), abs=1e-5)


def contributions(model, score, calls, method):
    """The weight of each token of each call of the encoder, by PyTorch, while the vectors of other
    calls remain as they are. The tokenizer has no `[MASK]`."""
    special = torch.tensor([TOKENIZER.start_id, TOKENIZER.end_id])

    def asked(part, number):
        """The score at a point of the way from the blank text, and the weights there."""
        seen, ways = [], []

        def moved(module, inputs, given, output):
            seen.append(output)
            if len(seen) == number + 1:
                begin = torch.zeros_like(output)
                if method != "gradient":
                    ids = given["input_ids"]
                    blank = torch.where(torch.isin(ids, special), ids, TOKENIZER.pad_id)
                    handle.remove()  # or it would be called by this, too
                    begin = model.embeddings(**{**given, "input_ids": blank})
                ways.append((output - begin).detach())
                seen[-1] = (begin.detach() + part * ways[0]).requires_grad_(True)
            return seen[-1]

        handle = model.embeddings.register_forward_hook(moved, with_kwargs=True)
        value = score()
        handle.remove()
        (gradient,) = torch.autograd.grad(value, [seen[number]])
        return value.item(), (ways[0] * gradient).sum(-1)[0].detach().numpy()

    if method == "gradient":
        return [asked(1.0, number)[1] for number in range(calls)]
    return [integrated(functools.partial(asked, number=number)) for number in range(calls)]


@pytest.mark.slow
@EAGER
@EACH
@pytest.mark.parametrize("method", ["gradient", "integrated_gradients"])
def test_explanations_are_gradients(pretrained, kind, method):
    """Each word of both texts has the sum of its pieces; special tokens have no weight."""
    folder, model = pretrained
    data = {"kind": kind, "max_length": 10, "lowest": 1.0, "highest": 5.0}
    scorer = SimilarityScorer.from_backbone(folder, **data)
    start, end = TOKENIZER.start_id, TOKENIZER.end_id
    pairs = [("a dog runs", "the cat sleeps"), (LONG, "a doggy"), ("", "red")]
    for pair, found in zip(pairs, scorer.explain(pairs, method=method), strict=True):
        one, two = TOKENIZER.encode(list(pair))
        if kind == "bi":
            rows = [[start, *ids[:8], end] for ids in (one, two)]

            def score(rows=rows):
                means = [model(torch.tensor([row])).last_hidden_state[0].mean(0) for row in rows]
                return torch.nn.functional.cosine_similarity(*means, dim=0)

            expected = [weights[1:-1] for weights in contributions(model, score, 2, method)]
        else:
            one = one[: max(7 - len(two), 4)]
            row = torch.tensor([[start, *one, end, *two, end]])
            segments = torch.tensor([[0] * (len(one) + 2) + [1] * (len(two) + 1)])
            kernel = torch.tensor(np.asarray(scorer.model.get_layer("classes").kernel))

            def score(row=row, segments=segments, kernel=kernel):
                return (model(row, token_type_ids=segments).pooler_output[0] @ kernel)[0]

            (weights,) = contributions(model, score, 1, method)
            expected = [weights[1 : len(one) + 1], weights[len(one) + 2 : -1]]
        assert (found.text, found.second) == pair
        expected = 4 * np.concatenate(expected)
        np.testing.assert_allclose(found.weights, expected, atol=4e-5)
        assert found.label == f"score {scorer.predict(pair):.2f}"
        sides = [np.array(found.segments) == side for side in (0, 1)]
        for text, side in zip(pair, sides, strict=True):
            places = [found.offsets[i] for i in np.flatnonzero(side)]
            assert [text[a:b] for a, b in places] == text.split()[: len(places)]
    assert np.abs(expected).max() > 1e-3


@pytest.mark.slow
@EAGER
@EACH
def test_pages_of_explanations(scorers, kind):
    scorer = scorers[0][kind]
    page = scorer.page([scorer.explain(PAIRS[0]), *scorer.explain([("", "")])], "Why <b>")
    assert "Why &lt;b&gt;" in page and "score" in page
    assert scorer.explain([]) == []
    study = scorer.explain(PAIRS[:1], method="attention")
    assert len(study.views) == (2 if kind == "bi" else 1)
    assert "Look" in scorer.page(study, "Look")
    blank = scorer.explain([("\t", "")], method="attention")
    assert blank.roles is None and "no word" in scorer.page(blank, "Look")
    with pytest.raises(ValueError, match="`method` must be one of"):
        scorer.explain(PAIRS, method="lime")
    with pytest.raises(TypeError, match="pairs of strings"):
        scorer.explain(["a dog"])


@pytest.mark.slow
@EAGER
@EACH
def test_padding_and_the_order_change_nothing(scorers, kind):
    scorer = scorers[0][kind]
    found = scorer.predict(PAIRS, batch_size=4)
    alone = [scorer.predict(pair) for pair in PAIRS]
    np.testing.assert_allclose(found, alone, atol=1e-5)
    turned = scorer.predict([pair[::-1] for pair in PAIRS])
    same = np.allclose(found, turned, atol=1e-5)
    assert same == (kind == "bi")


def test_batches_by_hand(scorers):
    batches = scorers[0]["bi"].dataset(
        [(("a dog", LONG), 5.0), (("", "cat"), 2.0)], batch_size=2, shuffle=False
    )
    assert isinstance(batches, ScoredPairBatches)
    inputs, labels, weights = batches[0]
    order = np.argsort(-labels["similarity"])
    start, end = TOKENIZER.start_id, TOKENIZER.end_id
    dog, long, cat = TOKENIZER.encode(["a dog", LONG, "cat"])
    assert inputs["token_ids"][order].tolist() == [
        [[start, *dog, end] + [0] * 6, [start, *long[:8], end]],
        [[start, end] + [0] * 8, [start, *cat, end] + [0] * 7],
    ]
    assert labels["similarity"][order].tolist() == [1.0, 0.25]
    np.testing.assert_array_equal(inputs["padding_mask"], inputs["token_ids"] != 0)
    assert weights["similarity"].tolist() == [1.0, 1.0]
    filled = scorers[0]["bi"].dataset([(("a", "b"), 2.0)] * 3, batch_size=4, rows_multiple_of=4)
    assert filled[0][2]["similarity"].tolist() == pytest.approx([4 / 3] * 3 + [0])
    with pytest.raises(ValueError, match="as many second texts"):
        ScoredPairBatches([[1]], [], [0.5])
    with pytest.raises(ValueError, match="max_length=2"):
        ScoredPairBatches([[1]], [[1, 2, 3]], [0.5], max_length=2)


@EAGER
def test_the_model_of_pairs_gives_what_predict_gives(scorers):
    scorer = scorers[0]["bi"]
    batches = scorer.dataset([(pair, 1.0) for pair in PAIRS], batch_size=6, shuffle=False)
    inputs, *_ = batches[0]
    members = [scorer.tokenizer.decode([row[0].tolist()])[0] for row in inputs["token_ids"]]
    found = keras.ops.convert_to_numpy(paired_encoder(scorer.model)(inputs)["similarity"])
    assert len(members) == len(found) == 6
    np.testing.assert_allclose(
        sorted(1 + 4 * found.astype("float64")), sorted(scorer.predict(PAIRS)), atol=1e-4
    )


@pytest.mark.slow
@QUICK_BI
def test_it_learns(kind):
    keras.utils.set_random_seed(0)
    data = {"vocabulary_size": 80, "max_length": 16, "kind": kind}
    scorer = SimilarityScorer.create(EXAMPLES, data=data, model=SIZES)
    assert (scorer.lowest, scorer.highest) == (1.0, 5.0)
    before = scorer.evaluate(EXAMPLES, num_bootstrap=0)
    run = scorer.fit(
        EXAMPLES * 12, EXAMPLES, epochs=4, batch_size=8, learning_rate=0.01, warmup_steps=0,
        verbose=0,
    )  # fmt: skip
    after = scorer.evaluate(EXAMPLES, num_bootstrap=20)
    assert run.history["loss"][-1] < 0.5 * run.history["loss"][0]
    assert after.pearson.value > max(0.7, before.pearson.value)
    assert after.pearson.low <= after.pearson.value <= after.pearson.high
    assert set(run.history) == {"loss", "val_spearman", "val_pearson"}


@pytest.mark.slow
def test_scores_that_are_all_the_same_have_no_correlation(monkeypatch):
    """The figure is not defined, which is not -1; the weights are kept all the same."""
    scorer = make("bi")
    monkeypatch.setattr(SimilarityScorer, "results", lambda self, pairs, use: [2.0] * len(pairs))
    with eagerly():
        run = scorer.fit(EXAMPLES, EXAMPLES[:3], epochs=1, batch_size=9, verbose=0)
    assert np.isnan(run.best_score) and run.best_epoch == 1
    assert np.isnan(run.history["val_spearman"]).all()


@pytest.mark.slow
@QUICK_BI
def test_some_of_the_encoder_is_trained(pretrained, kind, tmp_path):
    """Frozen layers stay; LoRA trains; a run is gone on with."""
    data = {"backbone": str(pretrained[0]), "max_length": 16, "kind": kind}
    with eagerly():
        scorer = SimilarityScorer.create(EXAMPLES, data=data)
        before = {w.path: np.array(w) for w in scorer.model.weights}
        scorer.fit(
            EXAMPLES, EXAMPLES[:3], epochs=1, batch_size=9, frozen_layers=1, lora_rank=2,
            layer_decay=0.5, verbose=0, run_dir=tmp_path / "run",
        )  # fmt: skip
        again = scorer.fit(
            EXAMPLES, EXAMPLES[:3], epochs=1, batch_size=9, frozen_layers=1, lora_rank=2,
            layer_decay=0.5, verbose=0, run_dir=tmp_path / "run",
        )  # fmt: skip
    assert again.complete
    changed = [
        w.path for w in scorer.model.weights
        if w.path in before and not np.array_equal(before[w.path], np.array(w))
    ]  # fmt: skip
    assert not any("embedding" in path or "block_0" in path for path in changed)
    found = SimilarityScorer.load(tmp_path / "run/best.task").predict(PAIRS)
    np.testing.assert_allclose(found, scorer.predict(PAIRS), atol=1e-5)


@pytest.mark.slow
def test_the_pooling_is_kept():
    first = make("bi", pooling="first")
    assert SimilarityScorer.from_config(first.get_config()).pooling == "first"


@pytest.mark.quick("bi")
@EAGER
@EACH
def test_files(scorers, kind):
    scorer, folder = scorers[0][kind], scorers[1]
    again = SimilarityScorer.load(folder / kind)
    assert (again.kind, again.lowest, again.highest) == (kind, 1.0, 5.0)
    assert again.predict(PAIRS) == scorer.predict(PAIRS)


@pytest.mark.slow
@EAGER
@QUICK_BI
def test_int8_and_half_precision(scorers, kind, tmp_path):
    scorer, folder = scorers[0][kind], scorers[1]
    half = SimilarityScorer.load(folder / kind, dtype="mixed_bfloat16")
    assert np.abs(np.subtract(half.predict(PAIRS), scorer.predict(PAIRS))).max() < 0.15
    small = SimilarityScorer.load(folder / kind).quantize()
    small.save(tmp_path / "small")
    assert SimilarityScorer.load(tmp_path / "small").predict(PAIRS) == small.predict(PAIRS)
    assert 0 < np.abs(np.subtract(small.predict(PAIRS), scorer.predict(PAIRS))).max() < 0.3


@pytest.mark.slow
@EAGER
def test_a_backbone_of_ours(scorers, tmp_path):
    """The encoder of one task is the start of another."""
    start = SimilarityScorer.from_backbone(scorers[1] / "cross", max_length=10)
    vectors = start.embed(TEXTS)
    folder = tmp_path / "folder"
    save_pretrained(folder, start.model, start.config, TOKENIZER)
    again = SimilarityScorer.from_backbone(folder, max_length=10)
    np.testing.assert_allclose(again.embed(TEXTS), vectors, atol=1e-6)


@pytest.mark.quick("bi-True")
@pytest.mark.parametrize(("kind", "normalize"), [("bi", True), ("cross", False)])
def test_the_exported_functions_give_what_python_gives(
    scorers, kind, normalize, unsaved, eager, tmp_path
):
    scorer = scorers[0][kind]
    scorer.export(tmp_path / "m", normalize=normalize)
    functions = unsaved[0]
    names = ["serving_default", "embed"] if kind == "bi" else ["serving_default"]
    assert list(functions) == names
    firsts, seconds = (tf.constant([p[i].encode() for p in PAIRS], tf.string) for i in (0, 1))
    found = functions["serving_default"](text=firsts, second=seconds)["score"].numpy()
    np.testing.assert_allclose(found, scorer.predict(PAIRS), atol=1e-4)
    if kind == "bi":
        texts = tf.constant([text.encode() for text in TEXTS], tf.string)
        found = functions["embed"](text=texts)["vectors"].numpy()
        np.testing.assert_allclose(found, scorer.embed(TEXTS, normalize=True), atol=1e-5)


@pytest.mark.slow
def test_the_saved_model(scorers, tmp_path):
    scorer = scorers[0]["bi"]
    scorer.export(tmp_path / "m")
    signatures = tf.saved_model.load(str(tmp_path / "m")).signatures
    found = signatures["embed"](text=tf.constant([text.encode() for text in TEXTS]))["vectors"]
    np.testing.assert_allclose(found.numpy(), scorer.embed(TEXTS), atol=1e-5)
    assert signatures["embed"](text=tf.constant([], tf.string))["vectors"].shape == (0, 12)


@pytest.mark.slow
@EAGER
@pytest.mark.parametrize("backend", ["torch", pytest.param("jax", marks=pytest.mark.slow)])
def test_the_same_on_other_backends(scorers, backend):
    result = answer(backend, Path(similarity_toys.__file__), scorers[1], "bi", "cross")
    assert result["backend"] == backend
    for kind, scorer in scorers[0].items():
        expected = everything(scorer)
        for name, values in expected.items():
            np.testing.assert_allclose(result["found"][kind][name], values, atol=1e-4)


def test_wrong_use(scorers):
    bi, cross = scorers[0]["bi"], scorers[0]["cross"]
    for wrong in ("a", ["a"], ["ab"], [("a", 1)], [("a", "b", "c")], 7, ("a",)):
        with pytest.raises(TypeError, match="pairs of strings"):
            bi.predict(wrong)
    with pytest.raises(TypeError, match="Expected strings"):
        bi.embed([7])
    with pytest.raises(ValueError, match="kind='cross', which reads both"):
        cross.embed(["a"])
    with pytest.raises(ValueError, match="kind='cross', which reads both"):
        cross.export("nowhere", normalize=True)
    with pytest.raises(ValueError, match=r"from 1 to 5. Received: 0.5 at position 1"):
        bi.dataset([(("a", "b"), 2), (("a", "b"), 0.5)])
    with pytest.raises(ValueError, match="`lowest` must be below `highest`"):
        SimilarityScorer.create([(("a", "b"), 2)], data={"max_length": 8})
    with pytest.raises(ValueError, match="`pooling` is only used with kind='bi'"):
        make("cross", pooling="first")
    with pytest.raises(ValueError, match="`kind` must be one of"):
        make("tri")
    with pytest.raises(ValueError, match=r"\(\(first, second\), score\)"):
        bi.evaluate([("a", 3)])


def test_reading(tmp_path):
    """Columns by name, and by number from 0 in files without a header, as STS-B has them."""
    rows = [f'main\tx\ty\t{i}\t{i / 2}\tA "dog {i}\tb{"abcdefghijkl"[i]}' for i in range(10)]
    (tmp_path / "sts.csv").write_text("\n".join([*rows[:5], rows[5] + "\tmore", *rows[6:]]))
    numbers = {"first": "5", "second": "6", "score": "4", "format": "tsv"}
    examples = SimilarityScorer.read(
        SimilarityData(train=str(tmp_path / "sts.csv"), dev_share=0.2, **numbers)
    )
    assert (len(examples.train), len(examples.dev)) == (8, 2)
    assert ScoredPair('A "dog 3', "bd", 1.5) in [*examples.train, *examples.dev]
    assert "10 pairs, scores from 0 to 4.5" in examples.summary
    (tmp_path / "named.csv").write_text("sentence1,sentence2,score\na,b,2\n")
    data = SimilarityData(train=str(tmp_path / "named.csv"), dev=str(tmp_path / "named.csv"))
    assert list(SimilarityScorer.read(data).dev) == [ScoredPair("a", "b", 2.0)]

"""Tasks from a folder of RoBERTa: pairs, tags, answers and vectors, and their exports."""

import io
import json
import subprocess
import sys
import textwrap

import keras
import numpy as np
import pytest
import sentencepiece
import tensorflow as tf
from answering_toys import PAIRS, questions
from tagging_toys import TEXTS, sentences

from keras_attn.interop import read_pretrained, save_pretrained
from keras_attn.interop.sentence_piece_files import fairseq_tokenizer
from keras_attn.models import RobertaConfig
from keras_attn.tasks import (
    AnswerSelector,
    Pretrainer,
    QuestionAnswerer,
    SimilarityScorer,
    Tagger,
    TextClassifier,
    Translator,
    read_backbone,
)
from keras_attn.text import BytePairTokenizer, WordPieceTokenizer

transformers = pytest.importorskip("transformers", reason="transformers is of the extra `test`")

SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
RATES = {"model": "roberta", "dropout": 0.0, "attention_dropout": 0.0}
ODD = ["", "  ", "A🙂 b", "¿Qué?\n\ttab", "it's  12"]


def byte_pairs(texts):
    trained = BytePairTokenizer.train(texts, 300, normalize=False, pattern="gpt2")
    order = ["<pad>", "<s>", "</s>", "<unk>", "<mask>"]
    return BytePairTokenizer(
        [*SPECIAL[:4], *trained.vocabulary[3:], "<mask>"], trained.merges, False, "gpt2", order
    )


def sentence_pieces(texts):
    """A model with the special tokens that the library has unless it is told otherwise."""
    file = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_writer=file, vocab_size=150, hard_vocab_limit=False,
        minloglevel=2,
    )  # fmt: skip
    return fairseq_tokenizer(file.getvalue())


KINDS = [byte_pairs, pytest.param(sentence_pieces, marks=pytest.mark.slow)]


@pytest.fixture(scope="module", params=KINDS, ids=["roberta", "xlm-roberta"])
def folder(tmp_path_factory, request):
    """A RoBERTa, or an XLM-RoBERTa, with random weights: `<s>` is 0 and padding is 1."""
    words = [" ".join(words) for words, _ in sentences(30)]
    asked = [text for question, given, _ in questions(9) for text in (question, given)]
    tokenizer = request.param([*words, *asked])
    keras.utils.set_random_seed(0)
    config = RobertaConfig(
        tokenizer.vocabulary_size, dim=16, num_layers=1, num_heads=2, intermediate_dim=32,
        sequence_length=64, pooler_activation=None,
    )  # fmt: skip
    folder = tmp_path_factory.mktemp("roberta") / "folder"
    save_pretrained(folder, config.build(), config, tokenizer)
    return str(folder)


def data(folder, **more):
    return {"backbone": folder, "max_length": 32, **more}


@pytest.fixture(scope="module")
def untrained(folder):
    return Tagger.create(sentences(64), data=data(folder), model=RATES)


@pytest.fixture(scope="module")
def tagger(folder):
    tagger = Tagger.create(sentences(64), data=data(folder), model=RATES)
    assert {name.split("/")[0] for name in tagger.loaded.new} == {"tags"}
    tagger.fit(sentences(64), epochs=20, batch_size=16, learning_rate=1e-2, verbose=0)
    return tagger


@pytest.mark.slow
def test_a_tagger_learns_and_is_exported(tagger, folder, unsaved, tmp_path):
    assert tagger.score(sentences(20, seed=1))["f1"] > 0.7
    tagger.export("nowhere")
    serve = unsaved[0]["serving_default"]
    found, wanted = serve(text=tf.constant([*TEXTS, *ODD])), tagger.predict([*TEXTS, *ODD])
    for i, tagged in enumerate(wanted):
        labels = [x.decode() for x in found["labels"].numpy()[i] if x]
        assert labels == list(tagged.labels)
        entities = [x.decode() for x in found["entities"].numpy()[i] if x]
        assert entities == [e.text for e in tagged.entities]
    tagger.save(tmp_path / "t.task")
    again = Tagger.load(tmp_path / "t.task")
    assert again.tokenizer.get_config() == tagger.tokenizer.get_config()
    assert again.predict(TEXTS[0]) == tagger.predict(TEXTS[0])
    assert read_backbone(tmp_path / "t.task").model == "roberta"


@pytest.mark.slow
def test_words_of_a_tagger_have_the_ids_of_transformers(untrained, folder, eager):
    tagger = untrained
    assert {name.split("/")[0] for name in tagger.loaded.new} == {"tags"}
    reference = transformers.AutoTokenizer.from_pretrained(folder, add_prefix_space=True)
    words = ["Ada", "meets", "😀", "Bob's", "."]
    wanted = reference(words, is_split_into_words=True)
    rows = tagger.rows(np, tagger.words.encode([words]))
    assert rows["row_ids"].tolist() == [wanted["input_ids"]]
    firsts = [wanted.word_ids().index(i) for i in range(len(words))]
    assert rows["column"].tolist() == firsts
    explained = tagger.explain("Ada meets Bob", method="gradient")
    assert explained.tokens == ("Ada", "meets", "Bob")


@pytest.fixture(scope="module")
def answerer(folder):
    examples = questions(24, sentences=1)
    answerer = QuestionAnswerer.create(
        examples, data=data(folder, max_length=48, max_question_length=18), model=RATES
    )
    rng = np.random.default_rng(0)
    for weight in answerer.model.trainable_weights:  # not flat
        weight.assign(weight + 0.3 * rng.normal(size=weight.shape).astype("float32"))
    return answerer


ASKED = [*PAIRS, *(("Where does Ada live?", text) for text in ODD)]


def test_windows_of_questions_have_the_ids_of_transformers(answerer, folder):
    """The labels point at the answer, without the blank before it, in a row with two ends."""
    reference = transformers.AutoTokenizer.from_pretrained(folder)
    example = questions(1, sentences=1)[0]
    inputs, labels, _ = answerer.dataset([example], batch_size=1)[0]
    wanted = reference(example[0], example[1], return_offsets_mapping=True)
    length = len(wanted["input_ids"])
    assert inputs["token_ids"][0, :length].tolist() == wanted["input_ids"]
    first, last, _ = labels["spans"][0].tolist()
    answer, start = example[2][0]
    assert wanted["offset_mapping"][first][0] == start
    assert wanted["offset_mapping"][last][1] == start + len(answer)
    assert set(inputs) == {"token_ids", "padding_mask"}


@pytest.mark.slow
def test_answers_are_exported(answerer, unsaved, eager):
    answerer.export("nowhere", n_best=3)
    check_answers(answerer, unsaved[0]["serving_default"])
    answer = answerer.predict(PAIRS[0])
    assert all(x.text == x.text.lstrip() == PAIRS[0][1][x.start : x.end] for x in answer.candidates)
    assert answerer.explain(PAIRS[0]).tokens[:2] == ("Where", "does")


def check_answers(answerer, serve):
    found = serve(*(tf.constant([pair[i] for pair in ASKED]) for i in (0, 1)))
    for i, answer in enumerate(answerer.predict(ASKED, n_best=3)):
        assert found["answer"].numpy()[i].decode() == answer.text
        assert int(found["start_characters"][i, 0]) == answer.start
        np.testing.assert_allclose(found["probability"][i], answer.probability, atol=1e-5)


@pytest.mark.slow
def test_a_saved_model_reads_strings_without_this_package(answerer, tmp_path):
    answerer.export(tmp_path / "saved", n_best=1)
    script = """
        import json, sys, tensorflow as tf
        if "tensorflow_text" in sys.argv[2:]:
            import tensorflow_text
        serve = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
        found = serve(**{k: tf.constant(v) for k, v in json.loads(sys.stdin.read()).items()})
        print(json.dumps([x.decode() for x in found["answer"].numpy()]))
    """
    given = {name: [pair[i] for pair in ASKED] for i, name in enumerate(("question", "text"))}
    command = [sys.executable, "-I", "-c", textwrap.dedent(script), str(tmp_path / "saved")]
    command += answerer.exported_with()
    done = subprocess.run(
        command, input=json.dumps(given), capture_output=True, text=True, check=True
    )
    wanted = [answer.text for answer in answerer.predict(ASKED, n_best=1)]
    assert json.loads(done.stdout) == wanted


EXAMPLES = [(("Ada codes", "Ada works"), "yes"), (("Bob sleeps", "Bob 😀 runs far"), "no")] * 4


@pytest.mark.slow
@pytest.mark.parametrize("pairs", [True, False])
def test_a_classifier_of_texts_or_pairs(pairs, folder, unsaved, tmp_path):
    """The pooler is new, as it is in transformers, and what is exported says the same."""
    examples = EXAMPLES if pairs else [(text[1], label) for text, label in EXAMPLES]
    classifier = TextClassifier.create(examples, data=data(folder), model=RATES)
    assert {name.split("/")[0] for name in classifier.loaded.new} == {"pooler", "head"}
    classifier.fit(examples, epochs=20, batch_size=8, learning_rate=2e-2, verbose=0)
    texts = [text for text, _ in examples[:2]]
    assert [x.label for x in classifier.predict(texts)] == ["yes", "no"]
    classifier.export("nowhere")
    save_pretrained(
        tmp_path / "out", classifier.model, classifier.config, classifier.tokenizer,
        classifier.class_names,
    )  # fmt: skip
    theirs = transformers.RobertaForSequenceClassification.from_pretrained(tmp_path / "out")
    reference = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    columns = list(zip(*texts, strict=True)) if pairs else [texts]
    given = reference(*map(list, columns), padding=True, return_tensors="pt")
    found = theirs.eval()(**given).logits.detach().numpy()
    np.testing.assert_allclose(classifier.predict_logits(texts), found, atol=1e-5)
    assert classifier.explain(texts)[0].tokens


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bi", "cross"])
def test_similarity(kind, folder, unsaved):
    pairs = [(("a dog", "a hound"), 5.0), (("a dog", "a red car"), 0.0)] * 4
    scorer = SimilarityScorer.create(pairs, data=data(folder, kind=kind), model=RATES)
    scorer.fit(pairs, epochs=12, batch_size=8, learning_rate=1e-2, verbose=0)
    scores = scorer.predict([pair for pair, _ in pairs[:2]])
    assert scores[0] > scores[1]
    assert scorer.explain([("a dog", "a hound")])[0].tokens == ("a", "dog", "a", "hound")
    scorer.export("nowhere")


@pytest.mark.slow
def test_answer_selection(folder):
    found = AnswerSelector.from_backbone(folder, ["Ada codes", "Bob sleeps"], max_length=16)
    assert found.predict("Ada codes", top_k=1)[0].answer == "Ada codes"


def test_what_is_refused(folder):
    texts = ["a b"] * 3
    with pytest.raises(ValueError, match=r"with normalize=True. Train one with normalize=False"):
        Tagger(BytePairTokenizer.train(texts, 259), ["a", "b"])
    with pytest.raises(ValueError, match=r"Expected room for .* and 4 special tokens"):
        QuestionAnswerer.create(questions(2), data=data(folder, max_question_length=28))
    with pytest.raises(TypeError, match="must be a WordPieceTokenizer"):
        Pretrainer.create([texts] * 9, data=data(folder))
    with pytest.raises(ValueError, match="has the architecture 'roberta'"):
        Tagger.create(sentences(4), data=data(folder), model={"model": "bert", "dim": 16})


@pytest.mark.slow
def test_a_new_roberta_with_word_pieces():
    """The id of padding, and so the first position, is that of the tokenizer."""
    tokenizer = WordPieceTokenizer.train(["a b c"] * 3, 20, allow_fewer=True)
    sizes = {"dim": 16, "num_layers": 1, "num_heads": 2, "intermediate_dim": 32}
    tagger = Tagger(
        tokenizer, ["x", "y"], model={"model": "roberta", **sizes}, data={"max_length": 16}
    )
    assert tagger.config.first_position == 1 and tagger.field.between == [tokenizer.end_id] * 2
    assert len(tagger.predict("a b c").labels) == 3


@pytest.mark.slow
def test_padding_that_a_model_would_not_hide(folder):
    tokenizer = read_pretrained(folder).tokenizer
    assert tokenizer.pad_id == 1
    for model in ("bag", "rnn", "transformer"):
        with pytest.raises(ValueError, match="with padding id 0"):
            TextClassifier(tokenizer, ["a", "b"], model={"model": model})
    assert Translator(tokenizer).config.pad_id == 1  # which this model hides


def test_a_tokenizer_of_another_padding_is_not_saved(tmp_path):
    tokenizer = BytePairTokenizer.train(["a b"], 259, normalize=False)
    config = RobertaConfig(259, dim=8, num_layers=1, num_heads=2, intermediate_dim=8)
    with pytest.raises(ValueError, match=r"whose `pad_id` is 1, one below .* Received: 0"):
        save_pretrained(tmp_path / "a", config.build(), config, tokenizer)
    assert not (tmp_path / "a").exists()

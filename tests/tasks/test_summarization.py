"""Summaries: what is read and left out, figures, pages, T5's weights, the command."""

import io
import json
import warnings

import keras
import numpy as np
import pytest
import rouge_score.rouge_scorer
import sentencepiece
import torch
import transformers
from processes import answer
from summarization_toys import DATA, PAIRS, SMALL, TEXTS, make
from tracing import eagerly

from keras_attn.metrics import rouge, score_summaries
from keras_attn.tasks import Summarizer, Translator
from keras_attn.text import SentencePieceTokenizer


@pytest.mark.slow
def test_texts_are_on_one_line_behind_the_prefix(eager):
    task = make("sum: ")
    rows = task.field.encode(["The  dog\n ran.", " \n"])
    assert task.source_tokenizer.decode(rows["source_ids"][0]) == "sum: The dog ran."
    assert rows["some"].tolist() == [True, False]
    assert task.predict([" \n"], beams=1) == [""]
    plain = make().field.encode(["The dog ran."])["source_ids"][0]
    assert rows["source_ids"][0][-len(plain) :] != plain or len(rows["source_ids"][0]) > len(plain)


@pytest.mark.slow
def test_what_is_longer_is_said():
    task = make()
    long = ("The dog ran home. " * 9, "a dog")
    wordy = (TEXTS[0], "a dog and a cat and a bird")
    with pytest.warns(UserWarning) as told:
        batches = task.dataset([*PAIRS[:4], long, wordy])
    said = " ".join(str(warning.message) for warning in told)
    assert "1 of 6 texts of more than `max_length`=24 tokens are cut" in said
    assert "1 of 6 pairs with a summary of more than `max_summary_length`=5 tokens are left" in said
    assert batches.num_examples == 5
    widest = max(inputs["source_ids"].shape[1] for inputs, *_ in (batches[i] for i in [0]))
    assert widest <= 24
    with pytest.raises(ValueError, match="at most `max_summary_length`=5 tokens"):
        warnings.simplefilter("ignore")
        task.dataset([wordy])
    with pytest.warns(UserWarning, match=r"1 of 1 texts are longer .* Summarise their parts"):
        task.predict([long[0]], beams=1)
    with warnings.catch_warnings():  # the batches of development examples have said so
        warnings.simplefilter("error")
        assert len(task._written([long[0]], task.used({"beams": 1}))) == 1


def test_texts_that_are_alike_cannot_be_split():
    with pytest.raises(ValueError, match=r"`validation_size`=1 \(--dev-share\) cannot be filled"):
        Summarizer.split([("The same.", f"but {x}") for x in "abcdefgh"], Summarizer.Data())


def test_sentence_pieces():
    data = Summarizer.Data(tokenizer="sentence_piece", vocabulary_size=330)
    tokenizer = Summarizer.learn(PAIRS, data).tokenizer
    assert isinstance(tokenizer, SentencePieceTokenizer)
    with pytest.raises(ValueError, match="`tokenizer` is only used for a new tokenizer"):
        Summarizer.Data(tokenizer="sentence_piece", backbone="folder")


def test_figures_are_those_of_rouge_score():
    """Beside the package itself; words of other scripts count only where they are asked for."""
    references = ["the cats sat on the mat", "a dog", "собака спит"]
    found = ["a cat sat on mats", "no", "собака бежит"]
    scorer = rouge_score.rouge_scorer.RougeScorer(["rouge1", "rouge2", "rougeL"], use_stemmer=True)
    expected = [
        [figure.fmeasure for figure in scorer.score(*pair).values()]
        for pair in zip(references, found, strict=True)
    ]
    np.testing.assert_allclose(rouge(references, found), expected)
    assert rouge(references, found, "unicode")[2].tolist() == [0.5, 0.0, 0.5]
    pairs = [("A dog ran. It rained.", "dog ran"), ("Cats sleep.", "cats")]
    # Vowels of Hindi are parts of their words: one of 3 and of 2 words is the same.
    assert rouge(["राम घर गया"], ["रोम गया"], "unicode")[0].tolist() == pytest.approx([0.4, 0, 0.4])
    assert rouge(["re\u0301sume\u0301"], ["RÉSUMÉ"], "unicode")[0].tolist() == [1.0, 0.0, 1.0]
    report = score_summaries(pairs, ["dog ran", "hen"], num_bootstrap=20)
    assert report.rouge1.value == 0.5 and report.rouge1.low == 0.0 and report.rouge1.high == 1.0
    assert report.lead[0] == pytest.approx((0.8 + 2 / 3) / 2)
    assert report.to_dict()["rouge2"]["value"] == 0.5 and "ROUGE-L" in str(report)
    with pytest.raises(ValueError, match="at least one"):
        score_summaries([], [])


@pytest.mark.slow
@pytest.mark.parametrize("model", [SMALL | {"dim": 32}, {"model": "t5", **SMALL, "dim": 32}])
def test_it_learns_and_exports(model, tmp_path):
    task = Summarizer.create(PAIRS, data=DATA, model=model)
    settings = {"epochs": 60, "tokens_per_batch": 256, "learning_rate": 1e-2}
    task.fit(PAIRS, PAIRS[:6], **settings, verbose=0)
    report = task.evaluate(PAIRS)
    assert report.rouge1.value > 0.9 > report.lead[0]
    (view,) = task.explain([TEXTS[0]])
    assert "<title>Why</title>" in task.page(view, "Why")
    assert task.explain("").title.endswith("→ ")
    alignment = task.align(TEXTS[0])
    assert alignment.weights.sum(axis=1) == pytest.approx(1, abs=1e-5)
    task.export(tmp_path / "model")


@pytest.mark.slow
def test_t5_as_a_backbone(tmp_path):
    """Its tokenizer, weights and prefix; its rows without a token are left out."""
    pieces = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["the cat sat on the mat", "a cat ran to the hat"] * 9),
        model_writer=pieces, vocab_size=40, pad_id=0, eos_id=1, unk_id=2, bos_id=-1,
        hard_vocab_limit=False, minloglevel=2,
    )  # fmt: skip
    (tmp_path / "spiece.model").write_bytes(pieces.getvalue())
    model = sentencepiece.SentencePieceProcessor(model_proto=pieces.getvalue())
    size = len(model) + 100
    config = transformers.T5Config(
        vocab_size=size + 4, d_model=12, d_kv=5, d_ff=20, num_layers=2, num_heads=3, dropout_rate=0
    )
    model = transformers.T5ForConditionalGeneration(config).eval()
    model.save_pretrained(tmp_path)
    task = Summarizer.from_pretrained(tmp_path)
    assert task.learned.prefix == "summarize: " and task.own_use["beams"] == 1
    text = "the cat sat on the mat"
    source = task.field.encode([text])["source_ids"]
    given = torch.tensor(source)
    target = [5, 6, 1]
    with torch.no_grad():
        logits = model(input_ids=given, decoder_input_ids=torch.tensor([[0, *target[:-1]]])).logits
    inputs = {"source_ids": np.array(source), "target_ids": np.array([[0, *target[:-1]]])}
    found = keras.ops.convert_to_numpy(task.model(inputs))
    np.testing.assert_allclose(found, logits[..., :size], atol=1e-5 * float(logits.abs().max()))
    with eagerly():
        pairs = [(text, "cat"), ("a cat ran to the hat", "hat")]
        data = {"backbone": str(tmp_path), "max_length": 40, "prefix": "tldr: "}
        tuned = Summarizer.create(pairs, data=data)
        assert tuned.learned.prefix == "tldr: "
        tuned.fit(pairs, epochs=1, verbose=0)
        written = tuned.predict(text)
        tuned.save(tmp_path / "tuned.task")
        assert Summarizer.load(tmp_path / "tuned.task").predict(text) == written
        again = Summarizer.create(pairs, data={"backbone": str(tmp_path / "tuned.task")})
        assert again.learned.prefix == "tldr: "
        what_config_says_about_tasks(tmp_path, text)


def what_config_says_about_tasks(folder, text):
    """It is what the imported model does by default; a model to be tuned keeps its own search."""
    file = folder / "config.json"
    search = {"num_beams": 3, "early_stopping": True}
    tasks = {
        "summarization": {**search, "prefix": "sum: ", "max_length": 9, "min_length": 4},
        "translation_en_to_de": {**search, "prefix": "to German: ", "max_length": 9},
        "translation_fr_to_de": {**search, "prefix": "French to German: ", "length_penalty": 2.0},
    }
    file.write_text(json.dumps({**json.loads(file.read_text()), "task_specific_params": tasks}))
    task = Summarizer.from_pretrained(folder)
    assert (task.learned.prefix, task.data.max_summary_length) == ("sum: ", 8)
    assert {"beams": 3, "min_length": 4, "early_stopping": True}.items() <= task.own_use.items()
    task.save(folder / "sum.task")
    written = task.predict(text)
    assert Summarizer.load(folder / "sum.task").predict(text) == written
    tuned = Summarizer.create([(text, "cat")] * 4, data={"backbone": str(folder)})
    assert (tuned.learned.prefix, tuned.own_use["min_length"]) == ("sum: ", 0)
    translator = Translator.from_pretrained(folder)
    assert translator.own_use["beams"] == 3 and translator.own_use["alpha"] == 1.0
    assert translator.learned.prefix_languages == ("de", "fr_to_de")
    assert translator.translate(text, language="de") == translator.translate(f"to German: {text}")
    assert translator.translate("", language="de") == ""
    with pytest.raises(ValueError, match="`language` must be one of 'de', 'fr_to_de'"):
        translator.translate(text, language="fr")
    translator.save(folder / "translator.task")
    again = Translator.load(folder / "translator.task")
    assert again.translate(text, language="de") == translator.translate(text, language="de")


BACKEND_SCRIPT = f"""
import json, os, sys
from keras_attn.tasks import Summarizer
pairs = {PAIRS!r}
folder = sys.argv[1]
saved = {{name: Summarizer.load(f"{{folder}}/{{name}}.task") for name in sys.argv[2:]}}
task = saved["float"]
found = {{name: one.predict({TEXTS!r}, beams=2) for name, one in saved.items()}}
own = Summarizer.create(pairs, data={DATA!r}, model=json.loads(os.environ["MODEL"]))
run = own.fit(pairs, epochs=2, tokens_per_batch=256, verbose=0)
score = own.evaluate(pairs, num_bootstrap=0).rougeL.value
for name in ("own", "int8"):
    if name == "int8":
        own.quantize()
    written = own.predict({TEXTS!r}, beams=2)
    own.save(f"{{folder}}/{{name}} of here.task")
    again = Summarizer.load(f"{{folder}}/{{name}} of here.task")
    found[f"{{name}} loaded"] = again.predict({TEXTS!r}, beams=2) == written
print(json.dumps([found, run.history["loss"], score]))
"""


TRAINED = [SMALL | {"dim": 32}, {"model": "t5", **SMALL, "dim": 32}, {"model": "rnn", "units": 32}]


@pytest.mark.slow
@pytest.mark.parametrize("model", TRAINED, ids=["transformer", "t5", "rnn"])
def test_on_other_backends(model, tmp_path):
    """What is trained here writes the same there, in int8 too; and models are trained there."""
    task = Summarizer.create(PAIRS, data=DATA, model=model)
    task.fit(PAIRS, epochs=60, tokens_per_batch=256, learning_rate=1e-2, verbose=0)
    expected = {"own loaded": True, "int8 loaded": True}
    for name in ("float", "int8"):
        if name == "int8":
            task.quantize()
        expected[name] = task.predict(TEXTS, beams=2)
        task.save(tmp_path / f"{name}.task")
    assert len(set(expected["float"])) > 4
    for backend in ("jax", "torch"):
        given = (tmp_path, "float", "int8")
        found, losses, score = answer(backend, BACKEND_SCRIPT, *given, MODEL=json.dumps(model))
        assert found == expected, backend
        assert losses[1] < losses[0] and 0 <= score <= 1


@pytest.mark.slow
def test_the_command(tmp_path, capfd):
    from click.testing import CliRunner

    from keras_attn.cli.main import keras_attn_command

    rows = [json.dumps({"body": text, "title": summary}) for text, summary in PAIRS]
    (tmp_path / "pairs.jsonl").write_text("\n".join(rows))
    (tmp_path / "dev.jsonl").write_text("\n".join(rows[:3]))
    columns = ["--text", "body", "--summary", "title"]

    def run(*words):
        done = CliRunner().invoke(keras_attn_command, ["summarization", *map(str, words)])
        assert done.exit_code == 0, done.output
        return done.output

    with eagerly():
        sizes = "--vocabulary-size 330 --max-length 24 --dim 8 --num-layers 1 --num-heads 2"
        out = run(
            "fit", "--train", tmp_path / "pairs.jsonl", *columns, *sizes.split(), "--epochs", 1,
            "--dev", tmp_path / "dev.jsonl", "--run-dir", tmp_path / "run",
        )  # fmt: skip
        assert "ROUGE-L" in out
        best = tmp_path / "run/best.task"
        out = run("evaluate", "--model", best, "--data", tmp_path / "pairs.jsonl", *columns,
                  "--num-bootstrap", 9)  # fmt: skip
        assert "lead sentence" in out
        (tmp_path / "texts.txt").write_text("The dog ran home.\n\nThe cat.\n")
        run("predict", "--model", best, tmp_path / "texts.txt", "--to", tmp_path / "out.txt")
        assert len((tmp_path / "out.txt").read_text().split("\n")) == 4
        run("explain", "--model", best, tmp_path / "texts.txt", "--to", tmp_path / "page.html")
        assert "<title>" in (tmp_path / "page.html").read_text()

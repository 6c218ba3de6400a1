"""The README and the pages of docs/: their code runs, their commands and settings are read."""

import base64
import importlib
import itertools
import json
import re
import shlex
import sys
from pathlib import Path

import click
import keras
import numpy as np
import pytest
from processes import run_python

import keras_attn.models
from keras_attn import tasks
from keras_attn.batches import TokenBatches
from keras_attn.cli.main import keras_attn_command
from keras_attn.cli.task_command import merged
from keras_attn.models import (
    BertConfig,
    GptConfig,
    TransformerEncoderDecoderConfig,
    patch_encoder,
)
from keras_attn.settings import read_settings
from keras_attn.text import (
    BytePairTokenizer,
    CharacterTokenizer,
    WordPieceTokenizer,
)

ROOT = Path(__file__).parents[1]
PAGES = {path.name: path for path in [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))]}
NAMED = {
    task.name: task
    for task in (
        tasks.AnswerSelector,
        tasks.Captioner,
        tasks.EntailmentClassifier,
        tasks.Pretrainer,
        tasks.QuestionAnswerer,
        tasks.SimilarityScorer,
        tasks.Summarizer,
        tasks.Tagger,
        tasks.Talker,
        tasks.TextClassifier,
        tasks.TextGenerator,
        tasks.TextRegressor,
        tasks.Translator,
        tasks.VisualQuestionAnswerer,
        tasks.WordEmbedder,
    )
}
TASKS = {"captioning.md": tasks.Captioner}
"""The tasks whose settings files stand on a page."""
ELSEWHERE = {
    "distribution.md": "several devices: the test below; several processes: "
    "tests/cli/test_processes.py",
    "from_tfa_seq2seq.md": "tests/examples/test_from_tfa_page.py",
    "new_task.md": "blocks that are files: tests/tasks/test_new_task.py",
    "rest_server.md": "tests/serve/test_chats.py",
    "seeing_attention.md": "tests/visualize/test_seeing_attention_page.py",
}
"""Pages whose code cannot run here, with the reason or the test that runs it."""
SLOW = {
    "README.md", "answer_selection.md", "bert.md", "captioning.md", "conversation.md",
    "data.md", "decoding.md", "entailment.md", "fine_tuning.md", "from_keras.md",
    "layers.md", "masking.md", "migrating.md", "onnx.md", "pretrained.md",
    "question_answering.md",
    "sentiment.md", "serving.md", "similarity.md", "speed.md", "summarization.md",
    "text_generation.md",
    "training_runs.md", "translation.md", "visual_questions.md", "word_embeddings.md",
}  # fmt: skip


def blocks(page, language):
    """The first line and the text of each block of a language."""
    text = PAGES[page].read_text(encoding="utf-8")
    for match in re.finditer(rf"^```{language}\n(.*?)^```$", text, re.M | re.S):
        yield text.count("\n", 0, match.start()) + 2, match[1]


def commands(page):
    """The first line and the arguments of each `keras-attn` command."""
    for line, block in blocks(page, "bash"):
        for match in re.finditer(r"^[ ]*keras-attn (?:.*\\\n)*.*$", block, re.M):
            words = shlex.split(match[0].replace("\\\n", " "), comments=True)[1:]
            ends = [n for n, word in enumerate(words) if word in ("<", ">", "|", ";", "&", "&&")]
            yield line + block.count("\n", 0, match.start()), words[: min(ends, default=None)]


def marked(pages):
    return [pytest.param(p, marks=pytest.mark.slow if p in SLOW else ()) for p in pages]


@pytest.mark.parametrize(
    "page", marked(p for p in PAGES if p not in ELSEWHERE and any(blocks(p, "python")))
)
def test_code_runs(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(ROOT)
    names = {"__name__": page, **SETUPS.get(page, lambda *_: {})(tmp_path, monkeypatch)}
    for line, block in blocks(page, "python"):
        exec(compile("\n" * (line - 1) + block, PAGES[page], "exec"), names)
    CHECKS.get(page, lambda *_: None)(names, tmp_path, capsys.readouterr().out)


@pytest.mark.slow
def test_code_for_several_devices_runs():
    """All blocks but the last, which lacks a model."""
    *code, own = (block for _, block in blocks("distribution.md", "python"))
    assert len(code) == 3 and "model = ..." in own
    code.append("print(len(model.weights[0].value.devices()))")
    flags = "--xla_force_host_platform_device_count=8 --xla_backend_optimization_level=0"
    assert run_python("jax", "\n".join(code), XLA_FLAGS=flags).stdout.splitlines()[-1] == "8"


@pytest.mark.parametrize("page", [p for p in PAGES if p != "new_task.md" and any(commands(p))])
def test_commands_are_right(page, monkeypatch):
    monkeypatch.chdir(ROOT)  # where settings files are
    for line, (task, step, *arguments) in commands(page):
        try:
            group = keras_attn_command.get_command(click.Context(keras_attn_command), task)
            if task == "serve":  # a command of all tasks, without steps
                group.make_context(task, [step, *arguments], resilient_parsing=False)
                continue
            command = group.get_command(click.Context(group), step)
            given = command.make_context(step, arguments, resilient_parsing=False).params
            file = given.get("config")
            merged(NAMED[task], step, None if "$" in str(file) else file, given)
        except (AttributeError, ValueError, TypeError, OSError, click.UsageError) as error:
            raise AssertionError(f"{page}, line {line}: {task} {step}: {error}") from error


def test_scripts_have_their_options():
    """Each option that a page gives to a script of ours stands in it."""
    for page in PAGES:
        for line, block in blocks(page, "bash"):
            for match in re.finditer(r"python (-m benchmarks|\w+/\S+\.py)((?:.*\\\n)*.*)", block):
                name, rest = match[1].removeprefix("-m "), match[2].partition("#")[0]
                shared = (ROOT / name).parent / "drawn_cases.py"
                files = (ROOT / name).glob("*.py") if name == "benchmarks" else [ROOT / name]
                files = [*files, *filter(Path.exists, [shared])]
                source = "".join(file.read_text(encoding="utf-8") for file in files)
                for option in re.findall(r"(?<=\s)--[\w-]+", rest.split(";")[0]):
                    assert f'"{option}"' in source, f"{page}, line {line}: {name} {option}"


@pytest.mark.parametrize("page", [p for p in PAGES if any(blocks(p, "toml"))])
def test_settings_files_are_read(page, tmp_path):
    for _, block in blocks(page, "toml"):
        (tmp_path / "settings.toml").write_text(block, encoding="utf-8")
        sections = TASKS[page].sections()
        for name, values in read_settings(tmp_path / "settings.toml", sections).items():
            sections[name].made(values)


def test_a_table_has_the_defaults_as_they_are():
    sections = tasks.TextClassifier.sections()
    declared = [o for name in ("data", "model", "training") for o in sections[name].declared()]
    defaults = {option.name: option.default for option in declared}
    found = 0
    for line in PAGES["sentiment.md"].read_text(encoding="utf-8").splitlines():
        if line.startswith("| `--"):
            names, values = (re.sub(r"[|`]|^ ?--", "", x) for x in line.split(" | ")[:2])
            names = names.split(", ")
            # A default that depends on the model has commas of its own.
            values = values.split(", ") if len(names) > 1 else [values]
            for name, value in zip(names, values, strict=True):
                default = defaults[name.strip("- ").replace("-", "_")]
                assert value == ("none" if default in ("", None) else str(default)), name
                found += 1
    assert found == 35


def test_every_page_is_short_of_100_columns():
    """But rows of tables, blocks of code with one line to paste, and what has no space to break."""
    for page, path in PAGES.items():
        text = re.sub(r"<!-- \w+ command -->\n```.*?```", "", path.read_text("utf-8"), flags=re.S)
        for line in text.splitlines():
            whole = re.match(r"\| |!\[|[-*]? *\S+$", line)
            assert len(line) <= 100 or whole, f"{page}: {line}"


def test_links_lead_somewhere():
    for page, path in PAGES.items():
        text = re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
        for link in re.findall(r"\]\((?!https?:)([^)\s]+)\)", text):
            file, _, place = link.partition("#")
            target = (path.parent / file) if file else path
            assert target.exists(), f"{page}: {link}"
            if place:
                titles = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.M)
                found = {re.sub(r"[^\w\- ]", "", t).lower().replace(" ", "-") for t in titles}
                assert place in found, f"{page}: {link}"


def test_figures_of_the_readme_stand_in_the_results():
    """Each number of the table of tasks, as it is or with more digits."""
    text = PAGES["README.md"].read_text(encoding="utf-8").partition("\n## Tasks\n")[2]
    rows = [row for row in text.partition("\n## ")[0].splitlines() if row.startswith("|")][2:]
    results = PAGES["results.md"].read_text(encoding="utf-8")
    quoted = [figure for row in rows for figure in re.findall(r"\d*\.\d+", row)]
    assert len(quoted) > 20
    assert [figure for figure in quoted if figure not in results] == []


# What the code of a page needs: files in the folder, names, or something small for something large.


def captioning(folder, monkeypatch):
    """VGG16's weights would be downloaded; random ones on small pictures tell as much here."""
    monkeypatch.setenv("KERAS_ATTN_CACHE", str(folder / "cache"))
    make = keras_attn.models.applications_encoder

    def small(name="vgg16", weights=None, image_size=None):
        return make(name, None, 32)

    for module in (keras_attn.models, sys.modules["keras_attn.models.image_encoder_config"]):
        monkeypatch.setattr(module, "applications_encoder", small)
    (folder / "pictures").mkdir()
    rows = ["image,caption"]
    for number, name in enumerate(["beach", "field", *"abcdefgh"]):
        pixels = np.full((40, 40, 3), 20 * number, "uint8")
        for place in (folder, folder / "pictures"):
            keras.utils.save_img(place / f"{name}.jpg", pixels, scale=False)
        rows += [f"{name}.jpg,the {name}", f"{name}.jpg,a picture of {name}"]
    (folder / "captions.csv").write_text("\n".join(rows))
    return {}


WORDS = "warm dull funny slow clever tired bright loud fresh stale bold grey".split()
PAIRS = list(itertools.permutations(WORDS, 2))


def sentiment(folder, _):
    rows = [f'"The {word} film of {other}",{i % 5}' for i, (word, other) in enumerate(PAIRS)]
    (folder / "reviews.csv").write_text("\n".join(["review,stars", *rows]))
    return {}


def speed(folder, _):
    sources = [[5, 6, 7], [8, 9], [3, 4, 5, 6]] * 4
    targets = [ids[::-1] for ids in sources]
    sizes = {"num_layers": 1, "dim": 8, "num_heads": 2, "intermediate_dim": 8, "dropout": 0.0}
    model = TransformerEncoderDecoderConfig(source_vocabulary_size=20, **sizes).build()
    batches = TokenBatches(sources, targets, start_id=1, end_id=2)
    (folder / "run").mkdir()
    tokenizer = BytePairTokenizer.train(["a text"], 259)
    tasks.Translator(tokenizer, model=sizes).save(folder / "run/best.task")
    return {"sources": sources, "targets": targets, "model": model, "batches": batches}


def serving(folder, _):
    """The SavedModels of the other tasks, of untrained models."""
    texts = ["a warm film", "dull", "to be, or not to be: that is the question."]
    tokenizer = BytePairTokenizer.train(texts, 260)
    tasks.TextClassifier(tokenizer, ["bad", "good"], model={"pair_buckets": 0, "dim": 8}).export(
        folder / "sentiment/1"
    )
    tasks.TextGenerator(CharacterTokenizer.train(texts), model={"units": 8, "dim": 8}).export(
        folder / "writer/1"
    )
    sizes = {"dim": 8, "num_layers": 1, "num_heads": 2, "intermediate_dim": 8}
    tasks.Pretrainer.create(
        [["a warm film"], ["dull"]], data={"max_length": 16}, model=sizes
    ).export(folder / "words/1", top_k=2)
    tagger = tasks.Tagger.create(
        [(["Ada", "codes"], ["B-PER", "O"])], data={"max_length": 16}, model=sizes
    )
    tagger.model.get_layer("tags").bias.assign([0.0, 99.0, 0.0])  # every word is a person
    tagger.export(folder / "names/1")
    answers = [("Where does Zoë live?", "Zoë lives in Oslo, not in Rome.", ["Oslo"])]
    tasks.QuestionAnswerer.create(
        answers, data={"max_length": 64, "max_question_length": 24}, model=sizes
    ).export(folder / "answers/1", n_best=2)
    similar = [(("a hound", "a dog"), 5.0), (("a hound", "the sea"), 0.0)]
    tasks.SimilarityScorer.create(similar, data={"max_length": 16}, model=sizes).export(
        folder / "similar/1", normalize=True
    )
    pairs = [("the dog runs .", "a cat runs .", "no"), ("the dog runs .", "a dog runs .", "yes")]
    small = {"attention": "matching", "dim": 8, "units": 8, "projection_dim": 0}
    tasks.EntailmentClassifier.create(pairs, data={"train": ""}, model=small).export(
        folder / "entailment/1"
    )
    encoder = patch_encoder((4, 8), 4, num_layers=1, dim=8, num_heads=2, intermediate_dim=8)
    tasks.AnswerSelector.create(
        [("a clock?", "the clock"), ("a dog?", "a dog")], data={"max_length": 16}, model=sizes
    ).export(folder / "search/1", top_k=2)
    talks = [(("Hello, who are you?", "I am Ben."), "Hello Ben!"), (("I am Eva.",), "Hello Eva!")]
    tasks.Talker.create(talks, data={"max_context": 24, "max_answer": 8}, model=sizes).export(
        folder / "talk/1", beams=2
    )
    tasks.Captioner(
        tokenizer, encoder, model={"dim": 8, "units": 8}, data={"max_length": 8}
    ).export(folder / "captions/1", beams=4, num_return_sequences=2)
    return {}


def pretrained(folder, _):
    """As many layers as MiniLM, of few weights."""
    words = ["in", "spring", "a", "clock"]
    tokenizer = WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words])
    config = BertConfig(
        9, dim=8, num_layers=6, num_heads=2, intermediate_dim=8, sequence_length=128
    )
    keras_attn.interop.save_pretrained(folder / "minilm", config.build(), config, tokenizer)
    return gpt2(folder, _)


def gpt2(folder, _):
    """A GPT-2 of few weights."""
    texts = ["In the beginning, once upon a time"]
    tokenizer = BytePairTokenizer.train(texts, 260, normalize=False, pattern="gpt2")
    config = GptConfig(260, dim=8, num_layers=1, num_heads=2, intermediate_dim=8)
    keras_attn.interop.save_pretrained(folder / "gpt2", config.build(), config, tokenizer)
    return {}


def migrating(folder, monkeypatch):
    """A BERT and a Marian of few weights."""
    texts = ["a warm dull film and bright slow", "The dog runs, the cat sleeps. Who runs?"]
    tokenizer = WordPieceTokenizer.train(texts, 80, allow_fewer=True)
    sizes = {"dim": 8, "num_layers": 1, "num_heads": 2, "intermediate_dim": 8}
    config = BertConfig(tokenizer.vocabulary_size, **sizes)
    keras_attn.interop.save_pretrained(folder / "bert", config.build(), config, tokenizer)
    monkeypatch.syspath_prepend(ROOT / "tests/interop")
    importlib.import_module("marian_toys").translator(folder / "opus-mt")
    return {}


def similarity(folder, _):
    words = "a the dog hound runs is running clock in spring sea cold".split()
    tokenizer = WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *words])
    config = BertConfig(16, dim=8, num_layers=1, num_heads=2, intermediate_dim=8)
    keras_attn.interop.save_pretrained(folder / "minilm", config.build(), config, tokenizer)
    return {}


def onnx(folder, _):
    """An exported classifier, and a model to export."""
    words = "a great film dull from beginning to end .".split()
    tokenizer = WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *words])
    sizes = {"dim": 8, "num_layers": 1, "num_heads": 2, "intermediate_dim": 8}
    settings = {"model": {"model": "bert", **sizes}, "data": {"max_length": 8}}
    tasks.TextClassifier(tokenizer, ("bad", "good"), **settings).export(
        folder / "classifier_onnx", format="onnx"
    )
    ids = np.array([[2, 5, 6, 3], [2, 7, 3, 0]], "int32")
    model = BertConfig(13, **sizes).build()
    inputs = {"token_ids": ids, "segment_ids": ids * 0, "padding_mask": ids != 0}
    return {"model": model, "inputs": inputs}


def bert(folder, _):
    """Documents of two topics, each of two or three sentences."""
    topics = [
        ["the dog barks loudly", "it runs home", "it sleeps in the house"],
        ["a fish swims deep", "the water is cold", "a ship sails on the sea"],
    ]
    documents = ["\n".join(topics[i % 2][: 2 + i % 3 % 2]) for i in range(200)]
    (folder / "corpus.txt").write_text("\n\n".join(documents), encoding="utf-8")
    return {}


SETUPS = {
    "answer_selection.md": similarity, "bert.md": bert,
    "captioning.md": captioning, "migrating.md": migrating, "onnx.md": onnx,
    "pretrained.md": pretrained, "sentiment.md": sentiment, "serving.md": serving,
    "similarity.md": similarity, "speed.md": speed,
    "text_generation.md": gpt2, "word_embeddings.md": similarity,
}  # fmt: skip


# What came of it.


def decoding_searched(names, folder, printed):
    assert printed.startswith("(2, 2, 20) ")


def sentiment_learnt(names, folder, printed):
    assert "Prediction(label='good'" in printed
    assert names["outputs"]["label"].shape == (1,)


def text_generation_learnt(names, folder, printed):
    score, text, texts, best, streamed, served = printed.rsplit("\n", 6)[:-1]
    assert "bits per character of 258" in score
    assert names["generator"].evaluate(names["test"]).bits_per_character < 1
    assert text.startswith("to be")
    assert [text[:4] for text in eval(texts)] == ["to b", "that"]
    assert best.startswith("['to be") and best.endswith("]")
    assert f"to be{streamed}" == names["generator"].generate("to be", 60, stop="\n")
    assert eval(served) == names["generator"].generate(["to be", ""], 20, top_p=0.9, seed=[1, 2])


def translation_prepared(names, folder, printed):
    assert "train: 6, dev: 1, test: 1" in printed


def served(names, folder, printed):
    """Each request gets an answer like the one after it, as TensorFlow Serving packs both."""
    text = PAGES["serving.md"].read_text(encoding="utf-8").split("## TensorFlow Serving")[1]
    exchanged = [json.loads(part.split("```")[0]) for part in text.split("```json\n")[1:]]
    assert len(exchanged) == 36
    for request, answer in zip(exchanged[::2], exchanged[1::2], strict=True):
        said = json.dumps(request)
        place = next((k for k, of in MARKS.items() if any(w in said for w in of)), "translate_de")
        found = ask(folder / place / "1", request)
        assert form(found) == form(answer), request
    assert "eine Katze" in printed
    (block,) = (b for _, b in blocks("serving.md", "sh") if b.startswith("saved_model_cli"))
    for line in block.replace("\\\n", "").splitlines():
        script = "from tensorflow.python.tools.saved_model_cli import main; main()"
        _, *arguments = shlex.split(line)
        shown = run_python("tensorflow", script, *arguments, cwd=folder).stdout
    assert "b'eine Katze'" in shown


MARKS = {
    "talk": ("I am Ben",),
    "answers": ("question",),
    "similar": ("hound", "embed"),
    "entailment": ("premise",),
    "words": ("[MASK]", "second"),
    "sentiment": ("film",),
    "names": ("Ada",),
    "search": ("clock",),
    "writer": ("prompt",),
    "captions": ("b64",),
}


def ask(folder, request):
    """What TensorFlow Serving's REST interface answers."""
    import tensorflow as tf

    def raw(value):
        if isinstance(value, list):
            return [raw(x) for x in value]
        return base64.b64decode(value["b64"]) if isinstance(value, dict) else value

    loaded = tf.saved_model.load(str(folder))
    signature = loaded.signatures[request.get("signature_name", "serving_default")]
    inputs = signature.structured_input_signature[1]
    if rows := request.get("instances"):
        if not isinstance(rows[0], dict) or "b64" in rows[0]:
            rows = [dict.fromkeys(inputs, row) for row in rows]  # there is one input
        columns = {name: [row[name] for row in rows] for name in rows[0]}
    else:
        columns = request["inputs"]
    assert set(columns) == set(inputs)
    tensors = {name: tf.constant(raw(x), inputs[name].dtype) for name, x in columns.items()}
    outputs = {name: x.numpy().tolist() for name, x in signature(**tensors).items()}
    one = len(outputs) == 1
    if "inputs" in request:
        return {"outputs": next(iter(outputs.values())) if one else outputs}
    rows = [dict(zip(outputs, row, strict=True)) for row in zip(*outputs.values(), strict=True)]
    return {"predictions": [next(iter(row.values())) if one else row for row in rows]}


def form(value):
    """Names, axes and types, without lengths."""
    if isinstance(value, dict):
        return {name: form(x) for name, x in value.items()}
    if isinstance(value, list):
        return [form(value[0])]
    return str if isinstance(value, bytes) else type(value)


def pretrained_reported(names, folder, printed):
    (report,) = (block for _, block in blocks("pretrained.md", "text"))
    assert printed.startswith(f"{report}['classes/kernel', 'classes/bias']\n")
    assert "new and random: 2 tensors of head" in printed
    assert keras_attn.interop.read_pretrained("reviews").labels == ["bad", "fair", "good"]


def bert_learnt(names, folder, printed):
    (report,) = (block for _, block in blocks("bert.md", "text") if block.startswith("loaded"))
    assert f"{report}Prediction(" in printed
    assert names["pretrainer"].evaluate(names["held_out"]).accuracy > 0.3
    assert {path.name for path in folder.iterdir()} == {
        "corpus.txt", "encoder.task", "heads.html", "saved_model",
    }  # fmt: skip


def tagging_learnt(names, folder, printed):
    assert "PER Ada Lee 0 7\nLOC Rome 13 17\n" in printed
    explanation = names["explanation"]
    assert explanation.label == "B-LOC" and explanation.strongest(1)[0][1] > 0
    assert "[[b'Ada Lee' b'Rome']] [[b'PER' b'LOC']]" in printed
    assert "[[b'B-PER' b'O' b'B-LOC']]" in printed


def answers_learnt(names, folder, printed):
    assert "Oslo 13 17\n" in printed
    assert names["explanation"].marked == (13, 17) and Path("why.html").exists()
    assert "\nRome [b'Rome'" in printed


CHECKS = {
    "question_answering.md": answers_learnt,
    "bert.md": bert_learnt, "fine_tuning.md": tagging_learnt,
    "decoding.md": decoding_searched, "pretrained.md": pretrained_reported,
    "sentiment.md": sentiment_learnt, "serving.md": served,
    "text_generation.md": text_generation_learnt, "translation.md": translation_prepared,
}  # fmt: skip

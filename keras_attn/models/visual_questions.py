"""Models that answer questions about images."""

from dataclasses import dataclass
from typing import Any

import keras
from keras import ops

from keras_attn.hints import DType, Tensor
from keras_attn.layers import (
    Dropout,
    GridPositionalEncoding,
    LayerNormalization,
    LearnedPositionalEncoding,
    PositionalEncoding,
    RecurrentEncoder,
    TransformerEncoder,
)
from keras_attn.models.classifier_parts import make_embedding, make_pooling
from keras_attn.models.image_encoder import ImageEncoder
from keras_attn.models.question_rows import QuestionBlock, QuestionRows
from keras_attn.models.roles import VISUAL_QUESTION_MODELS
from keras_attn.models.transformer_captioner import REGION_POSITIONS
from keras_attn.settings import Settings, setting, size

QUESTION_ENCODERS = ("transformer", "rnn")


@dataclass(frozen=True)
class QuestionConfig(Settings):
    """Settings of the question encoder, which all models for visual questions share."""

    vocabulary_size: int = size("number of words")
    num_classes: int = size("number of answers")
    region_dim: int = size("width of a region")
    grid: tuple[int, int] | None = size("rows and columns of the regions", default=None, kind=tuple)
    question_encoder: str = setting("transformer", "question encoder", choices=QUESTION_ENCODERS)
    question_layers: int = setting(1, "layers of the question encoder", at_least=1)
    dim: int = setting(128, "width of the model", at_least=2)
    num_heads: int = setting(4, "number of attention heads", at_least=1)
    dropout: float = setting(
        0.1, "dropout of embeddings, sublayers and the output", at_least=0, below=1
    )

    def __post_init__(self):
        if isinstance(self.grid, list):  # as JSON has it
            object.__setattr__(self, "grid", tuple(self.grid))
        super().__post_init__()
        if self.dim % 2 or (self.attends and self.dim % self.num_heads):
            raise ValueError(
                f"`dim` must be even{' and divisible by `num_heads`' if self.attends else ''}. "
                f"Received: dim={self.dim}, num_heads={self.num_heads}."
            )
        if self.grid is not None and (
            len(self.grid) != 2 or not all(type(n) is int and n > 0 for n in self.grid)
        ):
            raise ValueError(
                f"`grid` must be (rows, columns), integers of at least 1. Received: {self.grid!r}."
            )

    @property
    def attends(self) -> bool:
        """Whether the model has attention heads."""
        return True

    @property
    def recurrent(self) -> bool:
        """Whether the question encoder is recurrent."""
        return self.question_encoder == "rnn"

    def inputs(self) -> dict[str, Tensor]:
        """Returns the symbolic inputs `regions` `(B, R, Dr)` and `question_ids` `(B, Q, T)`.

        Raises:
            ValueError: If the setting `grid` is None.
        """
        if self.grid is None:
            raise ValueError("Expected the `grid` of the image encoder. Received: None.")
        count = self.grid[0] * self.grid[1]
        return {
            "regions": keras.Input((count, self.region_dim), name="regions"),
            "question_ids": keras.Input((None, None), dtype="int32", name="question_ids"),
        }

    def read(self, ids: Tensor, own: dict[str, Any]) -> Tensor:
        """Returns the states `(B Q, T, D)` of the words of questions, given ids `(B Q, T)`."""
        mask = ops.not_equal(ids, 0)
        x = make_embedding(self.vocabulary_size, self.dim, own["dtype"])(ids)
        if self.question_encoder == "rnn":
            x = Dropout(self.dropout, name="embedding_dropout", **own)(x)
            encoder = RecurrentEncoder(
                self.dim // 2, num_layers=self.question_layers, cell="lstm", name="question", **own
            )
        else:
            x = PositionalEncoding(name="positions", **own)(x)
            x = Dropout(self.dropout, name="embedding_dropout", **own)(x)
            encoder = TransformerEncoder(
                self.question_layers,
                self.num_heads,
                intermediate_dim=2 * self.dim,
                dropout=self.dropout,
                name="question",
                **own,
            )
        return encoder(x, padding_mask=mask)


@VISUAL_QUESTION_MODELS.register("cross-attention")
@dataclass(frozen=True)
class VisualQuestionsConfig(QuestionConfig):
    """Settings of a model whose question words attend to the regions of an image.

        memory = norm(regions Wr + br + positions of the regions)       (B, R, D)
        words  = question encoder(embed(question_ids))                  (Q, T, D) of an image
        words  = block_i(words, memory), i = 1 ... num_layers           self-attention within the
                 question, cross-attention to the memory, feed-forward; pre-norm
        logits = dropout(pool(norm(words))) W + b                       (Q, C)

    Q is the number of questions of an image, T the number of words of a question; Wr, br, W and b
    are weights.

    The blocks are decoder blocks (Vaswani et al., 2017) without a causal mask, as in the
    cross-modality encoder of LXMERT (Tan and Bansal, 2019). Each word has its own attention in each
    block and head. An image may have several questions; its memory, and the keys and values of the
    memory, are computed once. Questions do not see each other. Padding is id 0; a question without
    words is pooled to zeros.

    Args:
        vocabulary_size: Number of words; id 0 is padding.
        num_classes: Number C of answers.
        region_dim: Width Dr of a region: `region_dim` of the `ImageEncoder`.
        grid: Rows and columns of the regions, the `grid` of the `ImageEncoder`; `build` requires
            it.
        question_encoder: `"transformer"` or `"rnn"` (a bidirectional LSTM).
        question_layers: Number of layers of the question encoder.
        dim: Width D, an even number.
        num_heads: Number of attention heads, a divisor of D.
        dropout: Dropout rate of embeddings, sublayers and the output.
        num_layers: Number of blocks with cross-attention.
        intermediate_dim: Width of the hidden layer of the feed-forward networks.
        attention_dropout: Dropout of the attention weights of the blocks.
        region_positions: Position encoding of the regions: `"sinusoidal"` (of rows and columns),
            `"learned"` or `"none"`.
        region_layers: Number of Transformer blocks over the regions, before the question attends to
            them.
        pooling: Pooling of the words into a vector: `"attention"`, `"average"` or `"max"`.

    Raises:
        TypeError: If a setting is unknown or has the wrong type.
        ValueError: If a setting is out of range or not one of its choices, `dim` is odd, the heads
            do not divide it, or `grid` is not a pair of positive integers.

    Example:

    >>> config = VisualQuestionsConfig(50, 3, region_dim=6, grid=(2, 2), dim=8, num_heads=2)
    >>> inputs = {"regions": ops.ones((1, 4, 6)), "question_ids": ops.array([[[5, 6], [7, 0]]])}
    >>> tuple(config.build()(inputs).shape)
    (1, 2, 3)
    """

    num_layers: int = setting(2, "blocks with attention to the image", at_least=1)
    intermediate_dim: int = setting(256, "hidden width of the feed-forward networks", at_least=1)
    attention_dropout: float = setting(0.0, "dropout of the attention weights", at_least=0, below=1)
    region_positions: str = setting(
        "sinusoidal", "position encoding of the regions", choices=REGION_POSITIONS
    )
    region_layers: int = setting(0, "Transformer blocks over the regions", at_least=0)
    pooling: str = setting(
        "attention", "how words are pooled into one vector", choices=("attention", "average", "max")
    )

    def build(self, dtype: DType = None, name: str = "visual_questions") -> keras.Model:
        """Builds the Keras model that these settings describe, with random weights.

        Args:
            dtype: Dtype or policy of the layers, such as `"mixed_bfloat16"`.
            name: Name of the model.

        Returns:
            A functional model from `{"regions": (B, R, Dr), "question_ids": (B, Q, T)}` to logits
            `(B, Q, C)`.

        Raises:
            ValueError: If the setting `grid` is None.
        """
        own: dict[str, Any] = {"dtype": dtype}
        inputs = self.inputs()
        ids = inputs["question_ids"]
        memory = self._memory(inputs["regions"], own)
        rows = QuestionRows("questions", name="question_rows")(ids, ids)
        words = QuestionRows("pictures", name="picture_words", **own)(self.read(rows, own), ids)
        for i in range(self.num_layers):
            block = QuestionBlock(
                self.num_heads,
                intermediate_dim=self.intermediate_dim,
                dropout=self.dropout,
                attention_dropout=self.attention_dropout,
                activation="gelu",
                normalize_first=True,
                name=f"block_{i}",
                **own,
            )
            words = block(words, memory, ids)
        words = LayerNormalization(name="norm", **own)(words)
        words = QuestionRows("questions", name="question_words", **own)(words, ids)
        x = make_pooling(self.pooling, None, dtype)(words, mask=ops.not_equal(rows, 0))
        x = Dropout(self.dropout, name="head_dropout", **own)(x)
        logits = keras.layers.Dense(self.num_classes, name="head", **own)(x)
        logits = QuestionRows("answers", name="answers", **own)(logits, ids)
        return keras.Model(inputs, logits, name=name)

    def _memory(self, regions: Tensor, own: dict[str, Any]) -> Tensor:
        """The regions `(B, R, D)` that the words attend to."""
        x = keras.layers.Dense(self.dim, name="region_projection", **own)(regions)
        if self.grid is not None and self.region_positions == "sinusoidal":
            x = GridPositionalEncoding(self.grid[1], name="region_positions", **own)(x)
        elif self.grid is not None and self.region_positions == "learned":
            count = self.grid[0] * self.grid[1]
            x = LearnedPositionalEncoding(count, name="region_positions", **own)(x)
        if self.region_layers:
            x = TransformerEncoder(
                self.region_layers,
                self.num_heads,
                intermediate_dim=self.intermediate_dim,
                dropout=self.dropout,
                normalize_first=True,
                name="region_encoder",
                **own,
            )(x)
        x = LayerNormalization(name="region_norm", **own)(x)
        return Dropout(self.dropout, name="region_dropout", **own)(x)


@VISUAL_QUESTION_MODELS.register("concatenation")
@dataclass(frozen=True)
class ConcatenatedQuestionsConfig(QuestionConfig):
    """Settings of a model without attention to the image, for comparison.

        picture = all regions in one vector                             (B, R Dr)
        words   = mean of question encoder(embed(question_ids))         (Q, D) of an image
        hidden  = relu([picture; words] W1 + b1)                        (Q, H)
        logits  = dropout(relu(hidden W2 + b2)) W3 + b3                 (Q, C)

    Q is the number of questions of an image; W1, b1, W2, b2, W3 and b3 are weights. The model is
    the CNN + MLP baseline of Santoro et al., 2017.

    References:
        - [Santoro et al., 2017](https://arxiv.org/abs/1706.01427): A simple neural network module
          for relational reasoning.

    Args:
        vocabulary_size: Number of words; id 0 is padding.
        num_classes: Number C of answers.
        region_dim: Width Dr of a region: `region_dim` of the `ImageEncoder`.
        grid: Rows and columns of the regions, the `grid` of the `ImageEncoder`; `build` requires
            it.
        question_encoder: `"transformer"` or `"rnn"` (a bidirectional LSTM).
        question_layers: Number of layers of the question encoder.
        dim: Width D, an even number.
        num_heads: Number of attention heads of a Transformer question encoder, a divisor of D.
        dropout: Dropout rate of embeddings, sublayers and the output.
        units: Width H of the two hidden layers.

    Raises:
        TypeError: If a setting is unknown or has the wrong type.
        ValueError: If a setting is out of range or not one of its choices, `dim` is odd, the heads
            of a Transformer question encoder do not divide it, or `grid` is not a pair of positive
            integers.

    Example:

    >>> config = ConcatenatedQuestionsConfig(50, 3, region_dim=6, grid=(2, 2), dim=8, num_heads=2)
    >>> inputs = {"regions": ops.ones((1, 4, 6)), "question_ids": ops.array([[[5, 6], [7, 0]]])}
    >>> tuple(config.build()(inputs).shape)
    (1, 2, 3)
    """

    units: int = setting(256, "width of the hidden layers", at_least=1)

    @property
    def attends(self) -> bool:
        """Whether the question encoder has attention heads."""
        return self.question_encoder != "rnn"

    def build(self, dtype: DType = None, name: str = "visual_questions") -> keras.Model:
        """Builds the Keras model that these settings describe, with random weights.

        Args:
            dtype: Dtype or policy of the layers, such as `"mixed_bfloat16"`.
            name: Name of the model.

        Returns:
            A functional model from `{"regions": (B, R, Dr), "question_ids": (B, Q, T)}` to logits
            `(B, Q, C)`.

        Raises:
            ValueError: If the setting `grid` is None.
        """
        own: dict[str, Any] = {"dtype": dtype}
        inputs = self.inputs()
        ids = inputs["question_ids"]
        rows = QuestionRows("questions", name="question_rows")(ids, ids)
        pooled = make_pooling("average", None, dtype)(
            self.read(rows, own), mask=ops.not_equal(rows, 0)
        )
        asked = QuestionRows("answers", name="question_vectors", **own)(pooled, ids)
        # One product with [picture; words], in two parts: the picture's is computed once.
        seen = keras.layers.Flatten(name="picture", **own)(inputs["regions"])
        seen = keras.layers.Dense(self.units, name="picture_units", **own)(seen)
        asked = keras.layers.Dense(self.units, use_bias=False, name="question_units", **own)(asked)
        x = ops.relu(ops.expand_dims(seen, 1) + asked)
        x = keras.layers.Dense(self.units, "relu", name="hidden", **own)(x)
        x = Dropout(self.dropout, name="head_dropout", **own)(x)
        logits = keras.layers.Dense(self.num_classes, name="head", **own)(x)
        return keras.Model(inputs, logits, name=name)


def picture_questions(
    encoder: ImageEncoder, model: keras.Model, name: str = "picture_questions"
) -> keras.Model:
    """Builds a model for questions about images that shares the layers of two models.

        logits = model(encoder(images), question_ids)

    Args:
        encoder: An `ImageEncoder`.
        model: A model built by the config of one of `VISUAL_QUESTION_MODELS`.
        name: Name of the new model.

    Returns:
        A functional model from `{"images": (B, H, W, 3), "question_ids": (B, Q, T)}` to logits
        `(B, Q, C)`.

    Raises:
        ValueError: If the number or width of the encoder's regions does not match the model.

    Example:

    >>> encoder = small_cnn_encoder(8, filters=(4, 6))
    >>> settings = {"dim": 8, "num_heads": 2, "num_layers": 1}
    >>> config = VisualQuestionsConfig(50, 3, region_dim=6, grid=(2, 2), **settings)
    >>> joined = picture_questions(encoder, config.build())
    >>> sorted(joined.input)
    ['images', 'question_ids']
    """
    images = keras.Input((None, None, 3), dtype=encoder.input.dtype, name="images")
    ids = keras.Input((None, None), dtype="int32", name="question_ids")
    logits = model({"regions": encoder(images), "question_ids": ids})
    return keras.Model({"images": images, "question_ids": ids}, logits, name=name)

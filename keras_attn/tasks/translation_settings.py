"""The settings of a translation run: its data, model, training and decoding."""

from __future__ import annotations

from dataclasses import dataclass

from keras_attn.tasks.settings import check_settings, setting

FORMATS = ("auto", "tsv", "parallel", "jsonl", "multi30k", "tatoeba")
TOKENIZE = ("13a", "char", "intl", "none", "zh", "ja-mecab", "ko-mecab", "flores200")
PRECISIONS = ("float32", "mixed_bfloat16", "mixed_float16")


@dataclass(frozen=True)
class TranslationDataSettings:
    """How pairs are read and made into ids. The help texts say what each setting does.

    Example:

    >>> TranslationDataSettings(format="tsv").vocabulary_size
    8000
    """

    train: str = setting("", "file, folder or archive of training pairs", shapes_result=False)
    train_target: str = setting(
        "", "target side, where it is a file of its own", shapes_result=False
    )
    dev: str = setting("", "development pairs; drawn from the rest if empty", shapes_result=False)
    dev_target: str = setting("", "their target side", shapes_result=False)
    test: str = setting("", "test pairs; drawn from the rest if empty", shapes_result=False)
    test_target: str = setting("", "their target side", shapes_result=False)
    format: str = setting("auto", "what the files are", choices=FORMATS)
    source: str = setting(
        "", "source: language, key of JSON lines, or number of the column, from 0"
    )
    target: str = setting(
        "", "target: language, key of JSON lines, or number of the column, from 0"
    )
    on_error: str = setting(
        "error", "bad lines: stop, or skip and count them", choices=("error", "skip")
    )
    max_characters: int = setting(2000, "longer sides are bad lines", at_least=1)
    dev_size: int = setting(1000, "pairs drawn for development", at_least=1)
    test_size: int = setting(1000, "pairs drawn for the test", at_least=1)
    vocabulary_size: int = setting(8000, "byte pairs of the tokenizer", at_least=259)
    separate_vocabularies: bool = setting(False, "a tokenizer for each side, not one for both")
    max_length: int = setting(256, "tokens; pairs with a longer side are left out", at_least=2)
    split_seed: int = setting(0, "of the pairs that are drawn", at_least=0)

    __post_init__ = check_settings


@dataclass(frozen=True)
class TranslationModelSettings:
    """The Transformer. The help texts say what each setting does.

    Example:

    >>> TranslationModelSettings(num_layers=4).dim
    256
    """

    num_layers: int = setting(3, "encoder and decoder blocks", at_least=1)
    dim: int = setting(256, "width", at_least=1)
    num_heads: int = setting(4, "attention heads", at_least=1)
    intermediate_dim: int = setting(1024, "hidden width of the feed-forward networks", at_least=1)
    dropout: float = setting(0.1, "of embeddings and sublayers", at_least=0, below=1)
    attention_dropout: float = setting(0.0, "of attention weights", at_least=0, below=1)
    activation: str = setting("relu", "of the feed-forward networks")
    normalize_first: bool = setting(True, "pre-norm, not post-norm")

    __post_init__ = check_settings


@dataclass(frozen=True)
class TranslationTrainingSettings:
    """The training. The help texts say what each setting does.

    Example:

    >>> TranslationTrainingSettings(epochs=3).learning_rate
    0.001
    """

    epochs: int = setting(20, "passes over the training pairs", at_least=1)
    tokens_per_batch: int = setting(
        4096, "tokens of a batch on its longer side, with padding", at_least=1
    )
    gradient_accumulation: int = setting(1, "batches that make one update", at_least=1)
    learning_rate: float = setting(1e-3, "the highest", above=0)
    warmup_steps: int = setting(
        -1, "updates until it is reached; -1: a tenth, at most 4000", at_least=-1
    )
    label_smoothing: float = setting(0.1, "share spread over the vocabulary", at_least=0, below=1)
    weight_decay: float = setting(0.0, "of AdamW; 0: plain Adam", at_least=0)
    clip_norm: float = setting(0.0, "largest norm of the gradient; 0: any", at_least=0)
    ema: float = setting(
        -1.0,
        "momentum of the weights' average; 0: none; -1: by the run's length",
        at_least=-1,
        below=1,
    )
    precision: str = setting("float32", "of the computation", choices=PRECISIONS)
    seed: int = setting(0, "of weights, dropout and the order of the data", at_least=0)
    score_epochs: int = setting(1, "epochs between two scores of the development set", at_least=1)
    score_pairs: int = setting(500, "development pairs that are translated then", at_least=1)
    score_beams: int = setting(1, "width of the beam search then; 1: greedy", at_least=1)
    score_tokenize: str = setting("13a", "sacrebleu's tokenizer of these scores", choices=TOKENIZE)
    checkpoint_steps: int = setting(
        1000, "batches between two checkpoints within an epoch", at_least=1, shapes_result=False
    )
    tensorboard: bool = setting(False, "write TensorBoard's logs too", shapes_result=False)
    device: str = setting(
        "auto", "where to train", choices=("auto", "cpu", "gpu"), shapes_result=False
    )

    __post_init__ = check_settings


@dataclass(frozen=True)
class TranslationDecodingSettings:
    """The beam search. The help texts say what each setting does.

    Example:

    >>> TranslationDecodingSettings().beams
    4
    """

    beams: int = setting(4, "width of the beam search; 1: greedy", at_least=1)
    alpha: float = setting(1.0, "exponent of the length penalty")
    batch_size: int = setting(64, "sentences decoded at a time", at_least=1)

    __post_init__ = check_settings


SECTIONS = {
    "data": TranslationDataSettings,
    "model": TranslationModelSettings,
    "training": TranslationTrainingSettings,
    "decoding": TranslationDecodingSettings,
}

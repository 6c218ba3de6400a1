"""Readers of real data, leak-free splits and token batches; NumPy and the standard library.

Nothing here imports TensorFlow; `TokenBatches` is a `keras.utils.PyDataset`, so that the same
batches feed `fit` on the TensorFlow, JAX and PyTorch backends.
"""

from keras_attn.datasets.batching import EpochOrder, TokenBatches
from keras_attn.datasets.download import DownloadError
from keras_attn.datasets.home_assistant import load_home_assistant
from keras_attn.datasets.parallel import LineProblem, ParallelText, TranslationPair
from keras_attn.datasets.readers import (
    read_json_lines,
    read_multi30k,
    read_pairs,
    read_parallel,
    read_tatoeba,
    read_tsv,
)
from keras_attn.datasets.shakespeare import Work, load_shakespeare
from keras_attn.datasets.splits import (
    TranslationSplits,
    remove_overlap,
    split_pairs,
    template,
)
from keras_attn.datasets.text_windows import TextWindows, scoring_windows
from keras_attn.datasets.texts import read_text, split_text

__all__ = [
    "DownloadError",
    "EpochOrder",
    "LineProblem",
    "ParallelText",
    "TextWindows",
    "TokenBatches",
    "TranslationPair",
    "TranslationSplits",
    "Work",
    "load_home_assistant",
    "load_shakespeare",
    "read_json_lines",
    "read_multi30k",
    "read_pairs",
    "read_parallel",
    "read_tatoeba",
    "read_text",
    "read_tsv",
    "remove_overlap",
    "scoring_windows",
    "split_pairs",
    "split_text",
    "template",
]

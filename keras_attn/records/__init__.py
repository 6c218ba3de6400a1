"""Readers of texts, labelled texts and sentence pairs, checked line by line; leak-free splits.

Nothing here imports Keras.
"""

from keras_attn.records.labelled_readers import read_imdb, read_labelled, read_sst2
from keras_attn.records.labelled_splits import (
    LabelledSplits,
    remove_labelled_overlap,
    split_labelled,
)
from keras_attn.records.labelled_texts import LabelledText, LabelledTexts
from keras_attn.records.near_duplicates import duplicate_groups
from keras_attn.records.parallel import LineProblem, ParallelText, TranslationPair
from keras_attn.records.readers import (
    read_json_lines,
    read_multi30k,
    read_pairs,
    read_parallel,
    read_tatoeba,
    read_tsv,
)
from keras_attn.records.splits import TranslationSplits, remove_overlap, split_pairs, template
from keras_attn.records.texts import read_text, split_text

__all__ = [
    "LabelledSplits",
    "LabelledText",
    "LabelledTexts",
    "LineProblem",
    "ParallelText",
    "TranslationPair",
    "TranslationSplits",
    "duplicate_groups",
    "read_imdb",
    "read_json_lines",
    "read_labelled",
    "read_multi30k",
    "read_pairs",
    "read_parallel",
    "read_sst2",
    "read_tatoeba",
    "read_text",
    "read_tsv",
    "remove_labelled_overlap",
    "remove_overlap",
    "split_labelled",
    "split_pairs",
    "split_text",
    "template",
]

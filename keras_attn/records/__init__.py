"""Readers of texts, labelled texts and sentence pairs, and leak-free splits.

This package does not import Keras.
"""

from keras_attn.records.dialogues import (
    Dialogues,
    DialogueSplits,
    Exchange,
    Turn,
    exchanges,
    read_dialogues,
    split_dialogues,
    without,
)
from keras_attn.records.documents import (
    Documents,
    SplitDocuments,
    WholeDocuments,
    read_whole_documents,
    split_documents,
)
from keras_attn.records.encodings import EncodedFile
from keras_attn.records.labelled_readers import read_imdb, read_labelled, read_sst2
from keras_attn.records.labelled_splits import (
    LabelledSplits,
    remove_labelled_overlap,
    split_labelled,
)
from keras_attn.records.labelled_texts import LabelledText, LabelledTexts
from keras_attn.records.near_duplicates import duplicate_groups
from keras_attn.records.numbered_texts import (
    NumberedText,
    NumberedTexts,
    read_numbered_texts,
    split_numbered,
)
from keras_attn.records.parallel import ParallelText, TranslationPair
from keras_attn.records.problems import LineProblem
from keras_attn.records.questions import (
    AnsweredQuestion,
    AnsweredQuestions,
    TextAnswer,
    read_questions,
    split_questions,
)
from keras_attn.records.readers import (
    read_json_lines,
    read_multi30k,
    read_pairs,
    read_parallel,
    read_tatoeba,
    read_tsv,
)
from keras_attn.records.rows import Rows
from keras_attn.records.scored_pairs import (
    ScoredPair,
    ScoredPairs,
    read_scored_pairs,
    split_scored_pairs,
)
from keras_attn.records.selection_questions import (
    SelectionQuestion,
    SelectionQuestions,
    read_candidates,
    read_selection_questions,
    split_selection_questions,
)
from keras_attn.records.splits import TranslationSplits, remove_overlap, split_pairs, template
from keras_attn.records.tagged_texts import TaggedText, TaggedTexts, read_tagged, split_tagged
from keras_attn.records.texts import Text, read_text, split_text
from keras_attn.records.word_questions import WordTests, read_analogies, read_word_pairs

__all__ = [
    "AnsweredQuestion",
    "AnsweredQuestions",
    "DialogueSplits",
    "Dialogues",
    "Documents",
    "EncodedFile",
    "Exchange",
    "LabelledSplits",
    "LabelledText",
    "LabelledTexts",
    "LineProblem",
    "NumberedText",
    "NumberedTexts",
    "ParallelText",
    "Rows",
    "ScoredPair",
    "ScoredPairs",
    "SelectionQuestion",
    "SelectionQuestions",
    "SplitDocuments",
    "TaggedText",
    "TaggedTexts",
    "Text",
    "TextAnswer",
    "TranslationPair",
    "TranslationSplits",
    "Turn",
    "WholeDocuments",
    "WordTests",
    "duplicate_groups",
    "exchanges",
    "read_analogies",
    "read_candidates",
    "read_dialogues",
    "read_imdb",
    "read_json_lines",
    "read_labelled",
    "read_multi30k",
    "read_numbered_texts",
    "read_pairs",
    "read_parallel",
    "read_questions",
    "read_scored_pairs",
    "read_selection_questions",
    "read_sst2",
    "read_tagged",
    "read_tatoeba",
    "read_text",
    "read_tsv",
    "read_whole_documents",
    "read_word_pairs",
    "remove_labelled_overlap",
    "remove_overlap",
    "split_dialogues",
    "split_documents",
    "split_labelled",
    "split_numbered",
    "split_pairs",
    "split_questions",
    "split_scored_pairs",
    "split_selection_questions",
    "split_tagged",
    "split_text",
    "template",
    "without",
]

"""Inputs and outputs of tasks, equal in Python and in TensorFlow graphs."""

from keras_attn.fields.aligned_tokens import AttentionWeights, ReadableTokens
from keras_attn.fields.answer_index import AnswerIndex, FoundAnswer
from keras_attn.fields.answer_spans import Answer, AnswerSpan
from keras_attn.fields.encoder_input import EncoderInput
from keras_attn.fields.generated_text import GeneratedText, PromptInput
from keras_attn.fields.guesses import Guess
from keras_attn.fields.outputs import Label, Names, Numbers, Strings
from keras_attn.fields.padded_numbers import PaddedNumbers
from keras_attn.fields.picture_input import PictureInput
from keras_attn.fields.question_rows import QuestionRows
from keras_attn.fields.ragged_outputs import (
    NameRows,
    NumberRows,
    PartRows,
    PlaceRows,
    StringRows,
)
from keras_attn.fields.signature import Signature, Together
from keras_attn.fields.source_text import SourceText
from keras_attn.fields.tagged_words import EntityPlace, LabelledWords, TaggedWords
from keras_attn.fields.text import (
    ODD_TEXTS,
    TextInput,
    checked_inputs,
    checked_pairs,
    checked_texts,
)
from keras_attn.fields.text_rows import FoundNames, SearchTexts, SeparateTexts, TextRows, Tokens
from keras_attn.fields.turns import MARKS, TurnRows, spoken, with_marks
from keras_attn.fields.word_rows import TextWords, WordLists, WordRows
from keras_attn.fields.word_sums import WordSum
from keras_attn.fields.word_tokens import WordTokens

__all__ = [
    "MARKS",
    "ODD_TEXTS",
    "Answer",
    "AnswerIndex",
    "AnswerSpan",
    "AttentionWeights",
    "EncoderInput",
    "EntityPlace",
    "FoundAnswer",
    "FoundNames",
    "GeneratedText",
    "Guess",
    "Label",
    "LabelledWords",
    "NameRows",
    "Names",
    "NumberRows",
    "Numbers",
    "PaddedNumbers",
    "PartRows",
    "PictureInput",
    "PlaceRows",
    "PromptInput",
    "QuestionRows",
    "ReadableTokens",
    "SearchTexts",
    "SeparateTexts",
    "Signature",
    "SourceText",
    "StringRows",
    "Strings",
    "TaggedWords",
    "TextInput",
    "TextRows",
    "TextWords",
    "Together",
    "Tokens",
    "TurnRows",
    "WordLists",
    "WordRows",
    "WordSum",
    "WordTokens",
    "checked_inputs",
    "checked_pairs",
    "checked_texts",
    "spoken",
    "with_marks",
]

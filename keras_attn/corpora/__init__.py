"""Default data: what `pip` fetches once, drawn pictures, and words with several senses."""

from keras_attn.corpora.download import DownloadError
from keras_attn.corpora.emoji_pictures import (
    EmojiPicture,
    EmojiSplits,
    load_emoji_pictures,
    save_emoji_pictures,
    split_by_concept,
)
from keras_attn.corpora.home_assistant import load_home_assistant
from keras_attn.corpora.movie_reviews import load_movie_reviews
from keras_attn.corpora.shakespeare import Work, load_shakespeare
from keras_attn.corpora.sort_of_clevr import DrawnObject, Scene, questions_of, sort_of_clevr
from keras_attn.corpora.word_senses import LAYER_WORDS, TEST_WORDS, WORD_SENSES

__all__ = [
    "LAYER_WORDS",
    "TEST_WORDS",
    "WORD_SENSES",
    "DownloadError",
    "DrawnObject",
    "EmojiPicture",
    "EmojiSplits",
    "Scene",
    "Work",
    "load_emoji_pictures",
    "load_home_assistant",
    "load_movie_reviews",
    "load_shakespeare",
    "questions_of",
    "save_emoji_pictures",
    "sort_of_clevr",
    "split_by_concept",
]

"""Default data, which `pip` fetches once."""

from keras_attn.corpora.download import DownloadError
from keras_attn.corpora.emoji_pictures import (
    EmojiPicture,
    EmojiSplits,
    load_emoji_pictures,
    save_emoji_pictures,
    split_by_concept,
)
from keras_attn.corpora.home_assistant import load_home_assistant
from keras_attn.corpora.labelled_texts import read_labelled_texts
from keras_attn.corpora.movie_reviews import load_movie_reviews
from keras_attn.corpora.shakespeare import Work, load_shakespeare

__all__ = [
    "DownloadError",
    "EmojiPicture",
    "EmojiSplits",
    "Work",
    "load_emoji_pictures",
    "load_home_assistant",
    "load_movie_reviews",
    "load_shakespeare",
    "read_labelled_texts",
    "save_emoji_pictures",
    "split_by_concept",
]

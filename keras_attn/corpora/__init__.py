"""Default data, which `pip` downloads once, and generated stories."""

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
from keras_attn.corpora.stories import StoryQuestion, make_stories, story_arrays, story_words

__all__ = [
    "DownloadError",
    "EmojiPicture",
    "EmojiSplits",
    "StoryQuestion",
    "Work",
    "load_emoji_pictures",
    "load_home_assistant",
    "load_movie_reviews",
    "load_shakespeare",
    "make_stories",
    "read_labelled_texts",
    "save_emoji_pictures",
    "split_by_concept",
    "story_arrays",
    "story_words",
]

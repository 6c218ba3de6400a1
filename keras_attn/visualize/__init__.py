"""Figures and HTML pages of attention and token weights."""

from keras_attn.visualize.attention_steps import AttentionSteps, attention_steps
from keras_attn.visualize.attention_view import AttentionPart, AttentionView
from keras_attn.visualize.caption_picture import plot_caption
from keras_attn.visualize.coloured_tokens import (
    coloured_tokens_fragment,
    coloured_tokens_html,
    coloured_tokens_text,
)
from keras_attn.visualize.contextual_page import contextual_page, main_directions
from keras_attn.visualize.encoder_page import encoder_page
from keras_attn.visualize.focus import Focus, find_focus
from keras_attn.visualize.head_importance import plot_head_importance
from keras_attn.visualize.head_maps import plot_attention_heads
from keras_attn.visualize.head_outcomes import HeadOutcomes, Outcome
from keras_attn.visualize.head_tables import head_roles_fragment, head_roles_html
from keras_attn.visualize.heat_map import plot_attention
from keras_attn.visualize.html_map import attention_html
from keras_attn.visualize.lecture_sentences import LECTURE_SENTENCES, LectureSentence
from keras_attn.visualize.steps_page import attention_steps_page
from keras_attn.visualize.text_picture import plot_text_weights
from keras_attn.visualize.text_weights import text_weights_fragment, text_weights_html
from keras_attn.visualize.viewer_page import attention_viewer
from keras_attn.visualize.word_map_page import word_map_page, word_places

__all__ = [
    "LECTURE_SENTENCES",
    "AttentionPart",
    "AttentionSteps",
    "AttentionView",
    "Focus",
    "HeadOutcomes",
    "LectureSentence",
    "Outcome",
    "attention_html",
    "attention_steps",
    "attention_steps_page",
    "attention_viewer",
    "coloured_tokens_fragment",
    "coloured_tokens_html",
    "coloured_tokens_text",
    "contextual_page",
    "encoder_page",
    "find_focus",
    "head_roles_fragment",
    "head_roles_html",
    "main_directions",
    "plot_attention",
    "plot_attention_heads",
    "plot_caption",
    "plot_head_importance",
    "plot_text_weights",
    "text_weights_fragment",
    "text_weights_html",
    "word_map_page",
    "word_places",
]

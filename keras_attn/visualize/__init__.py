"""Attention seen."""

from keras_attn.visualize.heat_map import plot_attention
from keras_attn.visualize.html_map import attention_html
from keras_attn.visualize.text_picture import plot_text_weights
from keras_attn.visualize.text_weights import text_weights_fragment, text_weights_html

__all__ = [
    "attention_html",
    "plot_attention",
    "plot_text_weights",
    "text_weights_fragment",
    "text_weights_html",
]

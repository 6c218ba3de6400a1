"""Pictures and pages that show attention and token weights."""

from keras_attn.visualize.attention_view import AttentionPart, AttentionView
from keras_attn.visualize.caption_picture import plot_caption
from keras_attn.visualize.head_maps import plot_attention_heads
from keras_attn.visualize.heat_map import plot_attention
from keras_attn.visualize.html_map import attention_html
from keras_attn.visualize.text_picture import plot_text_weights
from keras_attn.visualize.text_weights import text_weights_fragment, text_weights_html
from keras_attn.visualize.viewer_page import attention_viewer

__all__ = [
    "AttentionPart",
    "AttentionView",
    "attention_html",
    "attention_viewer",
    "plot_attention",
    "plot_attention_heads",
    "plot_caption",
    "plot_text_weights",
    "text_weights_fragment",
    "text_weights_html",
]

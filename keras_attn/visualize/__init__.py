"""Attention seen."""

from keras_attn.visualize.heat_map import plot_attention
from keras_attn.visualize.html_map import attention_html

__all__ = ["attention_html", "plot_attention"]

"""Attention seen."""

from keras_attn.visualize.heat_map import plot_attention

__all__ = ["plot_attention"]

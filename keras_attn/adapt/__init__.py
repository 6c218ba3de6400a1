"""Adaptation of trained models: LoRA and quantization."""

from keras_attn.adapt.lora import LoraReport, enable_lora, load_lora, merge_lora, save_lora
from keras_attn.adapt.quantization import quantize

__all__ = [
    "LoraReport",
    "enable_lora",
    "load_lora",
    "merge_lora",
    "quantize",
    "save_lora",
]

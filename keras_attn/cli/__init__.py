"""The command `keras-attn`."""

from keras_attn.packages import needed

with needed("The command"):
    from keras_attn.cli.main import keras_attn_command, main

__all__ = ["keras_attn_command", "main"]

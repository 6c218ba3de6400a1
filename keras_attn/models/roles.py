"""Roles of models, each a registry of the architectures for it."""

from keras_attn.settings import Kinds

ENCODER_DECODERS = Kinds("model", "transformer", "architecture of the encoder and decoder")
"""Models from source and target ids to the logits of the target."""
TEXT_CLASSIFIERS = Kinds("model", "bag", "architecture of the classifier")
"""Models from ids to the logits of the classes."""
LANGUAGE_MODELS = Kinds("model", "rnn", "architecture of the language model")
"""Models from ids to the logits of the next ids."""
CAPTIONERS = Kinds("model", "soft-attention", "architecture of the decoder")
"""Models from the regions of a picture and the ids of its caption to the logits of the next ids."""

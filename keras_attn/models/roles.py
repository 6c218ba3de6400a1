"""What architectures can be: their roles, each with the architectures that have it."""

from keras_attn.settings import Kinds

ENCODER_DECODERS = Kinds("model", "transformer", "architecture of the encoder and decoder")
"""Models from source and target ids to the logits of the target."""
TEXT_CLASSIFIERS = Kinds("model", "bag", "architecture of the classifier")
"""Models from ids to the logits of classes."""
LANGUAGE_MODELS = Kinds("model", "rnn", "architecture of the language model")
"""Models from ids to the logits of the next ones."""
CAPTIONERS = Kinds("model", "soft-attention", "architecture of the decoder")
"""Models from regions of a picture and ids of its caption to the logits of the next ones."""

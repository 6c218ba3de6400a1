"""Roles of models, each a registry of the architectures for it."""

from keras_attn.settings import Kinds

ENCODER_DECODERS = Kinds("model", "transformer", "architecture of the encoder and decoder")
"""Models from source and target ids to the logits of the target."""
ENCODERS = Kinds("model", "bert", "architecture of the encoder")
"""Models from ids to a state of each token and one of the whole text, for heads of any kind."""
TEXT_CLASSIFIERS = Kinds("model", "bag", "architecture of the classifier")
"""Models from ids to the logits of the classes."""
PAIR_CLASSIFIERS = Kinds("model", "lstm", "architecture of the classifier")
"""Models from the ids of two texts to the logits of the classes."""
LANGUAGE_MODELS = Kinds("model", "rnn", "architecture of the language model")
"""Models from ids to the logits of the next ids."""
CAPTIONERS = Kinds("model", "soft-attention", "architecture of the decoder")
"""Models from the regions of a picture and the ids of its caption to the logits of the next ids."""
WORD_MODELS = Kinds("model", "skip-gram", "what is predicted: words around a word, or a word")
"""Models from words and those around them to the logits of standing together."""
CONVERSATION_MODELS = Kinds("model", "transformer", "architecture of the conversation model")
"""Models that answer the turns so far: encoder-decoders, and decoders that read both in one row."""
VISUAL_QUESTION_MODELS = Kinds("model", "cross-attention", "architecture of the model")
"""Models from the regions of a picture and the ids of questions to the logits of the answers."""

"""Registries of architectures, one for each role of a model."""

from keras_attn.settings import Kinds

ENCODER_DECODERS = Kinds("model", "transformer", "architecture of the encoder and decoder")
"""Models from source and target ids to the logits of the target."""
ENCODERS = Kinds("model", "bert", "architecture of the encoder")
"""Models from ids to a state for each token and one for the whole text, for any head."""
TEXT_CLASSIFIERS = Kinds("model", "bag", "architecture of the classifier")
"""Models from ids to the logits of the classes."""
PAIR_CLASSIFIERS = Kinds("model", "lstm", "architecture of the classifier")
"""Models from the ids of two texts to the logits of the classes."""
LANGUAGE_MODELS = Kinds("model", "rnn", "architecture of the language model")
"""Models from ids to logits of the next ids."""
CAPTIONERS = Kinds("model", "soft-attention", "architecture of the decoder")
"""Models from the regions of an image and the ids of its caption to logits of the next ids."""
WORD_MODELS = Kinds("model", "skip-gram", "what is predicted: words around a word, or a word")
"""Models from words and context words to the logits of their co-occurrence."""
CONVERSATION_MODELS = Kinds("model", "transformer", "architecture of the conversation model")
"""Models that answer a conversation: encoder-decoders, and decoders that read the turns and the
answer in one row."""
VISUAL_QUESTION_MODELS = Kinds("model", "cross-attention", "architecture of the model")
"""Models from the regions of an image and the ids of questions to the logits of answers."""

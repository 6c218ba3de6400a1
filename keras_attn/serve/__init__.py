"""A page and a REST server for saved tasks."""

from keras_attn.serve.application import Limits, application
from keras_attn.serve.server import serve

__all__ = ["Limits", "application", "serve"]

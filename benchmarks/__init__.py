"""Speed and memory of keras_attn beside its peers: `python -m benchmarks --help`."""

import importlib.util

if importlib.util.find_spec("triton") is not None:
    # PyTorch's builds for CUDA bring it. Where TensorFlow 2.21 is imported before, it crashes.
    import triton  # noqa: F401

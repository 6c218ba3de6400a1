"""Speed and memory of keras_attn beside its peers: `python -m benchmarks --help`."""

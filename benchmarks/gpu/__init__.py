"""Checks and measurements for a GPU, in steps that fit into short calls: `docs/gpu_benchmark.md`."""

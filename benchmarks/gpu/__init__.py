"""Checks and measurements of a GPU in steps that fit into short calls: `docs/gpu_benchmark.md`."""

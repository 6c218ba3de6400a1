"""Similarity: how much alike two texts are, and vectors of texts."""

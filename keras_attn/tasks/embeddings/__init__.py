"""Word embeddings: vectors of words, learned from plain text."""

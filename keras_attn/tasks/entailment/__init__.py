"""Entailment: two texts in, what the first says of the second out."""

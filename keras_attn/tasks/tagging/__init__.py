"""Tagging: a label for each word, and the entities that the labels mark."""

"""Conversation: the turns so far in, an answer out."""

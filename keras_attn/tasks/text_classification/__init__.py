"""Text classification: a text in, its class out, and the words that decided."""

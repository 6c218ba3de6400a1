"""Captioning: a picture in, a sentence out, and where the model looked."""

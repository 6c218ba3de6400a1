"""Question answering: a question and a text in, the part of the text that answers it out."""

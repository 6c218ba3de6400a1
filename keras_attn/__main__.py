"""`python -m keras_attn` is the command `keras-attn`."""

from keras_attn.cli import main

if __name__ == "__main__":
    main()

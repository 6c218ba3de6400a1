"""Special tokens in texts: which are counted, and which a tokenizer can have."""

import numpy as np

from keras_attn.text import BytePairTokenizer, CharacterTokenizer
from keras_attn.text.special_tokens import (
    ENDS,
    counted,
    readable_tokens,
    written_special_tokens,
)


def test_counts_at_any_depth():
    examples = [
        ("[CLS] a [SEP] b [SEP]", "x"), {"text": ["</s></s>", b"</s>"], "label": "[PAD]"}, 7, None,
        np.zeros(3), [("<|endoftext|>",), "<s>trong <S> [sep] < unk> <br /> [MASK"],
    ]  # fmt: skip
    expected = {"[CLS]": 1, "[SEP]": 2, "</s>": 2, "[PAD]": 1, "<|endoftext|>": 1, "<s>": 1}
    assert dict(written_special_tokens(examples)) == expected
    assert written_special_tokens("a text") == {}


def test_those_of_a_tokenizer_are_counted_too():
    plain = BytePairTokenizer.train(["a text"], 259, normalize=False)
    special = ["<|end|>", "<|end|>", "<|end|>", "<|end|>2"]
    tokenizer = BytePairTokenizer(
        [*special[2:], *plain.vocabulary[3:]], [], normalize=False, special_tokens=special
    )
    text = "<|end|> <|end|>2 </s>"  # of two that begin alike, the longer one
    assert written_special_tokens(text, tokenizer) == {"<|end|>": 1, "<|end|>2": 1, "</s>": 1}
    assert readable_tokens(tokenizer) == {"<|end|>": 0, "<|end|>2": 1}
    assert readable_tokens(plain) == dict.fromkeys(ENDS, 2)
    assert readable_tokens(CharacterTokenizer.train(["a"])) == dict.fromkeys(ENDS, 2)
    more = BytePairTokenizer(
        [*plain.vocabulary, "<|turn|>"], [], special_tokens=[*plain.special_tokens, "<|turn|>"]
    )
    assert readable_tokens(more) == {**dict.fromkeys(ENDS, 2), "<|turn|>": 259}


def test_counts_in_words():
    assert (
        counted({"<s>": 2, "[SEP]": 1, "</s>": 2}) == "`</s>` 2 times, `<s>` 2 times, `[SEP]` once"
    )

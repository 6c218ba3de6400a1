"""Words, links and pictures of alignments."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from keras_attn.explain import Alignment
from keras_attn.explain.alignment import END
from keras_attn.text import BytePairTokenizer

SENTENCES = [
    "Hello, world! How do you do?",
    "  leading  and   double spaces ",
    "line\nbreaks\r\n\tand tabs\t",
    "a smile 🙂 and a family 👨‍👩‍👧, naïve café",
    "50\u00a0% of “them” — <b>bold</b> & so on…",
]
TOKENIZER = BytePairTokenizer.train(SENTENCES * 3, 320, normalize=False)
TEXTS = st.one_of(
    st.text(max_size=30),
    st.text(alphabet=" \n\t\u00a0\u2028\u3000\x1c\x85▁<0xE296>/sab.,!🙂é\x00", max_size=30),
    st.lists(st.sampled_from(SENTENCES), max_size=2).map(" ".join),
)


def aligned(source, target="x", end=True, text=True, weights=None):
    ends = [END] if end else []
    source_tokens = [*TOKENIZER.tokens(TOKENIZER.encode(source)), *ends]
    target_tokens = [*TOKENIZER.tokens(TOKENIZER.encode(target)), *ends]
    if weights is None:
        rng = np.random.default_rng(0)
        weights = rng.random((len(target_tokens), len(source_tokens))) + 1e-3
        weights /= weights.sum(axis=1, keepdims=True)
    texts = (source, target) if text else ()
    return Alignment(source_tokens, target_tokens, weights, *texts)


def well_formed(words):
    return [w.encode("utf-8", "surrogatepass").decode("utf-8", "replace") for w in words]


@pytest.mark.slow
@settings(deadline=None)
@given(TEXTS, TEXTS, st.booleans())
@example("a▁b", "▁", True)
@example("</s>", "a </s>", False)
@example("<0xE2> <0x3C>", "<0xE2><0x96><0x81>", True)
@example("\ud83d x", "\udc80", True)
@example("!\u00a0!", " ", True)
def test_words_are_those_of_split(source, target, end):
    alignment = aligned(source, target, end)
    words = alignment.by_words()
    ends = [END] if end else []
    assert words.source_tokens == [*well_formed(source.split()), *ends]
    assert words.target_tokens == [*well_formed(target.split()), *ends]
    assert words.by_words() is words
    # Every target word has a link, if there is a word that it can have one to.
    links = alignment.word_links()
    assert [j for _, j in links] == list(range(len(target.split()) if source.split() else 0))
    assert all(0 <= i < len(source.split()) for i, _ in links)
    # No weight is lost, but that of white space at the end of the source.
    if source == source.rstrip() and alignment.source_tokens:
        np.testing.assert_allclose(words.weights.sum(axis=1), 1, atol=1e-5)
    assert words.weights.min(initial=0) >= 0


@settings(deadline=None)
@given(TEXTS.filter(lambda t: not re.search("▁|<0x[0-9A-F]{2}>|</s>$", t)))
def test_without_a_text_the_tokens_tell_the_words(text):
    told, read = aligned(text, text).by_words(), aligned(text, text, text=False).by_words()
    assert read.source_tokens == told.source_tokens
    assert read.target_tokens == told.target_tokens
    np.testing.assert_array_equal(read.weights, told.weights)


def test_sums_over_the_source_and_means_over_the_target():
    alignment = Alignment(
        ["un", "happy", "▁", "<0xF0>", "</s>"],
        ["un", "glück", "▁X", "</s>"],
        [
            [0.1, 0.2, 0.3, 0.2, 0.2],
            [0.5, 0.3, 0.0, 0.1, 0.1],
            [0.0, 0.1, 0.4, 0.1, 0.4],
            [0.0, 0.0, 0.0, 0.1, 0.9],
        ],
    )
    words = alignment.by_words()
    assert words.source_tokens == ["unhappy", "\ufffd", "</s>"]
    assert words.target_tokens == ["unglück", "X", "</s>"]
    expected = [[0.55, 0.3, 0.15], [0.1, 0.5, 0.4], [0.0, 0.1, 0.9]]
    np.testing.assert_allclose(words.weights, expected, atol=1e-6)
    assert words.weights.dtype == np.float32
    assert alignment.word_links() == words.word_links() == [(0, 0), (1, 1)]
    assert alignment.word_links(0.52) == [(0, 0)]
    assert alignment.to_pharaoh() == "0-0 1-1"
    assert alignment.to_pharaoh(0.9) == ""
    crossed = Alignment(["a", "▁b", "▁c"], ["B", "▁A"], [[0.1, 0.5, 0.4], [0.75, 0, 0.25]])
    assert crossed.to_pharaoh() == crossed.to_pharaoh(0.5) == "1-0 0-1"


def test_the_text_tells_a_space_from_its_sign():
    tokens, weights = ["a", "▁", "b"], np.full((1, 3), 1 / 3)
    assert Alignment(tokens, ["x"], weights).by_words().source_tokens == ["a", "b"]
    literal = Alignment(tokens, ["x"], weights, source_text="a▁b").by_words()
    assert literal.source_tokens == ["a▁b"]
    np.testing.assert_allclose(literal.weights, [[1.0]])
    escape = Alignment(["<0x3C>", "▁b"], ["x"], [[0.5, 0.5]], source_text="<0x3C> b").by_words()
    assert escape.source_tokens == ["<0x3C>", "b"]


def test_a_token_over_two_words_is_shared():
    alignment = Alignment(["a<0xC2><0xA0>bcd"], ["x"], [[0.8]], source_text="a\u00a0bcd")
    np.testing.assert_allclose(alignment.by_words().weights, [[0.2, 0.6]], atol=1e-6)
    target = Alignment(["x"], ["a<0xC2><0xA0>", "b"], [[0.5], [0.1]])
    np.testing.assert_allclose(target.by_words().weights, [[0.5], [0.1]], atol=1e-6)


def test_words_that_were_cut_have_zeros():
    alignment = Alignment(
        ["one", "▁t", END], ["eins", END], [[0.5, 0.3, 0.2], [0, 0, 1]], source_text="one two three"
    )
    words = alignment.by_words()
    assert words.source_tokens == ["one", "two", "three", END]
    np.testing.assert_allclose(words.weights, [[0.5, 0.3, 0, 0.2], [0, 0, 0, 1]], atol=1e-6)
    cut = Alignment(["x"], ["one"], [[1.0]], target_text="one two")
    assert cut.word_links() == [(0, 0)]


def test_a_last_word_that_reads_as_the_end():
    alignment = aligned("a </s>", "a </s>", end=False)
    assert alignment.by_words().source_tokens == ["a", "</s>"]
    assert alignment.word_links() == alignment.by_words().word_links()
    assert len(alignment.word_links()) == 2
    one = Alignment(["</s>"], ["x"], [[1.0]], source_text="</s>")
    assert one.by_words().source_tokens == ["</s>"]
    assert one.word_links() == [(0, 0)]


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match=r"shape \(1, 2\)\. Received: shape \(2, 1\)"):
        Alignment(["a", "b"], ["x"], [[1.0], [0.0]])
    with pytest.raises(ValueError, match=r"token 1, '▁cat', where the text continues with ' dog'"):
        Alignment(["one", "▁cat", END], ["x"], np.zeros((1, 3)), source_text="one dog")
    with pytest.raises(ValueError, match="`target_tokens` to be the words of `target_text`"):
        Alignment(["a"], ["x"], [[1.0]], target_text="x y", unit="word")
    with pytest.raises(ValueError, match="Received: 'line'"):
        Alignment(["a"], ["x"], [[1.0]], unit="line")


class Table(HTMLParser):
    """The tags and the texts of a page."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.texts, self.attributes = [], [], []
        self.open = 0
        self.feed(page)
        self.close()
        assert self.open == 0

    def handle_starttag(self, tag, attributes):
        self.open += 1
        self.tags.append(tag)
        self.attributes.append(dict(attributes))

    def handle_endtag(self, tag):
        self.open -= 1

    def handle_data(self, data):
        self.texts.append(data)


def test_notebooks_show_a_table():
    text = "<b>bold</b> & \"so' on\n<script>alert(1)</script>"
    alignment = aligned(text, text)
    table = Table(alignment._repr_html_())
    assert set(table.tags) == {"table", "tr", "th", "td"}
    assert table.tags.count("th") == sum(alignment.weights.shape)
    assert table.tags.count("td") == alignment.weights.size + 1
    assert table.texts == [*alignment.source_tokens, *alignment.target_tokens]
    allowed = {"style", "title", "scope", "dir"}
    assert all(set(attributes) <= allowed for attributes in table.attributes)
    titles = [a["title"] for a in table.attributes if "title" in a]
    assert any(title.startswith("</s> ← ") for title in titles)


def test_the_words_controls_are_shown_as_bytes():
    words = aligned("a\x00b", "\x07").by_words()
    assert words.source_tokens == ["a\x00b", END]
    assert "a&lt;0x00&gt;b" in words._repr_html_()
    assert "\x00" not in words._repr_html_()
    labels = words.plot().axes[0].get_yticklabels()
    assert [label.get_text() for label in labels] == ["<0x07>", END]


def test_plot_writes_and_shows(tmp_path):
    figure = aligned("one dog", "ein Hund").plot(tmp_path / "a.png", "title")
    assert (tmp_path / "a.png").read_bytes()[:4] == b"\x89PNG"
    assert figure._repr_png_()[:4] == b"\x89PNG"
    assert figure._suptitle.get_text() == "title"
    assert repr(aligned("a", "b c", end=False, text=False)).startswith("<Alignment of ")

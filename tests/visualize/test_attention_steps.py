"""One head step by step: the numbers of the layer, and the page that shows them."""

import json

import keras
import numpy as np
import pytest
from browser import needs_chromium
from keras import ops

from keras_attn.layers import MultiHeadAttention, MultiHeadSelfAttention, SelfAttention
from keras_attn.visualize import attention_steps, attention_steps_page

BAD = "</script><b>"
TOKENS = ["[CLS]", BAD, "dog"]
RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(2, 4, 8)).astype("float32")


def follows(steps):
    """Each step leads to the next one, by NumPy."""
    scores = np.where(steps.visible, steps.query @ steps.key.T * steps.scale, -np.inf)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(steps.products, steps.query @ steps.key.T, atol=1e-5)
    np.testing.assert_allclose(steps.weights, weights, atol=1e-6)
    np.testing.assert_allclose(steps.context, steps.weights @ steps.value, atol=1e-6)


def test_the_numbers_are_those_of_the_layer():
    layer = SelfAttention(projection="separate", units=4)
    output, weights = layer(X[:1, :3], use_causal_mask=True, return_attention_scores=True)
    inputs = keras.Input((None, 8))
    model = keras.Model(inputs, layer(inputs, use_causal_mask=True))
    steps = attention_steps(model, X[:1, :3], TOKENS)
    follows(steps)
    np.testing.assert_array_equal(steps.visible, np.tri(3, dtype=bool))
    np.testing.assert_allclose(steps.weights, ops.convert_to_numpy(weights)[0], atol=1e-6)
    np.testing.assert_allclose(steps.context, ops.convert_to_numpy(output)[0], atol=1e-6)
    assert steps.scale == 0.5 and steps.path == layer.path


def test_heads_that_share_keys_and_values():
    layer = MultiHeadSelfAttention(num_heads=4, key_dim=2, num_kv_heads=2)
    follows(attention_steps(layer, X[:1, :3], TOKENS, head=1))


@pytest.mark.slow
def test_heads_of_a_model_with_padding():
    inputs = keras.Input((None, 8))
    masked = keras.layers.Masking()(inputs)
    first = MultiHeadSelfAttention(num_heads=2, name="first", positions="rotary")
    grouped = MultiHeadAttention(num_heads=4, key_dim=6, num_kv_heads=2, name="second")
    hidden = first(masked)
    model = keras.Model(inputs, grouped(hidden, hidden))
    x = X.copy()
    x[1, 3] = 0  # padding
    for path, head, size in (("first", 1, 4), ("second", 3, 6)):
        steps = attention_steps(model, x, TOKENS, path=path, head=head, row=1)
        follows(steps)
        assert steps.query.shape == (3, size) and steps.visible.all()
    last = attention_steps(model, x, [*TOKENS, "pad"], path="first", row=1)
    assert last.visible[0].tolist() == [True, True, True, False]
    # The outputs of all heads make the output of the layer.
    contexts = [
        attention_steps(model, x, TOKENS, path="second", head=n, row=1).context for n in range(4)
    ]
    output = np.concatenate(contexts, axis=1) @ ops.convert_to_numpy(grouped.output_dense.kernel)
    output += ops.convert_to_numpy(grouped.output_dense.bias)
    np.testing.assert_allclose(output, ops.convert_to_numpy(model(x))[1, :3], atol=1e-5)


def test_refuses():
    layer = SelfAttention()
    x = X[:1, :3]
    with pytest.raises(ValueError, match="Expected the path of a dot-product attention layer"):
        attention_steps(layer, x, TOKENS, path="nowhere")
    with pytest.raises(ValueError, match="heads 0 to 0 and rows 0 to 0"):
        attention_steps(layer, x, TOKENS, head=1)
    with pytest.raises(ValueError, match="Expected 1 to 3 query tokens"):
        attention_steps(layer, x, [*TOKENS, "cat"])
    with pytest.raises(ValueError, match="which also has bias"):
        attention_steps(MultiHeadSelfAttention(2, positions="alibi"), x, TOKENS)
    with pytest.raises(ValueError, match="`query` must be a word"):
        attention_steps_page(attention_steps(layer, x, TOKENS), "cat")


def test_the_page_has_the_numbers_and_fetches_nothing():
    steps = attention_steps(SelfAttention(), X[:1, :3], TOKENS)
    page = attention_steps_page(steps, "dog", BAD)
    assert page.count("</script>") == 2 and "http" not in page.replace("http-equiv", "")
    data = json.loads(page.split('id="data">')[1].split("</script>")[0])
    assert data["start"] == 2 and data["keys"] == TOKENS
    for name in ("query", "key", "value", "products", "weights", "context"):
        np.testing.assert_allclose(data[name], getattr(steps, name), rtol=1e-5)


@needs_chromium
@pytest.mark.slow
def test_in_a_browser(browser, tmp_path):
    layer = SelfAttention(projection="separate", units=4)
    inputs = keras.Input((None, 8))
    model = keras.Model(inputs, layer(inputs, use_causal_mask=True))
    steps = attention_steps(model, X[:1, :3], TOKENS)
    path = tmp_path / "steps.html"
    path.write_text(attention_steps_page(steps, 1, BAD), encoding="utf-8")
    browser.errors.clear()
    browser.requests.clear()
    browser.resize(390, 800)
    browser.open(path)
    name = "document.getElementById('name').textContent"
    cells = "[...document.querySelectorAll('#table td:last-child')].map(e => e.textContent)"
    seen = [browser.evaluate(name)]
    for key in ("ArrowRight", None, None, "ArrowRight"):
        browser.press(key) if key else browser.click("#next")
        seen.append(browser.evaluate(name))
        assert browser.evaluate("document.documentElement.scrollWidth") <= 390
        if seen[-1] == "Scores":
            found = [float(x.replace("−", "-")) for x in browser.evaluate(cells)]
            np.testing.assert_allclose(found, steps.products[1], rtol=6e-3)
        if seen[-1] == "Mask":
            assert browser.evaluate(cells)[2] == "−∞"
    assert seen == ["Query, keys and values", "Scores", "Scale", "Mask", "Softmax"]
    found = [float(x.replace("−", "-")) for x in browser.evaluate(cells)]
    np.testing.assert_allclose(found, steps.weights[1], rtol=6e-3)
    browser.press("ArrowRight")
    browser.press("ArrowRight")
    assert browser.evaluate(name) == "Weighted sum"
    assert browser.evaluate("document.getElementById('next').disabled")
    browser.press("ArrowLeft")
    assert browser.evaluate(name) == "Softmax"
    browser.resize(1000, 900)
    assert browser.errors == [] and len(browser.requests) == 1

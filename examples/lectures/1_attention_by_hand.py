# %% [markdown]
# # Lecture 1: Attention by hand
#
# Self-attention needs three matrix products and one softmax. In this lecture you compute them with
# numbers that fit on a blackboard, and compare each one with a layer of `keras_attn`.
#
# Run it with `pip install -e ".[examples]"` from a checkout. It takes a few seconds.

# %%
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import matplotlib.pyplot as plt
import numpy as np
from keras import ops

import keras_attn
from keras_attn.visualize import plot_attention

np.set_printoptions(precision=4, suppress=True)


def softmax(x):
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


# %% [markdown]
# ## Three inputs and three integer matrices
#
# Three inputs of width 4 are multiplied by three matrices. The results are the queries Q, the keys
# K and the values V, of width 3.

# %%
X = np.array([[1, 0, 1, 0], [0, 2, 0, 2], [1, 1, 1, 1]])
Wq = np.array([[1, 0, 1], [1, 0, 0], [0, 0, 1], [0, 1, 1]])
Wk = np.array([[0, 0, 1], [1, 1, 0], [0, 1, 0], [1, 1, 0]])
Wv = np.array([[0, 2, 0], [0, 3, 0], [1, 0, 3], [1, 1, 0]])
Q, K, V = X @ Wq, X @ Wk, X @ Wv
print("Q", *Q, "\nK", *K, "\nV", *V)

# %% [markdown]
# The scores of the first query are its dot products with the three keys. Slides often round the
# weights of the softmax to 0, 0.5 and 0.5. The output is then **2.0 7.0 1.5**.

# %%
scores = Q[0] @ K.T
rounded = np.array([0.0, 0.5, 0.5])
exact = softmax(scores.astype(float))
print("scores          ", scores)
print("rounded weights ", rounded, "-> output", rounded @ V)
print("exact weights   ", exact, "-> output", exact @ V)
assert (rounded @ V).tolist() == [2.0, 7.0, 1.5]
assert np.round(exact @ V, 2).tolist() == [1.94, 6.68, 1.60]

# %% [markdown]
# The exact output is **1.94 6.68 1.60**. The scores are 2, 4 and 4, so the weights are in the ratio
# 1 : e² : e², which is .063 : .468 : .468. The first key does not get 0. Its value `[1, 2, 3]` has
# a small second entry and a large third one, so the exact output is lower in the second place
# (6.68 instead of 7.0) and higher in the third (1.60 instead of 1.5).
#
# `SelfAttention` with `projection="separate"` is this computation. `scale=1.0` leaves out the
# division by the square root of the width.

# %%
layer = keras_attn.SelfAttention(projection="separate", units=3, scale=1.0)
x = ops.convert_to_tensor(X[None].astype("float32"))
layer(x)  # creates the weights
layer.set_weights([Wq, Wk, Wv])
output, weights = layer(x, return_attention_scores=True)
output, weights = (ops.convert_to_numpy(y)[0] for y in (output, weights))
print(output)
assert np.allclose(output[0], exact @ V, atol=1e-5)
plot_attention(weights, ["x1", "x2", "x3"], ["x1", "x2", "x3"])

# %% [markdown]
# ## A classroom fact: .88 .12 0 0
#
# A well-known slide has the scores 112, 96, 16 and 8 for the width 64. Divided by √64 = 8 they are
# 14, 12, 2 and 1, and the slide prints the weights .87 .12 .01 0. They are **.88 .12 0 0**: the
# third weight is e⁻¹² of the first, five in a million, and cannot round to .01.

# %%
slide = softmax(np.array([112, 96, 16, 8]) / np.sqrt(64))
print(np.round(slide, 2), "exactly", [f"{w:.2g}" for w in slide])
assert np.round(slide, 2).tolist() == [0.88, 0.12, 0.0, 0.0]

# %% [markdown]
# ## Three steps: no projection, one, three
#
# 1. `softmax(X Xᵀ) X`: every input is its own query, key and value. Nothing is learned.
# 2. One shared projection. The scores stay **symmetric**: if "bank" scores "river" high, "river"
#    scores "bank" exactly as high. The weights are not symmetric, since softmax normalizes rows.
# 3. Three projections. Now x1 can look at x2 without x2 looking back.

# %%
E = np.random.default_rng(0).normal(size=(1, 4, 8)).astype("float32")
words = ["he", "saw", "the", "bank"]
for projection in (None, "shared", "separate"):
    layer = keras_attn.SelfAttention(projection=projection, scale=1.0)
    output = ops.convert_to_numpy(layer(E))[0]
    queries, keys, _ = (ops.convert_to_numpy(y)[0] for y in layer.project(E))
    products = queries @ keys.T
    print(
        f"{projection!s:9} {layer.count_params():4} weights, symmetric scores:",
        np.allclose(products, products.T, atol=1e-5),
    )
    if projection is None:
        assert np.allclose(output, softmax(E[0] @ E[0].T) @ E[0], atol=1e-5)
    assert np.allclose(products, products.T, atol=1e-5) == (projection != "separate")

# %% [markdown]
# ## Why 1/√d
#
# The dot product of two vectors with d independent entries of variance 1 has the variance d. For
# large d the scores are far apart, one weight is almost 1, and the gradient of the softmax is
# almost 0: it saturates. Dividing by √d makes the variance 1 for every d.

# %%
rng = np.random.default_rng(1)
widths = 2 ** np.arange(1, 11)
variance, largest, gradient = [], {"unscaled": [], "scaled": []}, {"unscaled": [], "scaled": []}
for d in widths:
    q, k = rng.normal(size=(2000, 1, d)), rng.normal(size=(2000, 10, d))
    dots = (k @ q.transpose(0, 2, 1))[..., 0]
    variance.append(dots.var())
    for name, s in (("unscaled", dots), ("scaled", dots / np.sqrt(d))):
        w = softmax(s)
        largest[name].append(w.max(-1).mean())
        gradient[name].append((w * (1 - w)).sum(-1).mean())  # trace of the softmax's Jacobian
figure, axes = plt.subplots(1, 3, figsize=(9, 2.6), dpi=80, layout="constrained")
axes[0].loglog(widths, variance, "o-", label="q · k")
axes[0].loglog(widths, variance / widths, "s-", label="q · k / √d")
axes[0].set_title("variance of the scores")
for name in largest:
    axes[1].semilogx(widths, largest[name], "o-", label=name)
    axes[2].semilogx(widths, gradient[name], "o-", label=name)
axes[1].set_title("largest of 10 weights")
axes[2].set_title("gradient (trace)")
for ax in axes:
    ax.set_xlabel("d")
    ax.legend()
plt.show()
assert np.allclose(np.array(variance) / widths, 1, atol=0.1)
assert largest["unscaled"][-1] > 0.9 > 0.5 > largest["scaled"][-1]

# %% [markdown]
# ## Masks as pictures
#
# A mask says which keys a query may see. Hidden keys get the weight 0, and the others still sum
# to 1. `True` means "may be attended".

# %%
tokens = ["the", "cat", "sat", "down", "<pad>"]
x = np.random.default_rng(2).normal(size=(1, 5, 8)).astype("float32")
attend = keras_attn.MultiHeadSelfAttention(num_heads=1)
real = np.array([[True, True, True, True, False]])
kinds = {
    "no mask": {},
    "padding": {"mask": real},
    "causal": {"use_causal_mask": True},
    "causal and padding": {"use_causal_mask": True, "mask": real},
}
figure, axes = plt.subplots(1, 4, figsize=(10, 2.6), dpi=80, layout="constrained")
for ax, (name, masks) in zip(axes, kinds.items(), strict=True):
    _, w = attend(x, return_attention_scores=True, **masks)
    w = ops.convert_to_numpy(w)[0, 0]
    ax.imshow(w, cmap="Blues", vmin=0, vmax=1)
    ax.set(title=name, xticks=range(5), yticks=range(5), xticklabels=tokens, yticklabels=tokens)
    ax.tick_params(axis="x", rotation=60)
    assert np.allclose(w.sum(-1), 1, atol=1e-5)
    if "causal" in name:
        assert np.allclose(np.triu(w, 1), 0)
    if "padding" in name:
        assert np.allclose(w[:, 4], 0)
plt.show()

# %% [markdown]
# ## Exercises
#
# 1. Compute the second row of the output of the three inputs by hand. Which weights do the scores
#    4, 16 and 12 give?
# 2. For the scores 112, 96, 16 and 8, at which width d is the third weight one hundredth of the
#    first?
# 3. Draw the mask with which each token sees only itself and its two neighbours.
# 4. A query that sees no key at all: what should its output be? Check what the layer returns.

# %% [markdown]
# ## Solutions
#
# <details><summary>Show the text</summary>
#
# 1. Almost all the weight is on the second key: 16 is 4 more than 12, so its weight is e⁴ ≈ 55
#    times that of the third key.
# 2. The third weight is e^((16 - 112)/√d) = .01 of the first, so √d = 96 / ln 100 ≈ 21 and
#    d ≈ 435.
# 3. An `attention_mask` of shape `(1, 5, 5)` with `|i - j| <= 1`.
# 4. Zero. There is nothing to average, and NaN would spread to everything that follows.
#
# </details>

# %%
second = softmax((Q[1] @ K.T).astype(float))
print("1.", second, "->", second @ V)
assert np.allclose(second, [0, 0.982, 0.018], atol=1e-3)

d = (96 / np.log(100)) ** 2
w = softmax(np.array([112, 96, 16, 8]) / np.sqrt(d))
print("2. d =", round(d), w)
assert np.isclose(w[2] / w[0], 0.01)

near = np.abs(np.subtract.outer(range(5), range(5))) <= 1
_, w = attend(x, attention_mask=near[None], return_attention_scores=True)
print("3.", ops.convert_to_numpy(w)[0, 0], sep="\n")
assert np.allclose(ops.convert_to_numpy(w)[0, 0][~near], 0)

nothing = np.ones((1, 5, 5), bool)
nothing[0, 2] = False
_, w = attend(x, attention_mask=nothing, return_attention_scores=True)
print("4. weights of a query that sees nothing:", ops.convert_to_numpy(w)[0, 0, 2])
assert not ops.convert_to_numpy(w)[0, 0, 2].any()

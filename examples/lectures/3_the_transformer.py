# %% [markdown]
# # Lecture 3: The Transformer
#
# A Transformer is attention, a feed-forward network, residuals and norms, stacked. This lecture
# draws its positions, switches its parts off one by one, counts what N blocks of width D cost, and
# ends with two models that attend to images.

# %%
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import matplotlib.pyplot as plt
import numpy as np
import tensorflow as tf
from keras import ops

import keras_attn
from keras_attn.models import SoftAttentionCaptionerConfig, VisualQuestionsConfig

keras.utils.set_random_seed(0)

# %% [markdown]
# ## Positions
#
# PE[p, 2i] = sin(p / 10000^(2i/D)) and PE[p, 2i+1] = cos(p / 10000^(2i/D)). The dot product of two
# positions depends only on their distance, and is largest for neighbours.

# %%
D = 64
positions = ops.convert_to_numpy(keras_attn.PositionalEncoding()(np.zeros((1, 100, D), "float32")))
positions = positions[0]
dots = positions @ positions.T
figure, axes = plt.subplots(1, 3, figsize=(10, 2.8), dpi=75, layout="constrained")
axes[0].imshow(positions[:50], aspect="auto", cmap="RdBu")
axes[0].set(title="sinusoids", xlabel="feature", ylabel="position")
axes[1].imshow(dots, cmap="Blues")
axes[1].set(title="dot products", xlabel="position", ylabel="position")
for start in (0, 30, 60):
    axes[2].plot(range(40), dots[start, start : start + 40], label=f"from {start}")
axes[2].set(title="dot product by distance", xlabel="distance")
axes[2].legend()
plt.show()
assert np.allclose(positions[0, :4], [0, 1, 0, 1]) and np.allclose(
    dots.diagonal(), D / 2, rtol=1e-4
)
assert np.allclose(np.diagonal(dots, 7), dots[0, 7], rtol=1e-3)  # the distance decides

# %% [markdown]
# ## "cat ate fish" and "fish ate cat"
#
# Without positions, attention sees a bag of words: if you permute the words, each word keeps its
# vector. With positions, "cat" the eater differs from "cat" the eaten.

# %%
embed = keras_attn.TokenEmbedding(4, D)
block = keras_attn.TransformerEncoderBlock(4, intermediate_dim=2 * D)
add_positions = keras_attn.PositionalEncoding()
cat_ate_fish, fish_ate_cat = np.array([[1, 2, 3]]), np.array([[3, 2, 1]])
without = [ops.convert_to_numpy(block(embed(x)))[0] for x in (cat_ate_fish, fish_ate_cat)]
with_them = [
    ops.convert_to_numpy(block(add_positions(embed(x))))[0] for x in (cat_ate_fish, fish_ate_cat)
]
print("cat moves by", np.abs(without[0][0] - without[1][2]).max(), "without positions")
print("cat moves by", np.abs(with_them[0][0] - with_them[1][2]).max(), "with positions")
assert np.allclose(without[0], without[1][::-1], atol=1e-5)
assert np.abs(with_them[0][0] - with_them[1][2]).max() > 0.1

# %% [markdown]
# ## Heads
#
# The package has a small trained translator, English to German. Each head of a layer looks at
# something else. The last picture is its alignment: the mean of the heads of the last
# cross-attention.

# %%
from keras_attn.tasks import Translator

translator = Translator.load("home-assistant-en-de")
text, german = "The device is not connected.", "Das Gerät ist nicht verbunden."
ids = np.array([translator.source_tokenizer.encode(text)], "int32")
maps = keras_attn.attention_maps(translator.model, {"source_ids": ids, "target_ids": ids})
first, *_ = maps.select("self", "encoder")
tokens = [token.replace("▁", " ") for token in translator.source_tokenizer.tokens(ids[0])]
heads = first[0]
figure, axes = plt.subplots(1, len(heads), figsize=(2.6 * len(heads), 2.8), dpi=70,
                            layout="constrained")  # fmt: skip
for number, (ax, weights) in enumerate(zip(axes, heads, strict=True)):
    ax.imshow(weights, cmap="Blues", vmin=0, vmax=1)
    ax.set(title=f"head {number}", xticks=range(len(tokens)), yticks=range(len(tokens)))
    ax.set_xticklabels(tokens, rotation=70, fontsize=7)
    ax.set_yticklabels(tokens, fontsize=7)
plt.show()

# %%
translator.align(text, german).by_words().plot()

# %% [markdown]
# ## Residuals and norms, switched off one by one
#
# Ten pre-norm blocks of random weights: x + attention(norm(x)), then x + network(norm(x)). Without
# residuals the tokens become alike, since each attention averages them: their cosine goes to 1, and
# after ten blocks the model cannot tell them apart. Without norms the size of x is not kept.


# %%
def stack(residuals=True, norms=True, depth=10):
    """The states after each block, and the gradient of the last one at the input."""
    keras.utils.set_random_seed(1)
    x = start = tf.constant(np.random.default_rng(0).normal(size=(1, 8, D)).astype("float32"))
    states = [x]
    with tf.GradientTape() as tape:
        tape.watch(start)
        for _ in range(depth):
            for sublayer in (
                keras_attn.MultiHeadSelfAttention(4),
                keras_attn.FeedForward(4 * D, activation="relu"),
            ):
                y = sublayer(keras.layers.LayerNormalization()(x) if norms else x)
                x = x + y if residuals else y
            states.append(x)
        loss = tf.reduce_sum(x[0, 0, :2])
    return states, float(tf.norm(tape.gradient(loss, start)))


def alike(x):
    """The mean cosine between different tokens."""
    x = np.asarray(x)[0]
    x = x / (np.linalg.norm(x, axis=1, keepdims=True) + 1e-12)
    return (x @ x.T)[np.triu_indices(8, 1)].mean()


settings = {
    "all of it": {},
    "without norms": {"norms": False},
    "without residuals": {"residuals": False},
    "without both": {"residuals": False, "norms": False},
}
figure, axes = plt.subplots(1, 2, figsize=(8, 2.8), dpi=80, layout="constrained")
last = {}
for name, switched in settings.items():
    states, gradient = stack(**switched)
    last[name] = alike(states[-1]), float(tf.norm(states[-1])), gradient
    axes[0].plot([alike(x) for x in states], label=name)
    axes[1].semilogy([float(tf.norm(x)) for x in states], label=name)
    cosine, length, _ = last[name]
    print(f"{name:18} cosine {cosine:5.2f}, size {length:9.2g}, gradient {gradient:8.2g}")
axes[0].set(title="cosine between tokens", xlabel="block")
axes[1].set(title="size of the states", xlabel="block")
axes[1].legend(fontsize=7)
plt.show()
assert last["without residuals"][0] > 0.9 > last["all of it"][0]
assert last["without both"][2] < 1e-3 * last["all of it"][2]  # the gradient vanishes

# %% [markdown]
# ## What N and D cost
#
# A block has 4 D² weights in its attention and 8 D² in its feed-forward network of width 4 D, so N
# blocks have about 12 N D². The time has a second part that grows with the square of the length T:
# about 24 T D² + 4 T² D operations a block. For T < 6 D the weights decide.

# %%
for width in (64, 128, 256):
    layer = keras_attn.TransformerEncoderBlock(4, intermediate_dim=4 * width)
    layer(np.zeros((1, 2, width), "float32"))
    exact = layer.count_params()
    print(f"D = {width:3}: {exact:9,} weights, 12 D² = {12 * width**2:9,}")
    assert abs(exact / (12 * width**2) - 1) < 0.03
lengths = np.array([128, 512, 1536, 6144])
share = 4 * lengths**2 * 256 / (24 * lengths * 256**2 + 4 * lengths**2 * 256)
print(
    "share of T² for D = 256:",
    dict(zip(lengths.tolist(), np.round(share, 2).tolist(), strict=True)),
)
assert np.isclose(share[2], 0.5)

# %% [markdown]
# ## Captions, and where they looked
#
# An image of 2 x 2 colored squares, and a caption with the four colors in reading order. The model
# of Xu et al. (2015) looks at one region for each word. Nobody tells it where. To keep the lecture
# short, regions are given as vectors (color and place) and not computed by a CNN;
# `python examples/captioning.py` does it for real images.

# %%
COLORS = ["red", "green", "blue", "gold"]
rng = np.random.default_rng(0)
START = 5


def images(count):
    """Colors `(count, 4)` and regions `(count, 4, 8)`."""
    colors = rng.integers(0, 4, (count, 4))
    place = np.repeat(np.eye(4)[None], count, axis=0)
    return colors, np.concatenate([np.eye(4)[colors], place], axis=-1).astype("float32")


colors, regions = images(2000)
captioner = SoftAttentionCaptionerConfig(
    6, region_dim=8, dim=24, units=32, dropout=0.0, doubly_stochastic=0.1
).build()
captioner.compile(
    keras.optimizers.Adam(1e-2),
    keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    jit_compile=False,
)
read = np.concatenate([np.full((2000, 1), START), colors[:, :3] + 1], axis=1).astype("int32")
captioner.fit({"regions": regions, "target_ids": read}, colors + 1, epochs=6, verbose=0)
test_colors, test_regions = images(200)
test_read = np.concatenate([np.full((200, 1), START), test_colors[:, :3] + 1], axis=1).astype(
    "int32"
)
given = {"regions": test_regions, "target_ids": test_read}
guesses = ops.convert_to_numpy(captioner(given)).argmax(-1) - 1
print(f"right words: {(guesses == test_colors).mean():.1%}")
looked = next(
    iter(keras_attn.attention_maps(captioner, given).values())
)  # (200, 4 words, 4 regions)
share = looked[:, np.arange(4), np.arange(4)].mean()
print(f"weight on the region that the word names: {share:.2f} (chance: 0.25)")
figure, axes = plt.subplots(1, 5, figsize=(8, 1.9), dpi=80, layout="constrained")
rgb = {
    "red": (0.9, 0.2, 0.2),
    "green": (0.2, 0.7, 0.3),
    "blue": (0.2, 0.4, 0.9),
    "gold": (1, 0.8, 0),
}
picture = np.array([rgb[COLORS[c]] for c in test_colors[0]]).reshape(2, 2, 3)
axes[0].imshow(picture)
axes[0].set_title("image")
for word, ax in enumerate(axes[1:]):
    ax.imshow(looked[0, word].reshape(2, 2), cmap="gray", vmin=0, vmax=1)
    ax.set_title(COLORS[guesses[0, word]])
for ax in axes:
    ax.set_axis_off()
plt.show()
assert (guesses == test_colors).mean() > 0.8

# %% [markdown]
# ## A question to an image
#
# "bottom left" asks for the color of one square. The words of the question attend to the regions.

# %%
WORDS = {"top": 1, "bottom": 2, "left": 3, "right": 4}
PLACES = [("top", "left"), ("top", "right"), ("bottom", "left"), ("bottom", "right")]
asked = np.array([[[WORDS[a], WORDS[b]] for a, b in PLACES]], "int32")  # all four questions
answerer = VisualQuestionsConfig(
    5, 4, region_dim=8, grid=(2, 2), dim=32, num_heads=2, num_layers=1, intermediate_dim=64,
    dropout=0.0,
).build()  # fmt: skip
answerer.compile(
    keras.optimizers.Adam(3e-3),
    keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    jit_compile=False,
)
questions = np.repeat(asked, 2000, axis=0)
answerer.fit({"regions": regions, "question_ids": questions}, colors, epochs=5, verbose=0)
given = {"regions": test_regions, "question_ids": np.repeat(asked, 200, axis=0)}
right = ops.convert_to_numpy(answerer(given)).argmax(-1) == test_colors
print(f"right answers: {right.mean():.1%}")
(looked,) = keras_attn.attention_maps(answerer, given).select("cross")
looked = looked.mean(1).reshape(200, 4, 2, 4).mean((0, 2))  # by question, mean of heads and words
figure, axes = plt.subplots(1, 4, figsize=(8, 2), dpi=80, layout="constrained")
for question, ax in enumerate(axes):
    ax.imshow(looked[question].reshape(2, 2), cmap="gray", vmin=0, vmax=1)
    ax.set_title(" ".join(PLACES[question]))
    ax.set_axis_off()
plt.show()
assert right.mean() > 0.8

# %% [markdown]
# ## Exercises
#
# 1. How far must two positions be apart until their dot product is below half of D/2?
# 2. Show that a causal mask alone gives attention some knowledge of positions: permute "cat ate
#    fish" in a decoder block without positions.
# 3. How many blocks of width 512 have as many weights as one block of width 2048?

# %% [markdown]
# ## Solutions
#
# <details><summary>Show the text</summary>
#
# 1. See the next cell. The dot product is the sum of cos(distance / wavelength), so high
#    frequencies fall first.
# 2. The first word sees one word, the last one sees three. The block is not symmetric any more.
# 3. 16, as 12 D² grows with the square.
#
# </details>

# %%
below = int(np.argmax(dots[0] < D / 4))
print("1. from distance", below if (dots[0] < D / 4).any() else "beyond 100")
causal = keras_attn.DecoderBlock(4, intermediate_dim=2 * D)
a, b = (ops.convert_to_numpy(causal(embed(x)))[0] for x in (cat_ate_fish, fish_ate_cat))
print("2. cat moves by", np.abs(a[0] - b[2]).max())
assert np.abs(a[0] - b[2]).max() > 0.01
assert 12 * 2048**2 == 16 * 12 * 512**2

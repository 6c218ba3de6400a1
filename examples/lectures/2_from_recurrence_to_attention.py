# %% [markdown]
# # Lecture 2: From recurrence to attention
#
# A recurrent encoder-decoder without attention hands its decoder one vector, however long the
# source is. Bahdanau et al. (2015) let the decoder look at all states of the encoder, and Luong et
# al. (2015) made that cheaper. Here the three learn a toy task, to write a sequence backwards. The
# last part has the curves of real translators.

# %%
import csv
import os
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import matplotlib.pyplot as plt
import numpy as np
from keras import ops

import keras_attn
from keras_attn.models import RecurrentEncoderDecoderConfig
from keras_attn.visualize import plot_attention

keras.utils.set_random_seed(0)

# %% [markdown]
# ## Three scores
#
# For one state of the decoder, the query q, and the states of the encoder, the keys k:
#
# | | score | weights |
# |---|---|---|
# | Bahdanau, additive | v · tanh(q W + k U) | W, U, v |
# | Luong, dot | q · k | none |
# | Luong, general | q · (k W) | W |
#
# The next cell computes the additive score by hand and compares it with the layer.

# %%
query = np.random.default_rng(0).normal(size=(1, 1, 4)).astype("float32")
memory = np.random.default_rng(1).normal(size=(1, 5, 6)).astype("float32")
layer = keras_attn.AdditiveAttention(3)
context, weights = layer(query, memory, return_attention_scores=True)
W, U = (ops.convert_to_numpy(d.kernel) for d in (layer.query_dense, layer.key_dense))
v = ops.convert_to_numpy(layer.scale)[:, 0]
scores = np.tanh(query[0, 0] @ W + memory[0] @ U) @ v
by_hand = np.exp(scores) / np.exp(scores).sum()
print("weights", np.round(by_hand, 3), "context", np.round(by_hand @ memory[0], 3))
assert np.allclose(by_hand, ops.convert_to_numpy(weights)[0, 0], atol=1e-5)
assert np.allclose(by_hand @ memory[0], ops.convert_to_numpy(context)[0, 0], atol=1e-5)

# %% [markdown]
# ## Backwards
#
# Sequences of 2 to 10 of 12 symbols. All three models have the same encoder and decoder, and learn
# from the same examples for the same number of steps.

# %%
rng = np.random.default_rng(0)
END, LONGEST = 13, 10


def batch(count):
    """Source and target ids; 0 is padding, and 13 starts and ends a target."""
    source = np.zeros((count, LONGEST), "int32")
    read, wanted = np.zeros((2, count, LONGEST + 1), "int32")
    for row, n in enumerate(rng.integers(2, LONGEST + 1, count)):
        source[row, :n] = rng.integers(1, END, n)
        wanted[row, : n + 1] = [*source[row, :n][::-1], END]
        read[row, 0], read[row, 1 : n + 1] = END, source[row, :n][::-1]
    return {"source_ids": source, "target_ids": read}, wanted


train, wanted = batch(6000)
test, test_wanted = batch(500)
models, accuracy = {}, {}
lengths = (test["source_ids"] > 0).sum(1)
for attention in ("none", "additive", "luong-general"):
    model = RecurrentEncoderDecoderConfig(
        END + 1, attention=attention, dim=32, units=48, dropout=0.0
    ).build()
    model.compile(
        keras.optimizers.Adam(5e-3, clipnorm=1.0),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=0),
        jit_compile=False,
    )
    model.fit(train, wanted, batch_size=64, epochs=3, verbose=0)
    guesses = ops.convert_to_numpy(model(test)).argmax(-1)
    right = np.where(test_wanted > 0, guesses == test_wanted, True)
    accuracy[attention] = [right[lengths == n].all(1).mean() for n in range(2, LONGEST + 1)]
    models[attention] = model
    share = right.all(1).mean()
    print(
        f"{attention:14} {model.count_params():,} weights; {share:.1%} of the sequences are right"
    )

# %% [markdown]
# The vector of the fixed context has room for short sequences only. (The decoder is shown the right
# symbols before each one, so this is not yet a search.)

# %%
figure, ax = plt.subplots(figsize=(5, 3), dpi=80, layout="constrained")
for name, values in accuracy.items():
    ax.plot(range(2, LONGEST + 1), values, "o-", label=name)
ax.set(xlabel="length of the sequence", ylabel="sequences that are right", ylim=(-0.05, 1.05))
ax.legend()
plt.show()
assert accuracy["additive"][-1] > accuracy["none"][-1]

# %% [markdown]
# ## Alignments
#
# The weights of attention are alignments that nobody has taught: the first output looks at the last
# input, the second one at the last but one.

# %%
row = int(np.flatnonzero(lengths == 8)[0])
names = "abcdefghijkl"
source = [names[i - 1] for i in test["source_ids"][row, :8]]
one = {name: x[row : row + 1] for name, x in test.items()}
maps = {
    name: next(iter(keras_attn.attention_maps(models[name], one).values()))[0, :8, :8]
    for name in ("additive", "luong-general")
}
plot_attention(maps["additive"], source, source[::-1], title="additive")

# %%
plot_attention(maps["luong-general"], source, source[::-1], title="luong-general")

# %% [markdown]
# ## BLEU by length
#
# The same experiment with German sentences: 1 to 5 sentences of Multi30k joined, and four models
# trained alike for 10 epochs. [Why attention was needed](../../docs/why_attention.md) has the
# settings and the command; the figures are in `docs/bleu_by_length.csv`.

# %%
path = Path(keras_attn.__file__).parents[1] / "docs/bleu_by_length.csv"
with open(path, encoding="utf-8") as file:
    rows = [row for row in csv.DictReader(file) if row["source_words"] != "all"]
curves = {}
for row in rows:
    curves.setdefault(row["model"], []).append(float(row["bleu"]))
bins = list(dict.fromkeys(row["source_words"] for row in rows))
figure, axes = plt.subplots(1, 2, figsize=(9, 3), dpi=80, layout="constrained")
for name, bleu in curves.items():
    axes[0].plot(bins, bleu, "o-", label=name)
axes[0].set(xlabel="words of the source", ylabel="BLEU")
axes[0].legend(fontsize=7)
ratio = np.array(curves["rnn-luong-general"]) / curves["rnn-additive"]
axes[1].plot(bins, ratio, "o-")
axes[1].set(xlabel="words of the source", ylabel="Luong / additive", ylim=(0, 1))
plt.show()
print("fixed context, shortest and longest:", curves["rnn-none"][0], curves["rnn-none"][-1])
assert curves["rnn-none"][-1] < curves["rnn-none"][0] / 3

# %% [markdown]
# ## Why Luong's curve falls
#
# Above 30 words the curve of `luong-general` falls and the additive one does not. This is no law of
# Luong's attention: in their paper it stays level. Here all models got the same few updates with
# the same learning rate, and Luong's is behind at every length (31.6 against 42.9 BLEU for the
# shortest sentences). It had learned less when the training ended.
#
# One guess is that its alignments are still blurred on long sentences. Multiplicative scores start
# near 0, so the first weights are uniform, 1/S for S keys, and the right key gets less of them the
# longer the source is. The toy models can test the guess: how much weight is on the right position,
# by length?

# %%
share = {}
for name in ("additive", "luong-general"):
    weights = next(iter(keras_attn.attention_maps(models[name], test).values()))
    share[name] = []
    for n in (2, 4, 6, 8, 10):
        rows = np.flatnonzero(lengths == n)
        on_right = [weights[rows, t, n - 1 - t].mean() for t in range(n)]
        share[name].append(float(np.mean(on_right)))
untrained = RecurrentEncoderDecoderConfig(
    END + 1, attention="luong-general", dim=32, units=48, dropout=0.0
).build()
weights = next(iter(keras_attn.attention_maps(untrained, test).values()))
share["luong-general, untrained"] = [
    float(np.mean([weights[lengths == n, t, n - 1 - t].mean() for t in range(n)]))
    for n in (2, 4, 6, 8, 10)
]
for name, values in share.items():
    print(f"{name:25}", dict(zip((2, 4, 6, 8, 10), np.round(values, 2).tolist(), strict=True)))
assert np.allclose(share["luong-general, untrained"], 1 / np.array([2, 4, 6, 8, 10]), atol=0.05)

# %% [markdown]
# The untrained weights are 1/S, as expected. After the training, the guess fails: Luong's weights
# are on the right position at every length, and the additive weights are shared with the neighbour,
# whose bidirectional state knows the symbol too. So a lower curve does not mean that attention is
# blurred. For the translators, too, you have to look at the alignments before you name a cause.
#
# ## Exercises
#
# 1. How many weights do the three scores have for queries and keys of width 48 and a hidden width
#    of 48?
# 2. What would the alignment look like if the task were to copy the sequence?
# 3. Why does the decoder without attention still do well on the shortest sequences?

# %% [markdown]
# ## Solutions
#
# <details><summary>Show the text</summary>
#
# 1. Additive: 48·48 + 48·48 + 48 = 4,656. General: 48·48 = 2,304. Dot: none.
# 2. A diagonal from the top left to the bottom right.
# 3. The states of the encoder have 48 numbers. Two to four symbols of 12 fit into them; ten do not,
#    after so few updates.
#
# </details>

# %%
x = np.zeros((1, 2, 48), "float32")
counted = {}
for name, layer in {
    "additive": keras_attn.AdditiveAttention(48),
    "general": keras_attn.LuongAttention(score="general"),
    "dot": keras_attn.LuongAttention(score="dot"),
}.items():
    layer(x, x)
    counted[name] = layer.count_params()
print("1.", counted)
assert counted == {"additive": 4656, "general": 2304, "dot": 0}

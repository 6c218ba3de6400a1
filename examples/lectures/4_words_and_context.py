# %% [markdown]
# # Lecture 4: Words and context
#
# A vector for each word, learned from the words around it, knows much about the word, but it is the
# same in every sentence. Attention makes a vector for each *use* of a word. All texts here are made
# up, so that the notebook runs in a minute without a download.

# %%
import os
import random

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import matplotlib.pyplot as plt
import numpy as np
from keras import ops
from sklearn.manifold import TSNE

import keras_attn
from keras_attn.metrics import WordSpace
from keras_attn.visualize import plot_attention

keras.utils.set_random_seed(0)
rng = random.Random(0)

# %% [markdown]
# ## One-hot vectors know nothing
#
# The dot product of two different one-hot vectors is 0: "king" is as far from "queen" as from
# "milk".

# %%
one_hot = np.eye(3)  # king, queen, milk
print(one_hot @ one_hot.T)
assert np.array_equal(one_hot @ one_hot.T, np.eye(3))

# %% [markdown]
# ## Words that stand among the same words
#
# word2vec learns vectors from the words around each word. Levy and Goldberg (2014) showed that
# skip-gram factorizes a matrix of pointwise mutual information: log p(w, c) / (p(w) p(c)). For a
# small text the matrix can be factorized directly, which takes no training. For real texts use
# `keras_attn.tasks.WordEmbedder`.

# %%
ROYAL, PLAIN = ["crown", "throne", "palace"], ["work", "house", "bread"]
MALE, FEMALE = ["he", "his", "beard"], ["she", "her", "dress"]
PEOPLE = {
    "king": ROYAL + MALE, "queen": ROYAL + FEMALE, "prince": ROYAL + MALE + ["young"],
    "princess": ROYAL + FEMALE + ["young"], "man": PLAIN + MALE, "woman": PLAIN + FEMALE,
    "boy": PLAIN + MALE + ["young"], "girl": PLAIN + FEMALE + ["young"],
}  # fmt: skip
THINGS = {
    "dog": ["barks", "eats", "tail"], "cat": ["purrs", "eats", "tail"],
    "car": ["drives", "road", "wheel"], "bus": ["drives", "road", "stops"],
}  # fmt: skip
text = []
for _ in range(4000):
    word, around = rng.choice(list({**PEOPLE, **THINGS}.items()))
    text.append([word, *rng.sample(around, 2)])
words = sorted({word for sentence in text for word in sentence})
index = {word: i for i, word in enumerate(words)}
counts = np.zeros((len(words), len(words)))
for sentence in text:
    for a in sentence:
        for b in sentence:
            counts[index[a], index[b]] += a != b
total, single = counts.sum(), counts.sum(0)
with np.errstate(divide="ignore"):
    pmi = np.log(counts * total / np.outer(single, single))
u, s, _ = np.linalg.svd(np.maximum(pmi, 0))
vectors = (u * np.sqrt(s))[:, :10].astype("float32")
space = WordSpace(words, vectors)
print("near king:", [near.word for near in space.nearest("king", top_k=3)])


def analogy(a, b, c):
    """The word whose vector is nearest to a - b + c, without these three."""
    return space.nearest([a, c], [b], top_k=1)[0].word


print("king - man + woman =", analogy("king", "man", "woman"))
print("prince - boy + girl =", analogy("prince", "boy", "girl"))
assert analogy("king", "man", "woman") == "queen"

# %% [markdown]
# ## The map
#
# t-SNE places words that are near in 10 dimensions near each other in 2. Distances between far
# groups mean nothing on such a map.

# %%
places = TSNE(2, perplexity=8, init="pca", random_state=0).fit_transform(
    vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
)
figure, ax = plt.subplots(figsize=(6, 4), dpi=80, layout="constrained")
groups = [("people", PEOPLE, "tab:red"), ("things", THINGS, "tab:blue"), ("others", {}, "gray")]
for word, (x, y) in zip(words, places, strict=True):
    color = next(c for _, group, c in groups if word in group or not group)
    ax.plot(x, y, ".", color=color)
    ax.annotate(word, (x, y), fontsize=8, color=color, xytext=(2, 2), textcoords="offset points")
ax.set_axis_off()
plt.show()

# %% [markdown]
# ## In context: bank, spring, it, and the man with the telescope
#
# A small Transformer encoder reads a sentence and says at one word what this word means here: is
# "bank" money or a shore? Is "it" the animal or the street? Does "with" belong to "saw" or to
# "man"? Large models learn this from masked words only; here it is taught directly, with made-up
# sentences.

# %%
ANIMALS, WAYS = ["animal", "dog", "horse"], ["street", "river", "road"]
TIRED, WIDE = ["tired", "hungry", "afraid"], ["wide", "deep", "busy"]
TOOLS, MARKS = ["binoculars", "camera"], ["beard", "hat"]
BANK = {
    "money": ["she took money from the bank", "the bank lends gold to the man"],
    "shore": ["he swam to the bank of the river", "boats lie at the bank near the water"],
}
SPRING = {
    "season": ["flowers bloom in the spring after winter", "the warm spring brings rain"],
    "coil": ["the spring of the clock broke", "a steel spring bends in the chair"],
}


def example():
    """A sentence, the word that is asked about, and its meaning, a word."""
    kind = rng.choice(["it", "with", "bank", "spring"])
    if kind == "it":
        animal, way, adjective = rng.choice(ANIMALS), rng.choice(WAYS), rng.choice(TIRED + WIDE)
        meant = animal if adjective in TIRED else way
        return f"the {animal} did not cross the {way} because it was too {adjective}", kind, meant
    if kind == "with":
        thing = rng.choice([*TOOLS, *MARKS, "telescope"])
        tool = thing in TOOLS or (thing == "telescope" and rng.random() < 0.5)
        return f"i saw the man with the {thing}", kind, "saw" if tool else "man"
    meaning, sentences = rng.choice(list((BANK if kind == "bank" else SPRING).items()))
    return rng.choice(sentences), kind, meaning


data = [example() for _ in range(4000)]
vocabulary = ["", *sorted({w for s, _, m in data for w in (*s.split(), m)})]
number = {word: i for i, word in enumerate(vocabulary)}


def ids_of(sentences):
    rows = np.zeros((len(sentences), 13), "int32")
    for row, sentence in zip(rows, sentences, strict=True):
        row[: len(sentence.split())] = [number[word] for word in sentence.split()]
    return rows


ids = ids_of([sentence for sentence, _, _ in data])
places = np.array([sentence.split().index(word) for sentence, word, _ in data])
meanings = np.array([number[meaning] for _, _, meaning in data])
D = 32
inputs = keras.Input((None,), dtype="int32")
embed = keras_attn.TokenEmbedding(len(vocabulary), D)
x = keras_attn.LearnedPositionalEncoding(13)(embed(inputs))
for block in range(2):
    x = keras_attn.TransformerEncoderBlock(
        2, intermediate_dim=64, normalize_first=True, name=f"block_{block}"
    )(x)
states = keras.layers.LayerNormalization(name="norm")(x)
model = keras.Model(inputs, embed(states, reverse=True))
targets = np.full_like(ids, -1)
targets[np.arange(len(ids)), places] = meanings
model.compile(
    keras.optimizers.Adam(3e-3),
    keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=-1),
    jit_compile=False,
)
losses = model.fit(ids, targets, epochs=6, verbose=0).history["loss"]
print("loss", [round(x, 3) for x in losses])


def meaning_of(sentence, word):
    """The two most probable meanings of a word in a sentence."""
    logits = ops.convert_to_numpy(model(ids_of([sentence])))[0, sentence.split().index(word)]
    p = np.exp(logits - logits.max())
    p /= p.sum()
    return [(vocabulary[i], round(float(p[i]), 2)) for i in np.argsort(-p)[:2]]


# %% [markdown]
# ### "It" was too tired, or too wide
#
# Which layer and head shows it? The next cell looks for the head in which the weight moves most
# from "animal", or to "street", when "tired" becomes "wide", so that nobody has to click through
# all of them. Note what the head does *not* show: a model may also read both nouns in
# one layer and decide in the next. Weights say where a model looked, and not why it answered.

# %%
TIRED_TEXT = "the animal did not cross the street because it was too tired"
WIDE_TEXT = "the animal did not cross the street because it was too wide"
print(meaning_of(TIRED_TEXT, "it"), meaning_of(WIDE_TEXT, "it"))
assert meaning_of(TIRED_TEXT, "it")[0][0] == "animal"
assert meaning_of(WIDE_TEXT, "it")[0][0] == "street"
maps = keras_attn.attention_maps(model, ids_of([TIRED_TEXT, WIDE_TEXT])).select("self")
it, animal, street = (TIRED_TEXT.split().index(word) for word in ("it", "animal", "street"))
from_animal, to_street = (
    np.array([sign * (m[0, :, it, noun] - m[1, :, it, noun]) for m in maps])  # (layers, heads)
    for noun, sign in ((animal, 1), (street, -1))
)
moved = from_animal + to_street
layer, head = np.unravel_index(moved.argmax(), moved.shape)
print(f"best: layer {layer}, head {head}; moved: {moved.max():.2f}")
assert moved.max() > 0.05
labels = TIRED_TEXT.split()[:-1]
plot_attention(
    maps[layer][:, head, it, :12],
    [*labels, "tired / wide"],
    ["it (tired)", "it (wide)"],
    title=f"layer {layer}, head {head}",
)

# %% [markdown]
# ### Spring and bank
#
# In the embedding both uses of "bank" have one vector. Layer by layer the uses move apart: their
# cosine falls.

# %%
pairs = {
    "bank": (BANK["money"][0], BANK["shore"][0]),
    "spring": (SPRING["season"][0], SPRING["coil"][0]),
}
layers = ["token embedding", "block_0", "block_1", "norm"]
token_vectors = keras.Model(inputs, [model.get_layer(n).output for n in layers[1:]])
for word, sentences in pairs.items():
    cosines = [1.0]  # the same vector
    for output in token_vectors(ids_of(sentences)):
        a, b = (
            ops.convert_to_numpy(output)[row, sentence.split().index(word)]
            for row, sentence in enumerate(sentences)
        )
        cosines.append(float(a @ b / np.linalg.norm(a) / np.linalg.norm(b)))
    print(f"{word:7}", dict(zip(layers, np.round(cosines, 2).tolist(), strict=True)))
    assert cosines[-1] < 0.6

# %% [markdown]
# ### The man with the telescope
#
# Who has the telescope? The sentence does not say. In the training data it was the man in one half
# and the speaker in the other, and the model is undecided, as it should be. "With the hat" and
# "with the camera" are clear.

# %%
for thing in ("hat", "camera", "telescope"):
    print(
        f"i saw the man with the {thing:10}", meaning_of(f"i saw the man with the {thing}", "with")
    )
chances = dict(meaning_of("i saw the man with the telescope", "with"))
assert set(chances) == {"saw", "man"} and max(chances.values()) < 0.95

# %% [markdown]
# With a real encoder, `python examples/word_embeddings.py --encoder minilm` measures ten words with
# three senses each, and [Words and senses](../../docs/word_embeddings.md) shows the pictures.
#
# ## Exercises
#
# 1. Compute `queen - woman + man` and `girl - woman + man`.
# 2. Why can the model not tell the meaning of "it" in its first layer, from the vector of "it"
#    alone?
# 3. Shuffle the words of "the animal did not cross the street because it was too tired". Does the
#    answer change? Which property of the sentence has the model not needed?

# %% [markdown]
# ## Solutions
#
# <details><summary>Show the text</summary>
#
# 1. See the next cell.
# 2. Before the first attention, the vector of "it" is the same in both sentences except for its
#    position. "it" has to read "tired" or "wide" from another place first.
# 3. The next cell tries it. In the training sentences the words themselves decide, so a model can
#    answer with little use of positions.
#
# </details>

# %%
print("1.", analogy("queen", "woman", "man"), analogy("girl", "woman", "man"))
assert analogy("queen", "woman", "man") == "king"
shuffled = TIRED_TEXT.split()
random.Random(1).shuffle(shuffled)
print("3.", " ".join(shuffled), meaning_of(" ".join(shuffled), "it"))

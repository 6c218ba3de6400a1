"""Words with those around them, in batches for word2vec."""

import numpy as np
import pytest

from keras_attn.batches import EpochOrder, WordWindows, kept_shares, row_loads

COUNTS = np.array([0, 0, 0, 0, 400, 200, 100, 50, 50])
TEXTS = [[4, 5, 6], [7], [8, 4, 4, 5, 6, 7, 8, 5, 4, 6], [4, 6] * 20]
IDS, LENGTHS = np.concatenate(TEXTS), [len(text) for text in TEXTS]


def windows(**settings):
    settings = {"window": 2, "subsample": 0, "noise_words": 4, "batch_size": 32, **settings}
    return WordWindows(IDS, LENGTHS, COUNTS, **settings)


def pairs(batches):
    """Every (word, word around it, distance) of an epoch, from skip-gram's batches."""
    found = []
    for i in range(len(batches)):
        inputs, labels = batches[i]
        words, around = inputs["word_ids"], inputs["context_ids"]
        for row, place, other in np.argwhere(labels):
            found.append((words[row, place], around[row, other], other - place - batches.window))
    return found


def test_pairs_are_those_of_a_loop_over_the_texts():
    """With windows of one word there is nothing to draw: both neighbours, of the same text."""
    expected = [
        (text[i], text[j], j - i)
        for text in TEXTS
        for i in range(len(text))
        for j in (i - 1, i + 1)
        if 0 <= j < len(text)
    ]
    assert sorted(pairs(windows(window=1))) == sorted(expected)
    assert sorted(pairs(windows(window=1, shuffle=False))) == sorted(expected)


def test_how_far_a_window_reaches_is_drawn():
    """A word at distance d is around another one in (W + 1 - d) / W of the cases."""
    ids = np.tile([4, 5, 6], 4000)
    batches = WordWindows(ids, [len(ids)], COUNTS, window=4, subsample=0, batch_size=16000)
    distances = np.array([distance for _, _, distance in pairs(batches)])
    shares = [(distances == d).sum() / len(ids) for d in (1, 2, 3, 4, -4)]
    np.testing.assert_allclose(shares, [1, 0.75, 0.5, 0.25, 0.25], atol=0.02)


def test_frequent_words_are_left_out():
    """In word2vec's shares, and before the windows: what is around a word is what was kept."""
    ids = np.random.default_rng(0).choice(9, 50_000, p=COUNTS / COUNTS.sum())
    counts = np.bincount(ids, minlength=9)
    batches = WordWindows(ids, [len(ids)], counts, subsample=0.01, window=1, batch_size=4096)
    words = np.array([word for word, _, distance in pairs(batches) if distance == 1])
    for word in range(4, 9):
        f = counts[word] / len(ids)
        p = min(1.0, (0.01 / f) ** 0.5 + 0.01 / f)
        assert kept_shares(counts, 0.01)[word] == pytest.approx(p)
        assert (words == word).sum() / counts[word] == pytest.approx(p, abs=0.04)
    kept = sum(kept_shares(counts, 0.01)[ids])
    assert len(words) == pytest.approx(kept, rel=0.03)


def test_noise_follows_the_power_of_the_counts():
    batches = windows(noise_words=40_000)
    noise = batches[0][0]["context_ids"][0, -40_000:]
    shares = np.bincount(noise, minlength=9) / len(noise)
    expected = COUNTS**0.75 / (COUNTS**0.75).sum()
    np.testing.assert_allclose(shares, expected, atol=0.01)
    assert shares[:4].sum() == 0  # special tokens are no noise


def test_cbow_has_the_means_of_the_same_windows():
    skip, cbow = windows(), windows(cbow=True)
    for i in range(len(skip)):
        inputs, labels = skip[i]
        means, own = cbow[i]
        np.testing.assert_array_equal(means["word_ids"][:, :16], inputs["word_ids"])
        np.testing.assert_array_equal(means["word_ids"][:, 16:], inputs["context_ids"][:, 20:])
        np.testing.assert_array_equal(means["context_ids"], inputs["context_ids"][:, :20])
        np.testing.assert_array_equal(means["context_weights"] > 0, labels)
        sums = means["context_weights"].sum(axis=-1)
        np.testing.assert_allclose(sums, labels.any(axis=-1), rtol=1e-6)
        np.testing.assert_array_equal(own, np.eye(16) * labels.any(axis=-1)[..., None])


def test_an_epoch_follows_from_its_number_and_the_seed():
    first, again, other = windows(), windows(), windows(seed=1)

    def batch(source, i):
        inputs, labels = source[i]
        return np.concatenate([x.ravel() for x in (*inputs.values(), labels)])

    np.testing.assert_array_equal(batch(first, 0), batch(again, 0))
    assert (batch(first, 0) != batch(other, 0)).any()
    EpochOrder(first).on_epoch_begin(2)
    assert (batch(first, 1) != batch(again, 1)).any()
    again.set_epoch(2)  # a batch does not depend on those before it
    np.testing.assert_array_equal(batch(first, 1), batch(again, 1))
    still = windows(shuffle=False)
    before = batch(still, 0)
    still.set_epoch(3)
    np.testing.assert_array_equal(batch(still, 0), before)


def test_what_cannot_be():
    with pytest.raises(ValueError, match="lengths with the sum 3"):
        WordWindows([4, 5], [3], COUNTS)
    with pytest.raises(ValueError, match=r"ids below 9.*4 to 9"):
        WordWindows([4, 9], [2], COUNTS)
    with pytest.raises(ValueError, match="`window` must be >= 1"):
        windows(window=0)


@pytest.mark.parametrize("cbow", [False, True])
def test_loads_are_the_steps_that_are_counted(cbow):
    """Each place of a word in a pair, and of a noise word, counts for its share."""
    ids = np.random.default_rng(0).choice(9, 60_000, p=COUNTS / COUNTS.sum())
    counts = np.bincount(ids, minlength=9)
    settings = {"window": 3, "subsample": 0.02}
    batches = WordWindows(
        ids,
        [len(ids)],
        counts,
        **settings,
        noise_words=50,
        batch_size=8192,
        cbow=cbow,
        shuffle=False,
    )
    inputs, labels = batches[0]
    found, sizes = np.zeros((2, 9)), labels.sum(axis=-1, dtype=float)  # (G, P)
    others = inputs["word_ids" if cbow else "context_ids"]
    C = labels.shape[-1]
    np.add.at(found[1], others[:, :C], labels.sum(axis=1))
    np.add.at(found[1], others[:, C:], (4 / 50 * sizes.sum(axis=1))[:, None])
    if cbow:
        np.add.at(found[0], inputs["context_ids"], 5 * inputs["context_weights"].sum(axis=1))
    else:
        np.add.at(found[0], inputs["word_ids"], 5 * sizes)
    loads = row_loads(counts, batch_size=8192, negatives=4, cbow=cbow, **settings)
    np.testing.assert_allclose(loads, found, rtol=0.06)

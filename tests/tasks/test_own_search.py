"""The search that a model brings along, and rules on the tokens of translations and answers."""

import copy

import pytest
from conversation_toys import untrained
from translation_toys import PAIRS, fitted

from keras_attn.cli.task_command import merged
from keras_attn.tasks import ConversationUse, TranslationUse, Translator

OWN = {
    "beams": 3, "length_penalty_kind": "power", "alpha": 2.0, "early_stopping": False,
    "no_repeat_ngram_size": 2, "min_length": 7,
}  # fmt: skip
TEXTS = [source for source, _ in PAIRS[::25]]


@pytest.fixture(scope="module")
def translator():
    translator = copy.deepcopy(fitted())
    translator.own_use = OWN
    return translator


@pytest.mark.slow
def test_a_model_brings_its_search(translator, tmp_path):
    """In each call, saved, and copied."""
    own = translator.translate(TEXTS)
    assert own == fitted().translate(TEXTS, **OWN)
    assert own != fitted().translate(TEXTS)
    translator.save(tmp_path / "own.task")
    for other in (Translator.load(tmp_path / "own.task"), copy.deepcopy(translator)):
        assert other.own_use == OWN
    assert fitted().own_use == {}
    assert translator.used({"beams": 2, "alpha": 0.5}) == TranslationUse(
        **{**OWN, "beams": 2, "alpha": 0.5}
    )


@pytest.mark.slow
def test_what_a_caller_gives_overrides_the_search_of_the_model(translator):
    default = {name: getattr(TranslationUse(), name) for name in OWN}
    assert translator.translate(TEXTS, **default) == fitted().translate(TEXTS)
    assert len(translator.translate_n_best(TEXTS[0]).translations) == 3
    for given in ({}, default, {"beginning": ("die", "ein")}):
        written = translator.translate(TEXTS[:2], **given)
        titles = [view.title for view in translator.explain(TEXTS[:2], **given)]
        assert titles == [f"{x} → {y}" for x, y in zip(TEXTS, written, strict=False)]


@pytest.mark.slow
def test_the_command_takes_the_search_of_the_model(translator, tmp_path):
    (tmp_path / "settings.toml").write_text("[use]\nbeams = 2\nearly_stopping = 'never'\n")
    line = {"alpha": 0.5, "suppressed_ids": ("7", "9"), "beginning": ("die",)}
    found = merged(translator, "predict", tmp_path / "settings.toml", line)["use"]
    expected = {**OWN, "beams": 2, "early_stopping": "never", "alpha": 0.5}
    assert found == TranslationUse(**expected, suppressed_ids=[7, 9], beginning="die")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        ({"beam": 3}, TypeError, "Unknown setting `beam`. Did you mean `beams`"),
        ({"beams": 0}, ValueError, "`beams` must be at least 1"),
        ({"early_stopping": "soon"}, ValueError, "`early_stopping` must be one of None, True"),
        ({"length_penalty_kind": "wu"}, ValueError, "`length_penalty_kind` must be one of"),
        ({"suppressed_ids": [[5, 6]]}, ValueError, "single tokens"),
        ({"suppressed_ids": ["die"]}, ValueError, "`suppressed_ids` must be an integer"),
        ({"beginning": [5]}, TypeError, "`beginning` must be a string, or a list"),
        ({"forced_first_id": -1}, ValueError, "`forced_first_id` must be at least 0"),
    ],
)
def test_settings_that_are_wrong(translator, values, error, message):
    with pytest.raises(error, match=message):
        translator.own_use = values


@pytest.mark.slow
def test_beginnings_of_translations(translator):
    """One for all, or one for each; they count as given, and the attention has them too."""
    plain = {"beams": 2, "min_length": 0, "no_repeat_ngram_size": 0}
    found = translator.translate(TEXTS, beginning="das", **plain)
    assert all(text.startswith("das") for text in found)
    each = ["das", "", "die drei", "der"]
    mixed = translator.translate(TEXTS, beginning=each, batch_size=3, **plain)
    assert mixed[0] == found[0]
    assert mixed[2].startswith("die drei")


@pytest.mark.slow
def test_beginnings_of_the_best(translator):
    plain = {"beams": 2, "min_length": 0, "no_repeat_ngram_size": 0}
    each = ["das", "", "die drei", "der"]
    mixed = translator.translate(TEXTS, beginning=each, batch_size=3, **plain)
    assert mixed[1] == translator.translate(TEXTS[1], **plain)
    best = translator.translate_n_best(TEXTS, 2, beginning=each, **plain)
    assert [x.translations[0] for x in best] == mixed
    assert best[2].alignments[0].weights.shape[0] == len(best[2].alignments[0].target_tokens)
    with pytest.raises(ValueError, match=r"one for each of the 4 inputs\. Received: 2"):
        translator.translate(TEXTS, beginning=["a", "b"])


@pytest.mark.slow
def test_rules_on_tokens_of_translations(translator):
    plain = {"beams": 2, "min_length": 0, "no_repeat_ngram_size": 0}
    tokenizer = translator.target_tokenizer
    (und,) = tokenizer.encode(["die und"])[0][1:]
    (drei,) = tokenizer.encode(["die drei"])[0][1:]
    assert all("und" in text for text in translator.translate(TEXTS, **plain))
    found = translator.translate(TEXTS, suppressed_ids=[und], **plain)
    assert not any("und" in text for text in found)
    found = translator.translate(TEXTS, forced_first_id=drei, **plain)
    assert all(text.split()[0] == "drei" for text in found)
    # A least length beyond the limit of a short source ends it at its limit.
    long = translator.translate_n_best(TEXTS[:1], 1, **{**plain, "min_length": 1000})
    (best,) = long
    assert len(best.alignments[0].target_tokens) >= 16


@pytest.mark.slow
def test_the_export_has_the_search_of_the_model(translator, tmp_path):
    """It is compared with the object when it is written, here with a beginning too."""
    import tensorflow as tf

    translator.export(tmp_path / "saved", beginning="die drei", forced_last_id=2)
    served = tf.saved_model.load(tmp_path / "saved").signatures["serving_default"]
    found = [x.decode() for x in served(text=tf.constant(TEXTS))["translation"].numpy()]
    assert found == translator.translate(TEXTS, beginning="die drei", forced_last_id=2)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gpt", pytest.param("transformer", marks=pytest.mark.slow)])
def test_rules_on_tokens_of_answers(kind):
    talker = untrained(kind)
    turns = [("Hi.", "So?"), "Who?"]
    search = {"beams": 2, "beginning": "ab", "min_length": 5, "length_penalty_kind": "power"}
    assert all(text.startswith("ab") for text in talker.answer(turns, **search))
    drawn = talker.answer(turns, search="sample", seed=3, beginning=["a", "bc"], min_length=4)
    assert drawn[0].startswith("a") and drawn[1].startswith("bc")
    talker.own_use = {"beams": 3, "alpha": 0.5, "min_length": 4}
    assert talker.used({"search": "sample"}) == ConversationUse(search="sample", min_length=4)
    again = talker.answer(turns, search="sample", seed=3, beginning=["a", "bc"])
    assert again == drawn

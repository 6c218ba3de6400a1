"""The files of GPT-2's and Llama 3's tokenizers, in and out."""

import json

import keras_hub
import pytest

from keras_attn.interop import load_pretrained, read_pretrained, save_pretrained
from keras_attn.models import BertConfig, GptConfig
from keras_attn.text import BytePairTokenizer, WordPieceTokenizer

transformers = pytest.importorskip("transformers", reason="transformers is of the extra `test`")

TEXTS = ["it's the end of the line, isn't it?  They'll say so.\n\n  2024 naïve 漢字 🙂"] * 3
LINES = [*TEXTS[:1], "", "   a\n\n b'll 12345 ", "no such wörd: \u2028 שלום"]
CONFIG = GptConfig(300, dim=8, num_layers=1, num_heads=2, intermediate_dim=8, sequence_length=64)


def trained(**settings):
    return BytePairTokenizer.train(TEXTS, 280, normalize=False, **settings)


def change(path, **settings):
    path.write_text(json.dumps({**json.loads(path.read_text()), **settings}))


@pytest.fixture(scope="module")
def model():
    return CONFIG.build()


@pytest.mark.parametrize("pattern", ["gpt2", "llama3", "keras_attn"])
def test_in_and_out(pattern, model, tmp_path):
    """`transformers` reads the same ids from the same files, and writes them again."""
    tokenizer = trained(pattern=pattern)
    folder = tmp_path / "a"
    save_pretrained(folder, model, CONFIG, tokenizer)
    assert read_pretrained(folder).tokenizer.get_config() == tokenizer.get_config()
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    wanted = theirs(LINES, add_special_tokens=False)["input_ids"]
    assert tokenizer.encode(LINES) == wanted and len(theirs) == tokenizer.vocabulary_size
    assert (theirs.bos_token_id, theirs.eos_token_id) == (1, 2)
    theirs.save_pretrained(folder)
    assert read_pretrained(folder).tokenizer.get_config() == tokenizer.get_config()
    config = json.loads((folder / "config.json").read_text())
    assert (config["bos_token_id"], config["eos_token_id"]) == (1, 2)
    if pattern == "gpt2":  # the older files alone
        (folder / "tokenizer.json").unlink()
        assert read_pretrained(folder).tokenizer.get_config() == tokenizer.get_config()
        theirs = transformers.GPT2Tokenizer.from_pretrained(folder)
        assert theirs(LINES, add_special_tokens=False)["input_ids"] == wanted


def older(folder, model, **settings):
    """A folder as that of GPT-2, whose one special token is the last of the vocabulary."""
    save_pretrained(folder, model, CONFIG)
    tokenizer = trained(pattern="gpt2")
    tokens = [*tokenizer.vocabulary[3:], "<|endoftext|>"]
    ids_of = {token: index for index, token in enumerate(tokens)}
    (folder / "vocab.json").write_text(json.dumps(ids_of))
    merges = "".join(f"{left} {right}\n" for left, right in tokenizer.merges)
    (folder / "merges.txt").write_text(f"#version: 0.2\n{merges}", encoding="utf-8")
    if settings:
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return tokens


def test_the_files_of_gpt2(model, tmp_path):
    tokens = older(tmp_path / "a", model)
    tokenizer = read_pretrained(tmp_path / "a").tokenizer
    end = len(tokens) - 1
    assert (tokenizer.pad_id, tokenizer.start_id, tokenizer.end_id) == (end, end, end)
    assert tokenizer.decode(tokenizer.encode(LINES, add_end=True)) == LINES
    theirs = transformers.GPT2Tokenizer.from_pretrained(tmp_path / "a")
    assert tokenizer.encode(LINES) == theirs(LINES, add_special_tokens=False)["input_ids"]


@pytest.mark.slow
def test_keras_hub(model, tmp_path):
    tokens = older(tmp_path / "a", model)
    folder = str(tmp_path / "a")
    theirs = keras_hub.models.GPT2Tokenizer(f"{folder}/vocab.json", f"{folder}/merges.txt")
    keras_hub.models.GPT2Backbone(300, 1, 2, 8, 8, 0.1, 64).save_to_preset(tmp_path / "b")
    theirs.save_to_preset(tmp_path / "b")
    _, tokenizer, _ = load_pretrained(f"keras_hub:{tmp_path / 'b'}")
    assert tokenizer.get_config() == read_pretrained(folder).tokenizer.get_config()
    assert list(tokenizer.vocabulary) == tokens


def test_what_is_refused_by_name(model, tmp_path):
    save_pretrained(tmp_path / "a", model, CONFIG, trained(pattern="llama3"))
    path = tmp_path / "a" / "tokenizer.json"
    content = json.loads(path.read_text())
    split, level = content["pre_tokenizer"]["pretokenizers"]
    other = {**split, "pattern": {"Regex": r"\w+"}}
    removed = {**split, "behavior": "Removed"}
    word = {"content": "abc", "id": 281, "special": False, "lstrip": True}
    for changed, message in (
        ({"normalizer": {"type": "NFKC"}}, "the `normalizer` must be NFC or none"),
        ({"pre_tokenizer": {"type": "Metaspace"}}, "`type` of `pre_tokenizer` must be 'ByteLevel'"),
        ({"pre_tokenizer": {"pretokenizers": [other, level]}}, "use the pattern of Llama 3"),
        ({"pre_tokenizer": {"pretokenizers": [removed, level]}}, "`behavior` of `pre_tokenizer`"),
        (
            {"added_tokens": [word]},
            r"must not absorb or require adjacent blanks\. Received: \['abc'\]",
        ),
        ({"added_tokens": [{**word, "lstrip": False, "content": [1]}]}, r"be strings.*\[1\]"),
        ({"model": {**content["model"], "merges": [1]}}, "`merges` must be pairs of tokens"),
        ({"model": {**content["model"], "type": "Unigram"}}, "`type` of `model` must be 'BPE'"),
        ({"model": {**content["model"], "byte_fallback": True}}, "`byte_fallback` of `model`"),
        ({"model": {**content["model"], "vocab": {"a": 1}}}, "must be 0, 1, 2 and so on"),
    ):
        path.write_text(json.dumps({**content, **changed}))
        with pytest.raises(ValueError, match=message):
            read_pretrained(tmp_path / "a")
    path.unlink()
    (tmp_path / "a" / "tokenizer.model").write_bytes(b"")
    with pytest.raises(ValueError, match="must be a SentencePiece model"):
        read_pretrained(tmp_path / "a")
    older(tmp_path / "b", model, add_prefix_space=True)
    with pytest.raises(ValueError, match="`add_prefix_space` must be False"):
        read_pretrained(tmp_path / "b")
    older(tmp_path / "c", model, tokenizer_class="CLIPTokenizer")
    with pytest.raises(ValueError, match=r"belong to a 'GPT2Tokenizer'. Received: 'CLIPTokenizer'"):
        read_pretrained(tmp_path / "c")
    change(tmp_path / "c" / "tokenizer_config.json", tokenizer_class=None)
    (tmp_path / "c" / "merges.txt").write_text("#version: 0.2\na b\nabc\n")
    with pytest.raises(ValueError, match=r"merges.txt, line 3: expected two tokens"):
        read_pretrained(tmp_path / "c")


def test_what_cannot_be_written(model, tmp_path):
    own = BytePairTokenizer.train(TEXTS, 280)
    with pytest.raises(ValueError, match="with normalize=False"):
        save_pretrained(tmp_path / "a", model, CONFIG, own)
    large = BytePairTokenizer.train(TEXTS, 320, normalize=False, allow_fewer=True)
    assert large.vocabulary_size > 300
    with pytest.raises(ValueError, match="not have more tokens than the model"):
        save_pretrained(tmp_path / "a", model, CONFIG, large)
    words = WordPieceTokenizer.train(TEXTS, 60)
    with pytest.raises(TypeError, match=r"must be a BytePairTokenizer. Received: WordPiece"):
        save_pretrained(tmp_path / "a", model, CONFIG, words)
    bert = BertConfig(300, dim=8, num_layers=1, num_heads=2)
    with pytest.raises(TypeError, match=r"must be a WordPieceTokenizer. Received: BytePair"):
        save_pretrained(tmp_path / "a", bert.build(), bert, large)
    assert not (tmp_path / "a").exists()

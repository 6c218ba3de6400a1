"""SentencePiece tokenizers in folders: Llama's kind, and XLM-RoBERTa beside transformers."""

import io
import json
import os
import pathlib

import keras
import numpy as np
import pytest
import sentencepiece
from processes import run_python

from keras_attn.interop import load_pretrained, read_pretrained, save_pretrained
from keras_attn.interop.sentence_piece_files import fairseq_tokenizer
from keras_attn.models import RobertaConfig, with_heads
from keras_attn.tasks import Tagger, TextGenerator
from keras_attn.text import SentencePieceTokenizer

TEXTS = ["a little girl runs to a little house", "the girl and the house are little, Ann said"] * 9
LLAMA = {"norm": "rms", "feed_forward": "gated", "positions": "rotary"}


def trained(**settings):
    """A model with the special tokens that the library has unless it is told otherwise."""
    file = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS), model_writer=file, minloglevel=2, **settings
    )
    return file.getvalue()


@pytest.fixture(scope="module")
def unigram():
    return trained(vocab_size=60, hard_vocab_limit=False)


@pytest.fixture(scope="module")
def merges():
    return trained(
        vocab_size=300, model_type="bpe", byte_fallback=True, normalization_rule_name="identity"
    )


def llama_folder(folder, model, **files):
    """A folder with a random Llama, and a `tokenizer.model` and other files."""
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        vocab_size=310, hidden_size=16, intermediate_size=24, num_hidden_layers=1,
        num_attention_heads=2, max_position_embeddings=32, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    (folder / "tokenizer.model").write_bytes(model)
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    return folder


def test_a_llama_with_a_tokenizer_model(merges, tmp_path):
    added = {"<|turn|>": 300, "<|stop|>": 301}
    folder = llama_folder(
        tmp_path / "theirs",
        merges,
        added_tokens=added,
        generation_config={"eos_token_id": [2, 301]},
    )
    found = read_pretrained(folder)
    tokenizer, library = found.tokenizer, sentencepiece.SentencePieceProcessor(model_proto=merges)
    assert tokenizer.vocabulary[300:] == tuple(added) and tokenizer.end_ids == (2, 301)
    assert tokenizer.encode("the girl é", add_start=True) == [1, *library.encode("the girl é")]
    model, _, _ = load_pretrained(folder)
    # Out, and in again.
    save_pretrained(tmp_path / "ours", model, found.config, tokenizer)
    again = read_pretrained(tmp_path / "ours")
    assert again.tokenizer.get_config()["model"] == tokenizer.get_config()["model"]
    assert again.tokenizer.vocabulary == tokenizer.vocabulary
    assert again.tokenizer.end_ids == (2, 301)


def test_tokenizers_of_llamas_that_do_not_fit(merges, tmp_path):
    for added, message in (
        ({"<|turn|>": 7}, "token 7 to be"),
        ({"<|turn|>": 305}, "consecutive ids from 300"),
    ):
        folder = tmp_path / str(added["<|turn|>"])
        llama_folder(folder, merges, added_tokens=added)
        with pytest.raises(ValueError, match=message):
            read_pretrained(folder)
    (folder / "added_tokens.json").unlink()
    (folder / "tokenizer.model").write_bytes(b"none")
    with pytest.raises(
        ValueError, match=r"tokenizer\.model: `model` must be a SentencePiece model"
    ):
        read_pretrained(folder)


def xlm_folder(folder, model, **settings):
    transformers = pytest.importorskip("transformers")
    size = len(sentencepiece.SentencePieceProcessor(model_proto=model)) + 2
    config = transformers.XLMRobertaConfig(
        vocab_size=size, hidden_size=16, intermediate_size=24, num_hidden_layers=2,
        num_attention_heads=2, max_position_embeddings=66, type_vocab_size=1, **settings,
    )  # fmt: skip
    made = transformers.XLMRobertaModel(config).eval()
    made.save_pretrained(folder)
    (folder / "sentencepiece.bpe.model").write_bytes(model)
    return made


def test_an_xlm_roberta_beside_transformers(unigram, tmp_path):
    torch = pytest.importorskip("torch")
    theirs = xlm_folder(tmp_path / "theirs", unigram)
    model, tokenizer, _ = load_pretrained(tmp_path / "theirs")
    library = sentencepiece.SentencePieceProcessor(model_proto=unigram)
    assert tokenizer.vocabulary[:4] == ("<s>", "<pad>", "</s>", "<unk>")
    assert tokenizer.vocabulary[-1] == "<mask>" and tokenizer.mask_id == len(library) + 1
    # Pieces are shifted by one, and the unknown token has the id 3.
    texts = ["the little girl", "Ann said 中 to the house, and runs"]
    rows = [[0, *[i + 1 if i else 3 for i in library.encode(text)], 2] for text in texts]
    assert tokenizer.encode(texts, add_start=True, add_end=True) == rows
    width = max(map(len, rows))
    ids = np.array([row + [1] * (width - len(row)) for row in rows])
    mask = ids != 1
    found = model({"token_ids": keras.ops.array(ids), "padding_mask": keras.ops.array(mask)})
    with torch.no_grad():
        wanted = theirs(torch.tensor(ids), torch.tensor(mask.astype("int64")))
    wanted = wanted.last_hidden_state.numpy()
    sequence = keras.ops.convert_to_numpy(found["sequence"])
    assert np.abs(sequence - wanted)[mask].max() < 1e-5 * np.abs(wanted).max()


@pytest.mark.slow
def test_an_xlm_roberta_for_transformers(unigram, tmp_path):
    transformers = pytest.importorskip("transformers")
    tokenizer = fairseq_tokenizer(unigram)
    config = RobertaConfig(
        tokenizer.vocabulary_size, dim=16, num_layers=1, num_heads=2, intermediate_dim=24,
        sequence_length=32, pooler_activation="tanh",
    )  # fmt: skip
    model = with_heads(config, ("classes",), num_classes=2)
    save_pretrained(tmp_path / "ours", model, config, tokenizer, labels=["no", "yes"])
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "ours")
    assert type(theirs).__name__ == "XLMRobertaForSequenceClassification"
    reader = transformers.AutoTokenizer.from_pretrained(tmp_path / "ours")
    for text in TEXTS[:2]:
        assert reader(text)["input_ids"] == tokenizer.encode(text, add_start=True, add_end=True)
    again = read_pretrained(tmp_path / "ours")
    assert again.config == config and again.tokenizer.vocabulary == tokenizer.vocabulary
    with pytest.raises(ValueError, match="must have the ids of XLM-RoBERTa"):
        small = SentencePieceTokenizer(unigram, pad_token="<s>")
        own = RobertaConfig(
            100, dim=16, num_layers=1, num_heads=2, intermediate_dim=24, sequence_length=32,
            first_position=small.pad_id + 1,
        )  # fmt: skip
        save_pretrained(tmp_path / "wrong", own.build(), own, small)


def test_tokenizers_of_xlm_robertas_that_do_not_fit(unigram, merges, tmp_path):
    folder = tmp_path / "theirs"
    xlm_folder(folder, unigram)
    (folder / "sentencepiece.bpe.model").write_bytes(merges)
    with pytest.raises(ValueError, match="They do not belong together"):
        read_pretrained(folder)
    (folder / "sentencepiece.bpe.model").write_bytes(
        trained(vocab_size=60, hard_vocab_limit=False, pad_id=0, unk_id=3, bos_id=1, eos_id=2)
    )
    with pytest.raises(ValueError, match="must begin with <unk>, <s> and </s>"):
        read_pretrained(folder)
    (folder / "sentencepiece.bpe.model").unlink()
    assert read_pretrained(folder).tokenizer is None
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(ValueError, match=r"read from sentencepiece\.bpe\.model"):
        read_pretrained(folder)


@pytest.mark.slow
def test_a_task_starts_from_an_xlm_roberta(unigram, tmp_path):
    xlm_folder(tmp_path / "theirs", unigram)
    sentences = [(["Ann", "said"], ["B-PER", "O"]), (["the", "girl"], ["O", "O"])] * 2
    data = {"backbone": str(tmp_path / "theirs"), "max_length": 32}
    tagger = Tagger.create(sentences, data=data)
    assert tagger.tokenizer.vocabulary[:2] == ("<s>", "<pad>")
    tagger.fit(sentences, epochs=1, verbose=0)
    (found,) = tagger.predict(["Ann said 𝄞"])
    assert list(found.words) == ["Ann", "said", "𝄞"]
    tagger.save(tmp_path / "task")
    tagger.export(tmp_path / "served")
    assert "tensorflow-text" in (tmp_path / "served" / "requirements.txt").read_text()


@pytest.mark.slow
def test_a_real_llama_writes_its_story(tmp_path):
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    place = os.environ.get("KERAS_ATTN_DATA")
    if not place:
        pytest.skip("KERAS_ATTN_DATA, a folder with a real Llama, is not set")
    folder = pathlib.Path(place, "stories260k")
    generator = TextGenerator.create("a", data={"backbone": str(folder)})
    theirs = transformers.LlamaForCausalLM.from_pretrained(folder).eval()
    library = sentencepiece.SentencePieceProcessor(model_file=str(folder / "tokenizer.model"))
    prompts, texts = ["", "Once upon a time", "Tom and Lily went"], []
    for prompt in prompts:
        ids = [1, *library.encode(prompt)]
        with torch.no_grad():
            out = theirs.generate(
                torch.tensor([ids]), max_new_tokens=200, do_sample=False, pad_token_id=2
            )[0].tolist()
        how = generator._writing(generator.Use(top_k=1))
        (row,) = generator.writer.tokens([ids], np.array([0]), 200, how)
        assert row == out[len(ids) :] and len(row) == 200
        texts.append(library.decode(out))
    assert generator.generate(prompts, 200, top_k=1) == texts
    for prompt, text in zip(prompts, texts, strict=True):
        assert prompt + "".join(generator.stream(prompt, 200, top_k=1)) == text
    generator.export(tmp_path / "served", top_k=1)
    import tensorflow as tf

    served = tf.saved_model.load(str(tmp_path / "served")).signatures["serving_default"]
    names = list(served.structured_input_signature[1])
    print(names)
    given = {"prompt": prompts, "seed": [0] * 3, "num_characters": 200}
    found = served(**{name: tf.constant(given[name]) for name in names})
    assert [text.decode() for text in found["text"].numpy()] == texts


PARITY = """
import sys, numpy as np, keras
from keras_attn.interop import load_pretrained
model, _, _ = load_pretrained(sys.argv[1])
given = np.load(sys.argv[2])
x = {"token_ids": keras.ops.array(given["ids"]), "padding_mask": keras.ops.array(given["mask"])}
found = keras.ops.convert_to_numpy(model(x)["sequence"])
error = np.abs(found - given["wanted"])[given["mask"]].max()
assert error < 1e-5 * np.abs(given["wanted"]).max(), error
"""


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
def test_an_xlm_roberta_on_every_backend(unigram, tmp_path, backend):
    import torch

    theirs = xlm_folder(tmp_path / "theirs", unigram)
    rng = np.random.default_rng(0)
    ids = rng.integers(4, theirs.config.vocab_size, (3, 60))
    mask = np.arange(60) < np.array([[60], [9], [31]])
    with torch.no_grad():
        wanted = theirs(torch.tensor(np.where(mask, ids, 1)), torch.tensor(mask.astype("int64")))
    wanted = wanted.last_hidden_state.numpy()
    np.savez(tmp_path / "given.npz", ids=np.where(mask, ids, 1), mask=mask, wanted=wanted)
    run_python(backend, PARITY, tmp_path / "theirs", tmp_path / "given.npz")

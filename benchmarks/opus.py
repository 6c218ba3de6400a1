"""A Marian of OPUS-MT's size in a folder, with random weights; NumPy and SentencePiece alone.

Its SentencePiece models are those of a real OPUS-MT if the environment variable KERAS_ATTN_DATA
names a folder with `opus_mt_en_mg/`, else one that is trained on made-up words. Tokens that no
model has fill the vocabulary up. They and the end are improbable, so a translation has as many
tokens as it may have.
"""

import functools
import io
import json
import os
from pathlib import Path

import numpy as np
import sentencepiece
from safetensors.numpy import save_file

from benchmarks import translator
from benchmarks.translator import Case

END, UNKNOWN = 0, 1
UNLIKELY = -30.0  # added to logits
PARTS = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}


@functools.cache
def sentence_pieces(pieces: int) -> tuple[bytes, bytes]:
    """The models of the source and the target."""
    real = Path(os.environ.get("KERAS_ATTN_DATA") or "nowhere") / "opus_mt_en_mg"
    if real.is_dir():
        return (real / "source.spm").read_bytes(), (real / "target.spm").read_bytes()
    rng = np.random.default_rng(4)
    syllables = [c + v for c in "bdfghklmnprstvwz" for v in "aeiou"]
    words = ["".join(rng.choice(syllables, rng.integers(1, 5))) for _ in range(4 * pieces)]
    texts = (" ".join(words[i : i + 10]) for i in range(0, len(words), 10))
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=texts, model_writer=model, model_type="unigram", vocab_size=pieces,
        num_threads=1, hard_vocab_limit=False, minloglevel=2,
    )  # fmt: skip
    return model.getvalue(), model.getvalue()


def processors(case: Case) -> list[sentencepiece.SentencePieceProcessor]:
    """Both models, loaded."""
    return [
        sentencepiece.SentencePieceProcessor(model_proto=model)
        for model in sentence_pieces(case["pieces"])
    ]


@functools.cache
def vocabulary(size: int, pieces: int) -> list[str]:
    """The pieces of both models, others that no text has, and padding."""
    models = processors({"pieces": pieces})
    every = [model.id_to_piece(i) for model in models for i in range(model.get_piece_size())]
    own = dict.fromkeys(["</s>", "<unk>", *every])
    fill = (f"<other {i}>" for i in range(size - 1 - len(own)))
    return [*own, *fill, "<pad>"]


def tensors(case: Case, tokens: list[str]) -> dict[str, np.ndarray]:
    """The weights by the names of transformers."""
    own = translator.make_weights({**case, "vocabulary": len(tokens)})
    own["embedding"][-1] = 0.0  # of padding, with which a decoder of Marian starts
    _, model = processors(case)
    pieces = {model.id_to_piece(i) for i in range(model.get_piece_size())}
    likely = [token in pieces and token[0] != "<" for token in tokens]
    found = {
        "model.shared.weight": own["embedding"],
        "final_logits_bias": np.where(likely, 0.0, UNLIKELY)[None].astype("float32"),
    }

    def dense(theirs, ours):
        found[f"{theirs}.weight"] = np.ascontiguousarray(own[f"{ours}.kernel"].T)
        found[f"{theirs}.bias"] = own[f"{ours}.bias"]

    def norm(theirs, ours):
        found[f"{theirs}.weight"], found[f"{theirs}.bias"] = (
            own[f"{ours}.{name}"] for name in ("gamma", "beta")
        )

    for side, prefix, attentions in translator.sublayers(case):
        block = f"model.{side}.layers.{prefix.split('.')[1]}"
        for name in attentions:
            inside = "self_attn" if name == "self" else "encoder_attn"
            for part, theirs in PARTS.items():
                dense(f"{block}.{inside}.{theirs}", f"{prefix}.{name}.{part}")
            norm(f"{block}.{inside}_layer_norm", f"{prefix}.{name}.norm")
        dense(f"{block}.fc1", f"{prefix}.hidden")
        dense(f"{block}.fc2", f"{prefix}.output")
        norm(f"{block}.final_layer_norm", f"{prefix}.norm")
    return found


def write_folder(case: Case, folder: Path) -> None:
    """Writes the translator as Hugging Face has it."""
    tokens = vocabulary(case["vocabulary"], case["pieces"])
    save_file(tensors(case, tokens), folder / "model.safetensors", {"format": "pt"})
    pad = len(tokens) - 1
    both = ("encoder", "decoder")
    config = {
        "architectures": ["MarianMTModel"], "model_type": "marian", "vocab_size": len(tokens),
        "decoder_vocab_size": len(tokens), "share_encoder_decoder_embeddings": True,
        "d_model": case["dim"], "scale_embedding": True, "activation_function": "swish",
        "max_position_embeddings": 512, "static_position_embeddings": True,
        "tie_word_embeddings": True, "is_encoder_decoder": True, "torch_dtype": "float32",
        "eos_token_id": END, "pad_token_id": pad, "decoder_start_token_id": pad,
        "forced_eos_token_id": None, "dropout": 0.0,
        **{f"{side}_layers": case["layers"] for side in both},
        **{f"{side}_attention_heads": case["heads"] for side in both},
        **{f"{side}_ffn_dim": case["intermediate"] for side in both},
    }  # fmt: skip
    search = {
        "num_beams": 4, "bad_words_ids": [[pad]], "pad_token_id": pad, "eos_token_id": END,
        "decoder_start_token_id": pad, "length_penalty": 1.0, "max_length": 512,
    }  # fmt: skip
    files = {
        "config.json": config,
        "generation_config.json": search,
        "tokenizer_config.json": {"separate_vocabs": False, "tokenizer_class": "MarianTokenizer"},
        "vocab.json": {token: i for i, token in enumerate(tokens)},
    }
    for name, value in files.items():
        (folder / name).write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")
    for side, model in zip(("source", "target"), sentence_pieces(case["pieces"]), strict=True):
        (folder / f"{side}.spm").write_bytes(model)


def texts(case: Case) -> list[str]:
    """Sources of random pieces, each of `source` tokens with its end."""
    model, _ = processors(case)
    rng = np.random.default_rng(5)
    pieces = [model.id_to_piece(i) for i in range(model.get_piece_size())]
    words = [piece[1:] for piece in pieces if piece[0] == "▁" and piece[1:].isalpha()]
    found = []
    while len(found) < case["batch"]:
        text = " ".join(rng.choice(words, case["source"] - 1))
        if len(model.encode(text)) == case["source"] - 1:
            found.append(text)
    return found


def folder_size(folder: Path) -> int:
    """Bytes of the files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def sizes(case: Case) -> str:
    """The sizes of a case without those of its search, as JSON: they decide the translator."""
    return json.dumps({k: v for k, v in case.items() if k not in ("batch", "beams")})

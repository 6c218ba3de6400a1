"""A small Marian translator of transformers with tokenizers, in a folder."""

import functools
import json

import torch
import transformers
from interop_toys import perturbed

from keras_attn.text import SentencePieceTokenizer

PAIRS = [
    (f"{number} {size} {animal}s see the {place}", f"{zahl} {wie} {tier} sehen {ort}")
    for number, zahl in [("two", "zwei"), ("three", "drei"), ("four", "vier")]
    for size, wie in [("small", "kleine"), ("old", "alte")]
    for animal, tier in [("dog", "Hunde"), ("cat", "Katzen"), ("bird", "Vögel")]
    for place, ort in [("house", "das Haus"), ("lake", "den See")]
]
MARKS = (">>deu<<", ">>nld<<")
SIZES = {
    "d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
    "decoder_attention_heads": 2, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24,
    "eos_token_id": 0, "scale_embedding": True, "activation_function": "swish",
    "max_position_embeddings": 128,
}  # fmt: skip


@functools.cache
def sentence_pieces(side):
    """The SentencePiece model of a side."""
    texts = [pair[side] for pair in PAIRS]
    return SentencePieceTokenizer.train(
        texts, 60, model_type="unigram", byte_fallback=False, allow_fewer=True
    )


def vocabulary(*sides):
    """A vocabulary of Marian: the end and the unknown first, padding last."""
    pieces = [piece for side in sides for piece in sentence_pieces(side).vocabulary]
    first = ["</s>", "<unk>", *MARKS]
    others = [piece for piece in dict.fromkeys(pieces) if piece not in (*first, "<pad>", "<s>")]
    return [*first, *others, "<pad>"]


def translator(folder, separate=False, seed=0, **settings):
    """Writes a translator with random weights, and returns that of transformers."""
    files = {"vocab.json": vocabulary(0, 1)}
    if separate:
        source = [n for n in vocabulary(0) if n != "<pad>"]
        target = [n for n in vocabulary(1) if n != "<pad>"]
        size = max(len(source), len(target))
        for name, own in (("vocab.json", source), ("target_vocab.json", target)):
            files[name] = [*own, *(f"<other {i}>" for i in range(size - len(own))), "<pad>"]
    models = [sentence_pieces(side).model for side in (0, 1)]
    return write_translator(folder, files, models, seed, **settings)


def write_translator(folder, files, models, seed=0, **settings):
    """Writes a translator with the vocabularies in `files` and serialized SentencePiece models."""
    separate = len(files) > 1
    size = len(files["vocab.json"])
    config = transformers.MarianConfig(
        vocab_size=size,
        decoder_vocab_size=size,
        share_encoder_decoder_embeddings=not separate,
        pad_token_id=size - 1,
        decoder_start_token_id=size - 1,
        forced_eos_token_id=0,
        **{**SIZES, **settings},
    )
    model = perturbed(transformers.MarianMTModel(config), seed)
    with torch.no_grad():
        model.final_logits_bias.copy_(torch.randn_like(model.final_logits_bias))
        for side in (model.model.encoder, model.model.decoder):
            side.embed_positions.weight.copy_(side.embed_positions.create_weight())
    model.generation_config.update(
        num_beams=3, bad_words_ids=[[size - 1]], length_penalty=1.0, max_length=40
    )
    model.save_pretrained(folder)
    for name, pieces in files.items():
        text = json.dumps({piece: i for i, piece in enumerate(pieces)}, ensure_ascii=False)
        (folder / name).write_text(text, encoding="utf-8")
    for number, side in enumerate(("source", "target")):
        (folder / f"{side}.spm").write_bytes(models[number])
    text = json.dumps({"separate_vocabs": separate})
    (folder / "tokenizer_config.json").write_text(text)
    return model

"""Models of transformers with random settings, read by this package and written back.

    KERAS_BACKEND=torch python tests/nightly/hugging_face.py --cases 500 --seed 1

Each case draws a kind of model, its sizes and options, a head, a dtype and the number of files.
transformers writes the folder, `load_pretrained` reads it, and all outputs must agree to 1e-4 of
the largest. Then `save_pretrained` writes the model, and transformers must compute the same again.
Some cases have an option that this package documents as not supported: these must raise a
ValueError that names the file, or agree too.
"""

import json

import keras
import numpy as np
import torch
import transformers
from drawn_cases import options, run

from keras_attn.interop import load_pretrained, read_pretrained, save_pretrained
from keras_attn.interop.activations import ACTIVATIONS
from keras_attn.models import hidden_states, language_decoder

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
TOLERANCE = 1e-4
KINDS = ("Bert", "DistilBert", "Roberta", "XLMRoberta", "GPT2", "Llama", "Marian", "T5")
HEADS = {
    "Model": (),
    "ForMaskedLM": ("masked_words",),
    "ForSequenceClassification": ("classes",),
    "ForTokenClassification": ("tags",),
    "ForQuestionAnswering": ("spans",),
    "ForNextSentencePrediction": ("next_sentence",),
    "ForPreTraining": ("masked_words", "next_sentence"),
}
LENGTH = 9
NAMES = {
    "token_ids": "input_ids",
    "segment_ids": "token_type_ids",
    "padding_mask": "attention_mask",
}


class Drawn:
    """A model of transformers, and whether this package says that it cannot read it."""

    def __init__(self, rng):
        self.rng = rng
        self.kind = self.one_of(KINDS)
        self.unsupported, self.heads, self.head = [], (), "Model"
        self.vocabulary = int(rng.integers(12, 40))
        self.layers = int(rng.integers(1, 4))
        self.num_heads = int(rng.integers(1, 5))
        self.width = int(rng.integers(1, 4)) * 2
        self.hidden = int(rng.integers(1, 25))
        self.dim = self.num_heads * self.width
        self.settings = getattr(self, self.kind.lower())()
        torch.manual_seed(int(rng.integers(2**31)))
        config = getattr(transformers, f"{self.kind}Config")(**self.settings)
        self.model = perturbed(getattr(transformers, f"{self.kind}{self.head}")(config))
        dtype = self.one_of((torch.float32, torch.float32, torch.float16, torch.bfloat16))
        self.model = self.model.to(dtype)

    def one_of(self, choices):
        return choices[int(self.rng.integers(len(choices)))]

    def rarely(self, name, value, otherwise=None):
        """A setting that this package does not support, in some cases."""
        if self.rng.random() < 0.03:
            self.unsupported.append(name)
            return {name: value}
        return {} if otherwise is None else {name: otherwise}

    def activation(self):
        name = self.one_of(
            [name for name in ACTIVATIONS if name in transformers.activations.ACT2FN]
        )
        if self.rng.random() < 0.03:
            self.unsupported.append("activation")
            name = self.one_of(("laplace", "leaky_relu", "gelu_10"))
        return name

    def bert(self):
        self.heads_of("Bert")
        return {
            "vocab_size": self.vocabulary, "hidden_size": self.dim,
            "num_hidden_layers": self.layers, "num_attention_heads": self.num_heads,
            "intermediate_size": self.hidden, "hidden_act": self.activation(),
            "max_position_embeddings": int(self.rng.integers(LENGTH, 20)),
            "type_vocab_size": int(self.rng.integers(1, 4)),
            "layer_norm_eps": self.one_of((1e-12, 1e-5, 1e-2)),
            "pad_token_id": int(self.rng.integers(4)),
            **self.labels,
            **self.rarely("is_decoder", True),
        }  # fmt: skip

    def heads_of(self, kind):
        names = [n for n in HEADS if hasattr(transformers, kind + n)]
        self.head = self.one_of(names)
        self.heads = HEADS[self.head]
        labelled = {"classes", "tags"} & set(self.heads)
        self.labels = {"num_labels": int(self.rng.integers(1, 5))} if labelled else {}

    def distilbert(self):
        self.heads_of("DistilBert")
        return {
            "vocab_size": self.vocabulary, "dim": self.dim, "n_layers": self.layers,
            "n_heads": self.num_heads, "hidden_dim": self.hidden, "activation": self.activation(),
            "max_position_embeddings": int(self.rng.integers(LENGTH, 20)),
            **self.labels,
            "sinusoidal_pos_embds": self.one_of((False, True)),
        }  # fmt: skip

    def roberta(self):
        settings = {n: x for n, x in self.bert().items() if n != "num_labels"}
        pad = settings["pad_token_id"]
        self.heads_of("Roberta")
        return {
            **settings,
            **self.labels,
            "max_position_embeddings": int(self.rng.integers(LENGTH, 20)) + pad + 1,
        }

    xlmroberta = roberta

    def gpt2(self):
        self.head = self.one_of(("Model", "LMHeadModel", "LMHeadModel"))
        return {
            "vocab_size": self.vocabulary, "n_embd": self.dim, "n_layer": self.layers,
            "n_head": self.num_heads, "n_positions": int(self.rng.integers(LENGTH, 20)),
            "n_inner": self.one_of((None, self.hidden)), "activation_function": self.activation(),
            "layer_norm_epsilon": self.one_of((1e-5, 1e-2)),
            "tie_word_embeddings": self.one_of((True, False)),
            **self.rarely("scale_attn_by_inverse_layer_idx", True),
            **self.rarely("scale_attn_weights", False),
            "bos_token_id": None, "eos_token_id": None,
        }  # fmt: skip

    def llama(self):
        self.head = self.one_of(("Model", "ForCausalLM", "ForCausalLM"))
        bias = self.one_of((False, True))
        groups = [n for n in (1, 2, 3, 4) if self.num_heads % n == 0]
        rope = self.one_of((
            {"rope_type": "default"},
            {"rope_type": "linear", "factor": self.one_of((1.5, 4.0))},
            {
                "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                "high_freq_factor": 4.0, "original_max_position_embeddings": 16,
            },
        ))  # fmt: skip
        if self.rng.random() < 0.05:
            self.unsupported.append("rope_type")
            rope = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}
        return {
            "vocab_size": self.vocabulary, "hidden_size": self.dim,
            "num_hidden_layers": self.layers, "num_attention_heads": self.num_heads,
            "num_key_value_heads": self.one_of(groups),
            "head_dim": self.one_of((None, 2, 6)), "intermediate_size": self.hidden,
            "hidden_act": self.activation(), "rms_norm_eps": self.one_of((1e-6, 1e-2)),
            "attention_bias": bias, **self.rarely("mlp_bias", not bias, bias),
            "tie_word_embeddings": self.one_of((True, False)),
            "max_position_embeddings": int(self.rng.integers(LENGTH, 40)),
            "rope_parameters": {"rope_theta": self.one_of((10.0, 500.0, 10000.0)), **rope},
            "bos_token_id": None, "eos_token_id": None,
        }  # fmt: skip

    def marian(self):
        self.head = "MTModel"
        tied = self.one_of((True, True, False))
        size = self.vocabulary
        return {
            "vocab_size": size, "decoder_vocab_size": size,
            "share_encoder_decoder_embeddings": tied or self.one_of((True, False)),
            "d_model": self.dim, "encoder_layers": self.layers,
            "decoder_layers": int(self.rng.integers(1, 4)),
            "encoder_attention_heads": self.num_heads,
            **self.rarely("decoder_attention_heads", self.dim, self.num_heads),
            "encoder_ffn_dim": self.hidden,
            **self.rarely("decoder_ffn_dim", self.hidden + 1, self.hidden),
            "activation_function": self.activation(),
            "scale_embedding": self.one_of((True, False)), "tie_word_embeddings": tied,
            "pad_token_id": size - 1,
            "decoder_start_token_id": self.one_of((size - 1, 2)), "eos_token_id": 0,
            "forced_eos_token_id": 0, "max_position_embeddings": 64,
        }  # fmt: skip

    def t5(self):
        self.head = "ForConditionalGeneration"
        gate = self.one_of(("", "gated-"))
        return {
            "vocab_size": self.vocabulary, "d_model": self.dim,
            "d_kv": self.one_of((self.width, 3, 5)), "d_ff": self.hidden,
            "num_layers": self.layers,
            "num_decoder_layers": self.one_of((None, 1, 2, 3)), "num_heads": self.num_heads,
            "relative_attention_num_buckets": self.one_of((4, 8, 32)),
            "relative_attention_max_distance": self.one_of((20, 128)),
            "layer_norm_epsilon": self.one_of((1e-6, 1e-2)),
            "feed_forward_proj": gate + self.one_of(("relu", "gelu", "silu", "gelu_new")),
            "tie_word_embeddings": self.one_of((True, False)),
            **self.rarely("decoder_start_token_id", 3),
        }  # fmt: skip

    def write(self, folder):
        """Writes the folder, in one file or several; the reference is what transformers reads."""
        size = self.one_of(("50GB", "50GB", "6KB"))
        self.model.save_pretrained(folder, max_shard_size=size)
        self.model = type(self.model).from_pretrained(folder, dtype=torch.float32).eval()


def perturbed(model):
    """All weights far from what they begin with; tables of sinusoids stay as they are."""
    fixed = "embed_positions" if "Marian" in type(model).__name__ else "no such weight"
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if fixed not in name:
                weight.add_(0.3 * torch.randn_like(weight))
    return model.eval()


def batch(rng, drawn):
    """Ids with padding on either side, and the mask."""
    count, length = int(rng.integers(1, 4)), int(rng.integers(1, LENGTH + 1))
    lengths = rng.integers(1, length + 1, count)
    places = np.arange(length)
    mask = (places[::-1] if rng.random() < 0.5 else places) < lengths[:, None]
    pad = drawn.settings.get("pad_token_id", 0)
    tokens = [token for token in range(drawn.vocabulary) if token != pad]
    real = rng.choice(tokens, mask.shape)
    return np.where(mask, real, pad).astype("int32"), mask


def encoder_inputs(rng, drawn):
    ids, mask = batch(rng, drawn)
    inputs = {"token_ids": ids, "padding_mask": mask}
    if drawn.kind == "Bert" and (types := drawn.settings["type_vocab_size"]) > 1:
        inputs["segment_ids"] = rng.integers(0, types, ids.shape).astype("int32")
    return inputs


def their_outputs(drawn, model, inputs):
    """Returns the outputs of transformers by name, with where they count."""
    seen = inputs["padding_mask"]
    tensors = {NAMES.get(n, n): torch.tensor(x.astype("int64")) for n, x in inputs.items()}
    if drawn.kind in ("GPT2", "Llama"):
        tensors["position_ids"] = torch.clamp(torch.cumsum(tensors["attention_mask"], 1) - 1, min=0)
    with torch.no_grad():
        found = model(**tensors, output_hidden_states=True)
    if drawn.kind in ("Marian", "T5"):
        target = np.ones(inputs["decoder_input_ids"].shape, bool)
        return {"logits": (found.logits.numpy(), target)}
    if drawn.kind in ("GPT2", "Llama"):
        result = {"states": (np.stack([s.numpy() for s in found.hidden_states], 1), seen)}
        if "logits" in found:
            result["logits"] = (found.logits.numpy(), seen)
        return result
    if not drawn.heads:
        result = {"states": (np.stack([s.numpy() for s in found.hidden_states], 1), seen)}
        pooled = getattr(found, "pooler_output", None)
        return result if pooled is None else {**result, "pooled": (pooled.numpy(), None)}
    if drawn.heads == ("spans",):
        return {"spans": (torch.stack([found.start_logits, found.end_logits], -1).numpy(), seen)}
    if len(drawn.heads) == 2:
        return {
            "masked_words": (found.prediction_logits.numpy(), seen),
            "next_sentence": (found.seq_relationship_logits.numpy(), None),
        }
    per_token = found.logits.ndim == 3
    return {drawn.heads[0]: (found.logits.numpy(), seen if per_token else None)}


def our_outputs(drawn, model, inputs):
    """Returns the same of this package."""
    if drawn.kind in ("Marian", "T5"):
        given = {"source_ids": inputs["input_ids"], "target_ids": inputs["decoder_input_ids"]}
        return {"logits": keras.ops.convert_to_numpy(model(given))}
    if drawn.heads:
        found = model(inputs)
        return {name: keras.ops.convert_to_numpy(found[name]) for name in drawn.heads}
    states = hidden_states(model, inputs)
    result = {"states": np.stack([keras.ops.convert_to_numpy(s) for s in states], 1)}
    if drawn.kind in ("GPT2", "Llama"):
        if drawn.head != "Model":
            logits = language_decoder(model).logits(states[-1])
            result["logits"] = keras.ops.convert_to_numpy(logits)
    elif "pooled" in (found := model(inputs)):
        result["pooled"] = keras.ops.convert_to_numpy(found["pooled"])
    return result


def compare(ours, theirs):
    assert set(ours) >= set(theirs), (sorted(ours), sorted(theirs))
    for name, (wanted, seen) in theirs.items():
        found = ours[name]
        assert found.shape == wanted.shape, (name, found.shape, wanted.shape)
        if seen is not None:
            found, wanted = (
                np.moveaxis(x, 1, 2)[seen] if name == "states" else x[seen] for x in (found, wanted)
            )
        worst = np.abs(found - wanted).max() / max(np.abs(wanted).max(), 1e-9)
        assert worst <= TOLERANCE, f"{name} differ by {worst:.2g} of the largest"


def drawn_inputs(rng, drawn):
    if drawn.kind in ("Bert", "DistilBert", "Roberta", "XLMRoberta"):
        return encoder_inputs(rng, drawn)
    ids, mask = batch(rng, drawn)
    if drawn.kind in ("GPT2", "Llama"):
        return {"token_ids": ids, "padding_mask": mask}
    # The padding of targets is not masked by transformers: rows of tokens alone.
    target = rng.integers(1, drawn.vocabulary - 1, (len(ids), int(rng.integers(1, LENGTH))))
    start = drawn.settings.get("decoder_start_token_id", 0)
    target = np.concatenate([np.full((len(ids), 1), start), target], axis=1).astype("int32")
    return {"input_ids": ids, "padding_mask": mask, "decoder_input_ids": target}


def written_again(drawn, folder):
    """The model of transformers in a folder that this package wrote."""
    (name,) = json.loads((folder / "config.json").read_text())["architectures"]
    model, info = getattr(transformers, name).from_pretrained(folder, output_loading_info=True)
    wrong = {key: info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys")}
    assert not any(wrong.values()), wrong
    return model.eval()


def case(rng, folder):
    drawn = Drawn(rng)
    drawn.write(folder / "theirs")
    drawn.settings.setdefault("pad_token_id", 0)
    try:
        return checked(rng, drawn, folder)
    except Exception as error:
        told = {**drawn.settings, "unsupported": drawn.unsupported}
        raise AssertionError(f"{error!r} of {drawn.kind}{drawn.head} {told}") from error


def checked(rng, drawn, folder):
    inputs = drawn_inputs(rng, drawn)
    wanted = their_outputs(drawn, drawn.model, inputs)
    try:
        model, tokenizer, report = load_pretrained(folder / "theirs", drawn.heads)
    except ValueError as error:
        assert drawn.unsupported and str(folder / "theirs") in str(error), str(error)
        return "refused"
    bare = drawn.kind in ("GPT2", "Llama") and drawn.head == "Model"
    new = ["head/kernel"] if bare and not drawn.settings["tie_word_embeddings"] else []
    assert tokenizer is None and report.new == new, str(report)
    compare(our_outputs(drawn, model, inputs), wanted)
    config = read_pretrained(folder / "theirs").config
    try:
        save_pretrained(folder / "ours", model, config)
    except ValueError as error:
        assert not getattr(config, "starts_with_padding", True), str(error)
        return "read only"  # the id of the start is the tokenizer's, and there is none
    compare_again = their_outputs(drawn, written_again(drawn, folder / "ours"), inputs)
    compare({name: x for name, (x, _) in compare_again.items()}, wanted)
    return "equal"


if __name__ == "__main__":
    run(case, options(__doc__, 500).parse_args())

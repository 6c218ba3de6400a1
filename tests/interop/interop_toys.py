"""Small random models of transformers, in folders, and what they compute."""

import keras
import numpy as np
import torch
import transformers

from keras_attn.models import hidden_states

TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghij", *(f"##{c}" for c in "abcde")]
SMALL = {
    "vocab_size": 31, "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3,
    "intermediate_size": 20, "max_position_embeddings": 16,
}  # fmt: skip
SMALL_DISTILBERT = {
    "vocab_size": 31, "dim": 12, "n_layers": 2, "n_heads": 3, "hidden_dim": 20,
    "max_position_embeddings": 16,
}  # fmt: skip


def perturbed(model, seed=0):
    """All weights far from what they begin with: norms, biases and tables too."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.3 * torch.randn_like(weight))
    return model.eval()


def bert(kind="Model", seed=0, **settings):
    config = transformers.BertConfig(**{**SMALL, **settings})
    return perturbed(getattr(transformers, f"Bert{kind}")(config), seed)


def distilbert(kind="Model", seed=0, **settings):
    config = transformers.DistilBertConfig(**{**SMALL_DISTILBERT, **settings})
    return perturbed(getattr(transformers, f"DistilBert{kind}")(config), seed)


def written(model, folder):
    """Saves a model of transformers."""
    model.save_pretrained(folder)
    return folder


def batch(vocabulary_size=31, num_segments=2, left=False, seed=0):
    """Ids with padding on one side, segments, and the mask."""
    rng = np.random.default_rng(seed)
    lengths = np.array([9, 4, 7])
    place = np.arange(9)[::-1] if left else np.arange(9)
    mask = place < lengths[:, None]
    inputs = {
        "token_ids": np.where(mask, rng.integers(1, vocabulary_size, mask.shape), 0),
        "segment_ids": rng.integers(0, num_segments or 1, mask.shape),
        "padding_mask": mask,
    }
    if num_segments in (None, 1):  # the model has no input for them
        del inputs["segment_ids"]
    return {
        name: array.astype(bool if array is mask else "int32") for name, array in inputs.items()
    }


def theirs(model, inputs, **more):
    """Calls a model of transformers."""
    names = {"token_ids": "input_ids", "segment_ids": "token_type_ids"}
    tensors = {
        names.get(name, "attention_mask"): torch.tensor(array.astype("int64"))
        for name, array in inputs.items()
    }
    with torch.no_grad():
        return model(**tensors, **more)


def states_of(model, inputs):
    """Embeddings and blocks of a model of transformers, and what it pools, `(B, D)` or None."""
    found = theirs(model, inputs, output_hidden_states=True)
    pooled = getattr(found, "pooler_output", None)
    states = np.stack([state.numpy() for state in found.hidden_states])
    return states, None if pooled is None else pooled.numpy()


def difference(model, reference, inputs):
    """The largest difference of real tokens of all layers, and of the pooled vectors."""
    states, pooled = states_of(reference, inputs)
    ours = np.stack([keras.ops.convert_to_numpy(s) for s in hidden_states(model, inputs)])
    assert ours.shape == states.shape
    seen = inputs["padding_mask"]
    worst = np.abs(ours - states)[:, seen].max()
    found = model(inputs)
    assert ("pooled" in found) == (pooled is not None)
    whole = keras.ops.convert_to_numpy(found["sequence"])
    worst = max(worst, np.abs(whole - states[-1])[seen].max())
    if pooled is not None:
        worst = max(worst, np.abs(keras.ops.convert_to_numpy(found["pooled"]) - pooled).max())
    return worst


def logits_difference(logits, reference, seen):
    """The largest difference of logits, of real tokens where there is one for each token."""
    ours = keras.ops.convert_to_numpy(logits)
    reference = reference.numpy()
    assert ours.shape == reference.shape
    per_token = ours.ndim == 3
    return np.abs(ours - reference)[seen if per_token else slice(None)].max()


def randomize(model, seed=0):
    """All weights of one of our models far from what they begin with."""
    rng = np.random.default_rng(seed)
    for variable in model.trainable_variables:
        variable.assign(variable + 0.3 * rng.standard_normal(variable.shape).astype("float32"))
    return model

"""Configs as tasks are given them: objects, dicts with the name of their kind, or nothing."""

from dataclasses import replace

import pytest

from keras_attn.models import (
    CAPTIONERS,
    SoftAttentionCaptionerConfig,
    TransformerCaptionerConfig,
    small_cnn_encoder,
)
from keras_attn.tasks.configs import (
    captioner_config,
    kind_and_fields,
)

ENCODER = small_cnn_encoder(16, filters=(4, 8))  # 4 x 4 regions of 8 numbers


def captioning(config):
    return captioner_config(config, 300, ENCODER)


POSITIONS = {"region_positions": "learned", "grid": (4, 4)}
KINDS = [
    (captioning, "kind", "soft-attention", SoftAttentionCaptionerConfig(300, 8, dim=16)),
    (captioning, "kind", "transformer", TransformerCaptionerConfig(300, 8, dim=16, **POSITIONS)),
]


@pytest.mark.parametrize(("make", "key", "name", "config"), KINDS)
def test_an_object_and_a_dict_give_the_same(make, key, name, config):
    given = {key: name, **config.to_dict()}
    before = dict(given)
    for form in (config, given):
        assert make(form) == config
        assert type(make(form)) is type(config)
    assert given == before


@pytest.mark.parametrize(
    ("make", "default", "registry"),
    [
        (captioning, SoftAttentionCaptionerConfig, CAPTIONERS),
    ],
)
def test_without_a_name_it_is_the_default(make, default, registry):
    assert type(make(None)) is type(make({})) is default
    assert make({"dim": 16}).dim == 16
    key = "kind"
    for wrong in (7, "rnn", [("dim", 16)], {key: "cnn"}, {key: None}):
        with pytest.raises(ValueError) as caught:
            make(wrong)
        message = str(caught.value)
        assert message.endswith(f" Received: {wrong!r}.")
        for name, (kind, _) in registry.items():
            assert repr(kind.__name__) in message and f"{key}={name!r}: ['" in message
    with pytest.raises(ValueError, match=rf"with \['heads', 3\], no fields of {default.__name__}"):
        make({"dim": 16, "heads": 2, 3: 3})


def test_a_decoder_fits_its_encoder():
    """Its sizes are filled in, and refused where they are others."""
    right = TransformerCaptionerConfig(300, 8, **POSITIONS)
    positions = {"kind": "transformer", "region_positions": "learned"}
    assert captioning(positions) == right
    assert captioning({"kind": "transformer"}).grid is None
    for wrong in ({"vocabulary_size": 5}, {"region_dim": 7}):
        (name,) = wrong
        for config in (replace(right, **wrong), {**positions, **wrong}):
            with pytest.raises(ValueError, match=f"`{name}` of the decoder must be"):
                captioning(config)
    for config in (replace(right, grid=(2, 8)), {**positions, "grid": [2, 8]}):
        with pytest.raises(ValueError, match=r"`grid` .*\(4, 4\)\. Received: \(2, 8\)"):
            captioning(config)


def test_what_was_given_stays_as_it_is():
    given = {"kind": "transformer", "dim": 8}
    kind, fields = kind_and_fields(given, CAPTIONERS, "transformer")
    fields["dim"] = 9
    assert (kind, given) == (TransformerCaptionerConfig, {"kind": "transformer", "dim": 8})

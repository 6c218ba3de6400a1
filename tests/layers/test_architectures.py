"""Models of others, of random weights, in our layers: T5, Mistral, Llama 3.1, Marian, GPT-2, BERT.

By `transformers`, on PyTorch: outputs of the whole, with padding, within 1e-5 of their scale.
"""

import keras
import numpy as np
import pytest
import torch

from keras_attn.layers import (
    InputEmbedding,
    LearnedPositionalEncoding,
    RMSNormalization,
    TokenEmbedding,
    TransformerDecoder,
    TransformerEncoder,
)

transformers = pytest.importorskip("transformers", reason="transformers is of the extra `test`")

B, T, S, V, D, N, F = 2, 7, 9, 31, 16, 4, 24
RNG = np.random.default_rng(0)
IDS = RNG.integers(3, V, (B, T))
SOURCE = RNG.integers(3, V, (B, S))
SEEN = np.arange(S) < [[S], [5]]  # right padding of the source


def random(model):
    """Weights far from what they begin with: norms, biases and tables too."""
    torch.manual_seed(0)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.2 * torch.randn_like(weight))
    return model.eval()


def dense(layer, *sources):
    """Copies torch linear layers, side by side, into one of ours."""
    kernel = torch.cat([source.weight for source in sources]).T
    weights = [kernel.detach().numpy()]
    if layer.use_bias:
        weights.append(torch.cat([source.bias for source in sources]).detach().numpy())
    layer.set_weights(weights)


def norm(layer, source):
    weights = (
        [source.weight] if isinstance(layer, RMSNormalization) else [source.weight, source.bias]
    )
    layer.set_weights([w.detach().numpy() for w in weights])


def table(layer, source):
    layer.set_weights([source.weight.detach().numpy()])


def compare(ours, theirs, seen=None, atol=1e-5):
    theirs = theirs.detach().numpy()
    ours = keras.ops.convert_to_numpy(ours)
    if seen is not None:
        ours, theirs = ours[seen], theirs[seen]
    np.testing.assert_allclose(ours, theirs, atol=atol * np.abs(theirs).max())


def attention(ours, theirs, names="qkvo"):
    q, k, v, o = (getattr(theirs, name) for name in names)
    if hasattr(ours, "qkv_dense"):
        dense(ours.qkv_dense, q, k, v)
    else:
        for mine, source in ((ours.query_dense, q), (ours.key_dense, k), (ours.value_dense, v)):
            dense(mine, source)
    dense(ours.output_dense, o)


def t5(gated):
    config = transformers.T5Config(
        vocab_size=V, d_model=D, d_kv=6, d_ff=F, num_layers=2, num_decoder_layers=2, num_heads=N,
        relative_attention_num_buckets=8, relative_attention_max_distance=6, dropout_rate=0.0,
        feed_forward_proj="gated-gelu" if gated else "relu", tie_word_embeddings=not gated,
    )  # fmt: skip
    return random(transformers.T5ForConditionalGeneration(config))


@pytest.mark.slow
@pytest.mark.parametrize("gated", [False, True], ids=["t5", "t5 1.1"])
def test_t5(gated):
    """Relative positions in both stacks, cross-attention, outputs tied and not."""
    theirs = t5(gated)
    settings = {
        "intermediate_dim": F, "key_dim": 6, "positions": "relative", "num_buckets": 8,
        "max_distance": 6, "scale": 1.0, "normalization": "rms_norm", "normalize_first": True,
        "layer_norm_epsilon": 1e-6, "use_bias": False, "gated": gated,
        "activation": "gelu_tanh" if gated else "relu",
    }  # fmt: skip
    encoder, decoder = TransformerEncoder(2, N, **settings), TransformerDecoder(2, N, **settings)
    embed = TokenEmbedding(V, D, scale=False, mask_zero=False)
    embed.build()
    encoder.build((None, None, D))
    decoder.build((None, None, D), (None, None, D))
    table(embed, theirs.shared)
    for stack, source in ((encoder, theirs.encoder), (decoder, theirs.decoder)):
        norm(stack.norm, source.final_layer_norm)
        first = source.block[0].layer[0].SelfAttention.relative_attention_bias
        table(stack.blocks[0].self_attention.relative_bias, first)
        for block, each in zip(stack.blocks, source.block, strict=True):
            attention(block.self_attention, each.layer[0].SelfAttention)
            norm(block.self_attention_norm, each.layer[0].layer_norm)
            if stack is decoder:
                attention(block.cross_attention, each.layer[1].EncDecAttention)
                norm(block.cross_attention_norm, each.layer[1].layer_norm)
            network, names = each.layer[-1].DenseReluDense, ("wi_0", "wi_1") if gated else ("wi",)
            dense(block.feed_forward.hidden_dense, *(getattr(network, name) for name in names))
            dense(block.feed_forward.output_dense, network.wo)
            norm(block.feed_forward_norm, each.layer[-1].layer_norm)
    found = theirs(
        input_ids=torch.tensor(SOURCE),
        attention_mask=torch.tensor(SEEN.astype("int64")),
        decoder_input_ids=torch.tensor(IDS),
    )
    memory = encoder(embed(SOURCE), padding_mask=SEEN)
    compare(memory, found.encoder_last_hidden_state, SEEN)
    output = decoder(embed(IDS), memory, memory_mask=SEEN)
    if gated:
        head = keras.layers.Dense(V, use_bias=False)
        head.build((None, None, D))
        dense(head, theirs.lm_head)
        compare(head(output), found.logits)
    else:
        compare(embed(output * D**-0.5, reverse=True), found.logits)
    # Step by step, from a cache.
    y, state = decoder.prefill(embed(IDS[:, :3]), memory=memory, memory_mask=SEEN, max_length=T)
    steps = [y]
    for t in range(3, T):
        y, state = decoder.step(embed(IDS[:, t : t + 1]), state)
        steps.append(y)
    np.testing.assert_allclose(np.concatenate(steps, axis=1), output, atol=2e-5)


LLAMA = {
    "vocab_size": V, "hidden_size": D, "intermediate_size": F, "num_hidden_layers": 2,
    "num_attention_heads": N, "num_key_value_heads": 2, "tie_word_embeddings": False,
    "max_position_embeddings": 64, "attn_implementation": "eager",
}  # fmt: skip


@pytest.mark.quick("llama 3.1")
@pytest.mark.parametrize("which", ["mistral", "llama 3.1", "linear"])
def test_decoders_of_llamas_family(which):
    """A sliding window; rotary positions scaled for longer contexts."""
    settings = {}
    if which == "mistral":
        config = transformers.MistralConfig(**LLAMA, sliding_window=3, rms_norm_eps=1e-6)
        theirs = random(transformers.MistralForCausalLM(config))
        settings["sliding_window"] = 3
    else:
        scaling = {"type": "linear", "factor": 2.0}
        told = {"rope_type": "linear", "factor": 2.0, "rope_theta": 10000.0}
        if which == "llama 3.1":
            numbers = {
                "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            }  # fmt: skip
            scaling = {"type": "llama3", **numbers, "original_length": 16}
            told = {
                "rope_type": "llama3", **numbers, "rope_theta": 10000.0,
                "original_max_position_embeddings": 16,
            }  # fmt: skip
        config = transformers.LlamaConfig(**LLAMA, rope_parameters=told, rms_norm_eps=1e-6)
        theirs = random(transformers.LlamaForCausalLM(config))
        settings["rotary_scaling"] = scaling
    stack = TransformerDecoder(
        2, N, intermediate_dim=F, num_kv_heads=2, positions="rotary", normalization="rms_norm",
        normalize_first=True, layer_norm_epsilon=1e-6, use_bias=False, gated=True,
        activation="silu", **settings,
    )  # fmt: skip
    stack.build((None, None, D))
    embed = TokenEmbedding(V, D, scale=False, mask_zero=False)
    embed.build()
    table(embed, theirs.model.embed_tokens)
    norm(stack.norm, theirs.model.norm)
    for block, each in zip(stack.blocks, theirs.model.layers, strict=True):
        attention(block.self_attention, each.self_attn, ("q_proj", "k_proj", "v_proj", "o_proj"))
        norm(block.self_attention_norm, each.input_layernorm)
        dense(block.feed_forward.hidden_dense, each.mlp.gate_proj, each.mlp.up_proj)
        dense(block.feed_forward.output_dense, each.mlp.down_proj)
        norm(block.feed_forward_norm, each.post_attention_layernorm)
    ids = RNG.integers(3, V, (B, 14))
    head = keras.layers.Dense(V, use_bias=False)
    head.build((None, None, D))
    dense(head, theirs.lm_head)
    output = stack(embed(ids))
    compare(head(output), theirs(input_ids=torch.tensor(ids)).logits)
    y, state = stack.prefill(embed(ids[:, :5]), max_length=14)
    for t in range(5, 14):
        y, state = stack.step(embed(ids[:, t : t + 1]), state)
    np.testing.assert_allclose(y[:, 0], output[:, -1], atol=3e-5)


@pytest.mark.slow
def test_marian():
    """Post-norm, swish, scaled embeddings, and a bias of the tied output."""
    config = transformers.MarianConfig(
        vocab_size=V, d_model=D, encoder_layers=2, decoder_layers=2, encoder_ffn_dim=F,
        decoder_ffn_dim=F, encoder_attention_heads=N, decoder_attention_heads=N,
        activation_function="swish", scale_embedding=True, max_position_embeddings=32,
        pad_token_id=0, decoder_start_token_id=0, dropout=0.0,
    )  # fmt: skip
    theirs = random(transformers.MarianMTModel(config))
    theirs.final_logits_bias = torch.randn(1, V)
    settings = {"intermediate_dim": F, "activation": "silu"}
    encoder, decoder = TransformerEncoder(2, N, **settings), TransformerDecoder(2, N, **settings)
    encoder.build((None, None, D))
    decoder.build((None, None, D), (None, None, D))
    embed = TokenEmbedding(V, D, output_bias=True)
    embed.build()
    embed.set_weights(
        [theirs.model.shared.weight.detach().numpy(), theirs.final_logits_bias[0].numpy()][
            :: 1 if embed.weights[0].shape == (V, D) else -1
        ]
    )
    names = ("q_proj", "k_proj", "v_proj", "out_proj")
    for stack, source in ((encoder, theirs.model.encoder), (decoder, theirs.model.decoder)):
        for block, each in zip(stack.blocks, source.layers, strict=True):
            attention(block.self_attention, each.self_attn, names)
            norm(block.self_attention_norm, each.self_attn_layer_norm)
            if stack is decoder:
                attention(block.cross_attention, each.encoder_attn, names)
                norm(block.cross_attention_norm, each.encoder_attn_layer_norm)
            dense(block.feed_forward.hidden_dense, each.fc1)
            dense(block.feed_forward.output_dense, each.fc2)
            norm(block.feed_forward_norm, each.final_layer_norm)
    # Marian has all sines before all cosines; ours take turns.
    places = theirs.model.encoder.embed_positions.weight.detach().numpy()
    target_places = theirs.model.decoder.embed_positions.weight.detach().numpy()
    memory = encoder(embed(SOURCE) + places[:S], padding_mask=SEEN)
    found = theirs(
        input_ids=torch.tensor(SOURCE),
        attention_mask=torch.tensor(SEEN.astype("int64")),
        decoder_input_ids=torch.tensor(IDS),
    )
    compare(memory, found.encoder_last_hidden_state, SEEN)
    output = decoder(embed(IDS) + target_places[:T], memory, memory_mask=SEEN)
    compare(embed(output, reverse=True), found.logits)


def test_gpt2():
    """Learned positions, `gelu_tanh`, tied outputs."""
    config = transformers.GPT2Config(
        vocab_size=V, n_embd=D, n_layer=2, n_head=N, n_inner=F, n_positions=16, resid_pdrop=0.0,
        embd_pdrop=0.0, attn_pdrop=0.0,
    )  # fmt: skip
    theirs = random(transformers.GPT2LMHeadModel(config))
    stack = TransformerDecoder(
        2, N, intermediate_dim=F, normalize_first=True, activation="gelu_tanh"
    )
    embed = InputEmbedding(V, D, sequence_length=16, normalize=False, mask_zero=False)
    embed.build()
    stack.build((None, None, D))
    table(embed.token_embedding, theirs.transformer.wte)
    assert isinstance(embed.position_layer, LearnedPositionalEncoding)
    table(embed.position_layer, theirs.transformer.wpe)
    norm(stack.norm, theirs.transformer.ln_f)

    def copy(layer, source):  # GPT-2's are (inputs, outputs)
        layer.set_weights([source.weight.detach().numpy(), source.bias.detach().numpy()])

    for block, each in zip(stack.blocks, theirs.transformer.h, strict=True):
        copy(block.self_attention.qkv_dense, each.attn.c_attn)
        copy(block.self_attention.output_dense, each.attn.c_proj)
        norm(block.self_attention_norm, each.ln_1)
        copy(block.feed_forward.hidden_dense, each.mlp.c_fc)
        copy(block.feed_forward.output_dense, each.mlp.c_proj)
        norm(block.feed_forward_norm, each.ln_2)
    logits = embed(stack(embed(IDS)), reverse=True)
    compare(logits, theirs(input_ids=torch.tensor(IDS)).logits)


def test_bert():
    """Tokens, segments and positions, normalised; exact GELU; post-norm."""
    config = transformers.BertConfig(
        vocab_size=V, hidden_size=D, num_hidden_layers=2, num_attention_heads=N,
        intermediate_size=F, max_position_embeddings=16, hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    theirs = random(transformers.BertModel(config))
    embed = InputEmbedding(V, D, num_segments=2, sequence_length=16)
    stack = TransformerEncoder(
        2, N, intermediate_dim=F, activation="gelu", layer_norm_epsilon=1e-12
    )
    embed.build()
    stack.build((None, None, D))
    source = theirs.embeddings
    table(embed.token_embedding, source.word_embeddings)
    table(embed.segment_embedding, source.token_type_embeddings)
    table(embed.position_layer, source.position_embeddings)
    norm(embed.norm, source.LayerNorm)
    for block, each in zip(stack.blocks, theirs.encoder.layer, strict=True):
        inner = each.attention.self
        dense(block.self_attention.qkv_dense, inner.query, inner.key, inner.value)
        dense(block.self_attention.output_dense, each.attention.output.dense)
        norm(block.self_attention_norm, each.attention.output.LayerNorm)
        dense(block.feed_forward.hidden_dense, each.intermediate.dense)
        dense(block.feed_forward.output_dense, each.output.dense)
        norm(block.feed_forward_norm, each.output.LayerNorm)
    segments = (np.arange(S) > 3).astype("int32") * np.ones((B, 1), "int32")
    ids = np.where(SEEN, SOURCE, 0)
    output = stack(embed(ids, segments))
    found = theirs(
        input_ids=torch.tensor(ids),
        token_type_ids=torch.tensor(segments),
        attention_mask=torch.tensor(SEEN.astype("int64")),
    )
    compare(output, found.last_hidden_state, SEEN)

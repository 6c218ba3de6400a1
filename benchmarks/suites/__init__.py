"""The suites by name."""

from benchmarks.suite import Suite
from benchmarks.suites import (
    compiling,
    decoding,
    encoder_inference,
    imported,
    input_pipeline,
    language_model,
    loss,
    masked_words,
    memory,
    options,
    quantization,
    scaling,
    settings,
    training,
    writing,
)

SUITES: dict[str, Suite] = {
    module.SUITE.name: module.SUITE
    for module in (
        training,
        masked_words,
        language_model,
        decoding,
        writing,
        imported,
        encoder_inference,
        quantization,
        memory,
        loss,
        options,
        scaling,
        input_pipeline,
        compiling,
        settings,
    )
}

"""The suites by name."""

from benchmarks.suite import Suite
from benchmarks.suites import (
    compiling,
    decoding,
    input_pipeline,
    loss,
    memory,
    options,
    quantization,
    scaling,
    training,
)

SUITES: dict[str, Suite] = {
    module.SUITE.name: module.SUITE
    for module in (
        training,
        decoding,
        quantization,
        memory,
        loss,
        options,
        scaling,
        input_pipeline,
        compiling,
    )
}

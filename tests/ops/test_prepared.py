"""Arrays that compiled functions compute once on JAX, and in each call elsewhere."""

from pathlib import Path

import numpy as np
import prepared_script
from processes import answer


def test_on_jax():
    found = answer("jax", Path(prepared_script.__file__))
    assert found["made_once_for_all_functions"] == 1
    worst, made = found["after_changes"]
    assert worst < 1e-5
    assert made == 8  # each value is another one
    assert found["after_lora"] < 1e-5
    assert found["after_quantization"] < 0.02
    worst, made = found["in_a_layer"]
    assert worst < 1e-5
    assert made == 1
    assert found["where_errors_are_caught"] < 1e-5
    assert max(found["with_other_values"]) < 1e-5
    assert max(found["of_variables_that_are_not_given"]) < 1e-5
    assert found["after_a_failed_trace"] < 1e-5
    assert found["in_another_dtype"] == ["float32", "bfloat16"]
    assert found["freed"] == [True, True]


def test_in_each_call_elsewhere():
    embedding = prepared_script.built()
    run = prepared_script.logits_of(embedding)
    for value in (1.0, 2.0):
        embedding.embedding.embeddings.assign(np.full((5, 3), value))
        assert (run(prepared_script.IDS, 1) == 9 * value**2).all()

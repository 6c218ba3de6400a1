"""Arrays that compiled functions compute once on JAX, and in each call elsewhere."""

from pathlib import Path

import keras
import numpy as np
import prepared_script
from processes import answer

from keras_attn.ops.prepared import own_variables, values_of


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


def test_variables_and_values_are_those_of_keras():
    shared = keras.layers.Dense(3, name="shared")
    x = keras.Input((3,))
    inner = keras.Sequential([shared, keras.layers.BatchNormalization(), keras.layers.Dropout(0.5)])
    model = keras.Model(x, shared(inner(x)))
    assert set(map(id, own_variables(model))) == set(map(id, model.variables))
    variables = model.variables
    for found, variable in zip(values_of(variables), variables, strict=True):
        assert found is variable.value
    kernel = shared.kernel
    other = keras.ops.ones((3, 3))
    with keras.StatelessScope([(kernel, other)]):
        replaced, bias = values_of([kernel, shared.bias])
    assert replaced is other and bias is shared.bias.value
    seen = {}

    class Half(keras.layers.Layer):
        def call(self, x):
            seen["dtype"] = keras.backend.standardize_dtype(values_of([kernel])[0].dtype)
            return x

    Half(dtype="mixed_bfloat16")(np.zeros((1, 3), "float32"))
    assert seen == {"dtype": "bfloat16"}

"""Hand-written gradients where a function is traced again, as on JAX in a checkpoint."""

from pathlib import Path

import numpy as np
import pytest
from processes import answer


@pytest.mark.slow
def test_functions_that_jax_traces_again():
    found = answer("jax", Path(__file__).with_name("traced_again_script.py"))
    assert len(found["gradients"]) == 7
    for name, differences in found["gradients"].items():
        assert max(differences) < 1e-5, name
    kept, again = found["losses"]
    np.testing.assert_allclose(again, kept, rtol=1e-5)

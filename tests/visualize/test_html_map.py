import numpy as np
import pytest

from keras_attn.visualize import attention_html


def test_each_cell_has_its_weight():
    table = attention_html([[1.0, 0.0, 0.25], [0.004, float("nan"), 2.0]], ["a", "b", "c"], "xy")
    assert table.count("<td") == 7
    assert table.count("title=") == 3
    assert 'title="x &#8592; c: 0.25"' in table
    assert table.count("rgba(8,81,156,1.00)") == 2  # 2.0 is as dark as it gets
    assert "nan" not in table


def test_tokens_are_text_not_markup():
    table = attention_html([[1.0]], ['<img src=x onerror="alert(1)">'], ["a' & b"])
    assert "<img" not in table
    assert table.count("&lt;img src=x onerror=&quot;alert(1)&quot;&gt;") == 2
    assert table.count("a&#x27; &amp; b") == 2


def test_no_tokens_no_cells():
    assert attention_html(np.zeros((0, 2)), ["a", "b"], []).count("<tr") == 1


def test_refuses_other_shapes():
    with pytest.raises(ValueError, match=r"shape \(1, 2\) here. Received: shape \(2, 1\)"):
        attention_html([[1.0], [1.0]], ["a", "b"], ["c"])


def test_any_token_can_be_written():
    table = attention_html([[1.0]], ["\x00\ud800"], ["a"])
    assert "␀\ufffd" in table and table.encode("utf-8")

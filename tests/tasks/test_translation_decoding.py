"""What a search returns, shown."""

from keras_attn.tasks import NBestTranslations


def test_n_best_in_a_notebook():
    best = NBestTranslations(["a <b> & c", "d"], [-0.5, -1.25], [False, True], True, [])
    shown = best._repr_html_()
    assert "a &lt;b&gt; &amp; c" in shown
    assert "-0.500" in shown and "-1.250" in shown
    assert shown.count("(cut)") == 1
    assert "The source was cut." in shown
    assert "The source" not in best._replace(source_truncated=False)._repr_html_()

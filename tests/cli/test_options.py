"""Where settings come from."""

from keras_attn.cli.options import merged
from keras_attn.tasks import TextSamplingSettings
from keras_attn.tasks.text_generation_settings import SECTIONS


def test_the_command_line_goes_before_the_file_and_the_file_before_defaults(tmp_path):
    file = tmp_path / "settings.toml"
    file.write_text("[sampling]\ntemperature = 0.5\ntop_k = 3\n")
    given = {"temperature": 0.7, "top_k": None, "top_p": None}
    found = merged({"sampling": TextSamplingSettings}, file, given, SECTIONS)["sampling"]
    assert (found.temperature, found.top_k) == (0.7, 3)
    assert found.top_p == TextSamplingSettings().top_p

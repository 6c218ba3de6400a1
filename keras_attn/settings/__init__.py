"""Settings: declared once, read from files, and the choice of one kind among several."""

from keras_attn.settings.declaring import (
    Entry,
    Option,
    Settings,
    WrongUse,
    declared_fields,
    differences,
    setting,
    size,
    with_defaults,
)
from keras_attn.settings.files import read_settings, write_settings
from keras_attn.settings.kinds import Choice, Kinds

__all__ = [
    "Choice",
    "Entry",
    "Kinds",
    "Option",
    "Settings",
    "WrongUse",
    "declared_fields",
    "differences",
    "read_settings",
    "setting",
    "size",
    "with_defaults",
    "write_settings",
]

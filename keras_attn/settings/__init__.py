"""Settings dataclasses, settings files, and choices among several kinds."""

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
from keras_attn.settings.run_defaults import RunDefault

__all__ = [
    "Choice",
    "Entry",
    "Kinds",
    "Option",
    "RunDefault",
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

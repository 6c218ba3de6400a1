"""The search settings of a model: its `generation_config.json`, read as our settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from keras_attn.interop.json_files import read_object

FILE = "generation_config.json"
# Our settings, theirs, their kinds and what they are if no file says it.
_SETTINGS: dict[str, tuple[str, tuple[type, ...], Any]] = {
    "beams": ("num_beams", (int,), 1),
    "alpha": ("length_penalty", (int, float), 1.0),
    "early_stopping": ("early_stopping", (bool, str), False),
    "min_length": ("min_length", (int,), 0),
    "no_repeat_ngram_size": ("no_repeat_ngram_size", (int,), 0),
    "renormalize": ("renormalize_logits", (bool,), False),
    "forced_first_id": ("forced_bos_token_id", (int,), None),
    "forced_last_id": ("forced_eos_token_id", (int,), None),
}
# Settings that change what is found, with the values that are computed here.
_ONLY: dict[str, tuple[Any, ...]] = {
    "do_sample": (False, None),
    "num_beam_groups": (1, None),
    "diversity_penalty": (0.0, None),
    "repetition_penalty": (1.0, None),
    "encoder_repetition_penalty": (1.0, None),
    "encoder_no_repeat_ngram_size": (0, None),
    "penalty_alpha": (None, 0.0),
    "begin_suppress_tokens": (None, []),
    "sequence_bias": (None, {}),
    "exponential_decay_length_penalty": (None,),
    "force_words_ids": (None, []),
}


class OwnTask(NamedTuple):
    """Settings for one task of a model that was trained on several tasks, such as T5.

    Example:

    >>> OwnTask("summarize: ", 200, {"beams": 4}).prefix
    'summarize: '
    """

    prefix: str
    """Text that is put before each input text."""
    max_length: int | None
    """Maximum number of generated tokens, including the end token."""
    search: Mapping[str, Any]
    """Settings of the search, in the form of `read_search`."""


def read_tasks(folder: Path, settings: Mapping[str, Any]) -> dict[str, OwnTask]:
    """Reads `task_specific_params` of a `config.json`, for summarization and translation."""
    where = f"{folder / 'config.json'}: `task_specific_params`"
    tasks = settings.get("task_specific_params") or {}
    if not isinstance(tasks, Mapping) or not all(isinstance(x, Mapping) for x in tasks.values()):
        raise ValueError(f"{where} must have an object for each task. Received: {tasks!r:.80}.")
    found = {}
    for name, own in tasks.items():
        if name != "summarization" and not name.startswith("translation_"):
            continue
        prefix, most = own.get("prefix") or "", own.get("max_length")
        if not isinstance(prefix, str) or not (most is None or (type(most) is int and most > 2)):
            raise ValueError(
                f"{where}, {name}: `prefix` must be a string and `max_length` an integer above 2. "
                f"Received: {prefix!r:.80} and {most!r}."
            )
        most = most and most - 1  # they count the start too
        found[name] = OwnTask(prefix, most, read_search(folder, settings, name))
    return found


def read_search(folder: Path, settings: Mapping[str, Any], task: str = "") -> dict[str, Any]:
    """Reads the search settings of an encoder-decoder, as arguments of `beam_search`.

    The settings come from `generation_config.json` if it exists, otherwise from `settings`, the
    parsed `config.json`. The settings of a `task` in `task_specific_params` override the other
    settings. Unsupported settings raise an error.
    """
    path = folder / FILE
    given = read_object(path) if path.is_file() else settings
    where = str(path if path.is_file() else folder / "config.json")
    if task:
        given = {**given, **settings["task_specific_params"][task]}
        where = f"{folder / 'config.json'}: `task_specific_params`, {task}"
    for name, supported in _ONLY.items():
        if name in given and given[name] not in supported:
            raise ValueError(
                f"{where}: `{name}` must be {supported[0]!r}. Received: {given[name]!r}. "
                "keras_attn does not support this setting."
            )
    found: dict[str, Any] = {"length_penalty_kind": "power"}
    for ours, (theirs, kinds, default) in _SETTINGS.items():
        value = given.get(theirs)
        value = default if value is None else value
        wrong = type(value) not in kinds and value is not default
        if wrong or (type(value) is int and value < (ours == "beams") and ours != "alpha"):
            names = " or ".join(kind.__name__ for kind in kinds)
            raise ValueError(f"{where}: `{theirs}` must be {names}. Received: {value!r}.")
        found[ours] = value
    found["alpha"] = float(found["alpha"])
    if found["early_stopping"] not in (True, False, "never"):
        raise ValueError(
            f"{where}: `early_stopping` must be true, false or 'never'. Received: "
            f"{found['early_stopping']!r}."
        )
    found["suppressed_ids"] = _suppressed(given, where)
    return found


def search_file(search: Mapping[str, Any], pad_id: int) -> dict[str, Any]:
    """Returns search settings in the form of `generation_config.json`."""
    kind = search.get("length_penalty_kind", "gnmt")
    if "alpha" in search and kind != "power":
        raise ValueError(
            "transformers divides scores by a power of the length. Received: "
            f"length_penalty_kind={kind!r} with alpha={search['alpha']!r}. Use 'power', or leave "
            "`alpha` out."
        )
    found = {
        theirs: search[ours]
        for ours, (theirs, _, default) in _SETTINGS.items()
        if ours in search and (search[ours] is not None or default is not None)
    }
    ids = dict.fromkeys([pad_id, *search.get("suppressed_ids", ())])
    return {**found, "bad_words_ids": [[i] for i in ids], "max_length": 512}


def _suppressed(given: Mapping[str, Any], where: str) -> tuple[int, ...]:
    """The tokens that are never generated; sequences of several tokens raise an error."""
    rows = given.get("bad_words_ids") or []
    tokens = given.get("suppress_tokens") or []
    for name, value in (("bad_words_ids", rows), ("suppress_tokens", tokens)):
        if not isinstance(value, list):
            raise ValueError(f"{where}: `{name}` must be a list. Received: {value!r}.")
    ids = [*tokens]
    for row in rows:
        if not isinstance(row, list) or len(row) != 1:
            raise ValueError(
                f"{where}: `bad_words_ids` must have single tokens, lists of one id. Received: "
                f"{str(row)[:80]}. Sequences of tokens cannot be suppressed here."
            )
        ids += row
    wrong = [i for i in ids if type(i) is not int or i < 0]
    if wrong:
        raise ValueError(f"{where}: suppressed tokens must be ids. Received: {wrong[0]!r}.")
    return tuple(dict.fromkeys(ids))

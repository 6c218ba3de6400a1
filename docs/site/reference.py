"""Pages of the reference: every public name of the package, grouped by room."""

import importlib
import inspect
import types
from collections.abc import Iterable
from pathlib import Path

import keras_attn
from keras_attn.settings import RunDefault, Settings
from keras_attn.tasks import Task

USED = (
    "create train from_pretrained from_backbone from_vectors load read split fit compile dataset "
    "prepare predict translate translate_n_best caption caption_n_best ask answer generate "
    "generate_n_best stream streamed embed nearest analogy predict_probabilities predict_logits "
    "evaluate score perplexity log_probability explain align view page word_page calibrate decide "
    "save export expected quantize load_backbone save_pretrained save_vectors fill_cache "
    "feature_cache initialize_token_weights summary answers class_names labels languages "
    "temperature thresholds tokenizer source_tokenizer target_tokenizer max_length"
).split()
"""The members of tasks that users call; the others are insides, for authors of tasks."""
LIBRARY = {
    name: importlib.import_module(f"keras_attn.{name}")
    for name in keras_attn.__all__
    if isinstance(getattr(keras_attn, name), types.ModuleType)
}
"""The public rooms."""


def write_reference(folder: Path) -> list[str]:
    """Writes the pages, and returns their names within the folder."""
    pages = {"index.md": overview()}
    for name, room in LIBRARY.items():
        if name == "tasks":
            continue
        pages[f"{name}.md"] = page(name, room.__doc__, names_of(room), room)
    tasks = LIBRARY["tasks"]
    files = {path.stem for path in Path(inspect.getfile(tasks)).parent.glob("[a-z]*.py")}
    grouped: dict[str, list[str]] = {}
    for name in names_of(tasks):
        parts = getattr(getattr(tasks, name), "__module__", "").split(".")
        grouped.setdefault(parts[2] if parts[2] in files else "shared", []).append(name)
    for stem, names in grouped.items():
        title = stem.replace("_", " ")
        intro = "What several tasks share." if stem == "shared" else f"The task {title}."
        pages[f"tasks/{stem}.md"] = page(title, intro, names, tasks)
    for name, text in pages.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return list(pages)


def names_of(room: types.ModuleType) -> list[str]:
    """Returns the public names of a room: classes, functions, then constants."""

    def order(name: str) -> tuple[int, str]:
        value = getattr(room, name)
        return 0 if inspect.isclass(value) else 1 if callable(value) else 2, name.lower()

    return sorted(room.__all__, key=order)


def overview() -> str:
    """Returns the page that lists the rooms."""
    rows = "".join(
        f"| [`keras_attn.{name}`]({name if name != 'tasks' else 'tasks/shared'}.md) "
        f"| {(room.__doc__ or '').strip().splitlines()[0]} |\n"
        for name, room in LIBRARY.items()
    )
    return (
        "# Reference\n\nEach layer is `keras_attn.X` as well as `keras_attn.layers.X`. "
        "`keras_attn.from_keras` is [`keras_attn.interop.from_keras`](interop.md), and "
        f"`keras_attn.__version__` is the version. Each task has a page of its own.\n\n"
        f"| room | what it contains |\n|---|---|\n{rows}"
    )


def page(title: str, intro: str | None, names: Iterable[str], room: types.ModuleType) -> str:
    """Returns a page with the docstrings of some names of a room."""
    entries = [entry(f"{room.__name__}.{name}", getattr(room, name)) for name in names]
    return f"# {title[0].upper()}{title[1:]}\n\n{(intro or '').strip()}\n\n" + "\n".join(entries)


def entry(path: str, value: object) -> str:
    """Returns what mkdocstrings replaces with a docstring, and the table of settings."""
    if inspect.isclass(value) and issubclass(value, Settings):
        # The table shows the fields better than the signature does.
        return with_members(path, value, ["build"], "show_signature: false") + settings_table(value)
    if inspect.isclass(value) and issubclass(value, Task):
        return with_members(path, value, USED)
    return f"::: {path}\n"


def with_members(path: str, value: type, names: Iterable[str], *options: str) -> str:
    """Returns the entry of a class that shows these of its members, its own and inherited ones."""
    members = [name for name in names if hasattr(value, name)]
    options = f"members: {members}", f"inherited_members: {members or 'false'}", *options
    return f"::: {path}\n    options:\n" + "".join(f"      {x}\n" for x in options) + "\n"


def settings_table(kind: type[Settings]) -> str:
    """Returns the settings with their defaults and help texts."""
    declared = kind.declared()
    if not declared:
        return ""
    rows = "".join(
        f"| `{option.name}` | {default(option.default)} | {sentence(option.help)} |\n"
        for option in declared
    )
    return f"| setting | default | meaning |\n|---|---|---|\n{rows}"


def default(value: object) -> str:
    """Returns a default as Python writes it; one that depends on the run, in words."""
    return sentence(str(value)) if isinstance(value, RunDefault) else f"`{value!r}`"


def sentence(help: str) -> str:
    """Returns a help text that may stand in a table."""
    return help.replace("|", "&#124;").replace("<", "&lt;")

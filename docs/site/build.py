"""Builds the documentation as a site that works offline, in `build/site`.

    python docs/site/build.py

The pages of `docs/`, the README, other pages at the top and the notebooks of the lectures are
staged in `build/site_pages`, with their links among each other. Links to other files of the
repository become plain text. A page that is missing, or is not in the navigation of
`zensical.toml`, ends the build, as a broken link does.
"""

import importlib.util
import os
import re
import shutil
import sys
import tomllib
from pathlib import Path

from notebooks import notebook_page
from reference import write_reference

ROOT = Path(__file__).resolve().parents[2]
STAGED = ROOT / "build/site_pages"
TOP = {
    "README.md": "index.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "keras_attn/trained/home-assistant-en-de.md": "trained/home-assistant-en-de.md",
}
"""Pages outside `docs/`, and their names in the site."""


def places() -> dict[Path, str]:
    """Returns the files of the site that are not made here, with their names in it."""
    docs = [path for path in ROOT.glob("docs/**/*") if path.suffix in (".md", ".png", ".csv")]
    return {
        **{ROOT / path: name for path, name in TOP.items()},
        **{path: path.relative_to(ROOT / "docs").as_posix() for path in docs},
        **{path: f"lectures/{path.stem}.md" for path in ROOT.glob("examples/lectures/*.ipynb")},
        ROOT / "docs/site/iframe-worker.js": "iframe-worker.js",
        ROOT / "docs/site/tables.css": "tables.css",
    }


def staged(path: Path, names: dict[Path, str], text: str) -> str:
    """Returns the text of a page, whose links lead to pages of the site."""

    def link(match: re.Match[str]) -> str:
        mark, text, target, anchor = match.groups()
        file = (path.parent / target).resolve()
        if not target or ":" in target or (STAGED / names[path]).parent.joinpath(target).exists():
            return match[0]  # elsewhere, on this page, or a picture of a notebook
        if file in names:
            there = os.path.relpath(names[file], os.path.dirname(names[path]))
            return f"{mark}[{text}]({there}{anchor or ''})"
        if not file.exists():
            raise SystemExit(f"{path.relative_to(ROOT)} links to {target}, which does not exist.")
        return text

    parts = re.split(r"(^```.*?^```$)", text, flags=re.M | re.S)
    pattern = r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)#\s]*)(#[^)\s]*)?\)"
    parts[::2] = (re.sub(pattern, link, part) for part in parts[::2])
    return "".join(parts)


def navigated(entries: list) -> list[str]:
    """Returns the pages of the navigation."""
    found = []
    for entry in entries:
        value = entry if isinstance(entry, str) else next(iter(entry.values()))
        found += navigated(value) if isinstance(value, list) else [value]
    return found


def main() -> None:
    """Stages the pages and builds the site."""
    if importlib.util.find_spec("zensical") is None:
        raise SystemExit(
            "Expected zensical, which builds the site. Received: an environment without it. "
            'Install it: pip install -e ".[site]"'
        )
    shutil.rmtree(STAGED, ignore_errors=True)
    names = places()
    for path, name in names.items():
        (STAGED / name).parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".ipynb":
            text = notebook_page(path, (STAGED / name).with_suffix(""))
            (STAGED / name).write_text(staged(path, names, text), encoding="utf-8")
        elif path.suffix == ".md":
            text = path.read_text(encoding="utf-8")
            (STAGED / name).write_text(staged(path, names, text), encoding="utf-8")
        else:
            shutil.copyfile(path, STAGED / name)
    pages = [name for name in names.values() if name.endswith(".md")]
    pages += [f"reference/{name}" for name in write_reference(STAGED / "reference")]
    project = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]
    if wrong := set(navigated(project["nav"])) ^ set(pages):
        raise SystemExit(f"Not both a page and in the navigation of zensical.toml: {sorted(wrong)}")
    zensical = str(Path(sys.executable).with_name("zensical"))
    os.chdir(ROOT)
    os.execv(zensical, [zensical, "build", "--clean", "--strict"])


if __name__ == "__main__":
    main()

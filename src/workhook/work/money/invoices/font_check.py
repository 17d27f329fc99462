"""Say which characters no font of this machine has, in a limited process (`core.limited_main`).

The job has `characters`, such as "東京". The answer is a JSON list of those without a font.
"""

from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path
from types import ModuleType
from typing import Any

# Each is a text of its own, so that Typst names each: in an archival PDF nothing may be a box.
_DOCUMENT = """#set page(width: 200mm, height: auto)
#set text(font: "Libertinus Serif")
#for each in json("characters.json") [#text(each)

]
"""


def missing(characters: str, folder: Path) -> list[str]:
    """`folder` is empty and the caller's to remove."""
    import typst

    (folder / "main.typ").write_text(_DOCUMENT, "utf-8")
    (folder / "characters.json").write_text(json.dumps(list(characters)), "utf-8")
    try:
        typst.compile(folder / "main.typ", root=folder, format="pdf", pdf_standards="a-2b")
    except typst.TypstError as error:
        said = _load_render().texts_not_shown(error.diagnostic)
        return [each for each in characters if each in said]
    return []


def answer(job: dict[str, Any], folder: Path) -> bytes:
    """What `limited_main` writes."""
    os.environ["RAYON_NUM_THREADS"] = "1"
    return json.dumps(missing(job["characters"], folder)).encode()


def _load_render() -> ModuleType:
    """`render.py`, which is not a module here: nothing of Workhook is on the path."""
    spec = importlib.util.spec_from_file_location("render", Path(__file__).with_name("render.py"))
    assert spec is not None
    assert spec.loader is not None
    render = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(render)
    return render

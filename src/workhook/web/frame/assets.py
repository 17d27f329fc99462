"""Style sheets, scripts and icons. Their URLs change with their content.

`static/css` and `static/js` are written by hand. `hatch_build.py` fills `static/vendor` from npm, and `static/pictures`
with the pictures of the guide. Modules import one another by name; the page's import map resolves names to URLs with a
hash.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from workhook.core.errors import NotFound
from workhook.http.calls import Call, Response
from workhook.http.endpoints import Routes
from workhook.http.negotiation import ENCODINGS, chosen_encoding, compressed
from workhook.http.operations import PAGES

_TYPES = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
    "webp": "image/webp",
}
_FOLDERS = ("", "css", "js", "vendor", "pictures")
_VENDOR_MODULES = {
    "turbo": "turbo.js", "stimulus": "stimulus.js", "sortable": "sortable.js", "pdf-reader": "pdf-reader.js",
}  # fmt: skip
_LARGE_BYTES = 512 * 1024
_FOR_EVER = "public, max-age=31536000, immutable"

routes = Routes(PAGES, "pages")


class AssetsMissing(RuntimeError):
    """The package was installed without the files that `hatch_build.py` builds."""


@routes.get("/static/{name}", counts=False)
async def page_static(call: Call, name: str) -> Response:
    """Send a file of `web/static`. Its URL changes with its content, so browsers may cache it forever."""
    if name not in _found():
        raise NotFound()
    # Without the current hash, as in a page of another version, the content can change.
    cached = _FOR_EVER if call.query_text("v") == _content(name)[1] else "no-cache"
    kind = name.rpartition(".")[2]
    if kind == "webp":  # already compressed
        return Response(_content(name)[0], 200, {"Cache-Control": cached}, _TYPES[kind])
    accepted = chosen_encoding(call.header("accept-encoding"), ENCODINGS)
    is_large = len(_content(name)[0]) > _LARGE_BYTES  # the first compression takes 0.1 s or more
    body, headers = await asyncio.to_thread(_compressed, name, accepted) if is_large else _compressed(name, accepted)
    return Response(body, 200, {**headers, "Cache-Control": cached}, _TYPES[kind])


def address(name: str) -> str:
    """Return the path of a file, with its hash."""
    return f"/static/{name}?v={_content(name)[1]}"


@cache
def import_map() -> str:
    """Return JSON for `<script type="importmap">`: libraries by name, and the scripts of `js/` as `workhook/NAME`."""
    own = {f"workhook/{name.removesuffix('.js')}": name for name in script_names()}
    modules = {name: address(file) for name, file in {**_VENDOR_MODULES, **own}.items()}
    return json.dumps({"imports": modules}, separators=(",", ":"))


@cache
def import_map_source() -> str:
    """Return the CSP source that allows the import map, the only inline script."""
    digest = hashlib.sha256(import_map().encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


@cache
def script_names() -> tuple[str, ...]:
    return tuple(sorted(each.name for each in _folder("js").iterdir() if each.name.endswith(".js")))


@cache
def _found() -> dict[str, Traversable]:
    found = {}
    for name in _FOLDERS:
        folder = _folder(name)
        if name in ("vendor", "pictures") and not folder.is_dir():
            raise AssetsMissing(f"static/{name} is missing: install the package again (`make install`)")
        for each in folder.iterdir():
            if each.is_file() and each.name.rpartition(".")[2] in _TYPES:
                assert each.name not in found, f"two files are called {each.name}"
                found[each.name] = each
    return found


def _folder(name: str) -> Traversable:
    root = files("workhook.web").joinpath("static")
    return root.joinpath(name) if name else root


@cache
def _content(name: str) -> tuple[bytes, str]:
    content = _found()[name].read_bytes()
    return content, hashlib.sha256(content).hexdigest()[:12]


@cache
def _compressed(name: str, accepted: str | None) -> tuple[bytes, dict[str, str]]:
    return compressed(_content(name)[0], accepted, once=True)

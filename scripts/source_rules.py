"""The rules of docs/contributors/architecture.md, as functions over parsed source. Each yields the violations."""

from __future__ import annotations

import ast
import gc
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

MAX_FILE_LINES = 800
MIN_FILE_LINES = 40
MAX_FUNCTION_LINES = 60

PACKAGE = "workhook"
PRINTING_AREAS = frozenset({"cli", "git_push"})  # these print as their purpose; all others log
RETRYING_AREAS = frozenset({"http", "events", "identity", "work", "hooks", "web"})
ONCE = frozenset({"workhook.http.system", "workhook.identity.rate"})  # probes; the rate limit, with a fallback
LOG_METHODS = frozenset({"debug", "info", "warning", "error", "exception", "critical", "log"})
LOGGER_NAME = re.compile(r"(^|_)log(ger)?$|^(get_)?logger$", re.IGNORECASE)

API_MODULE = re.compile(r"(^|_)api$")
SQL_MODULES = frozenset({"sqlalchemy", "workhook.storage.metadata", "workhook.storage.record_rows"})
SQL_CALLS = frozenset({"execute", "execute_many", "fetch_all", "fetch_one", "fetch_slow"})
# The download of a person's own data consists of the API's responses.
PAGES_OF_THE_API = frozenset({"workhook.web.account.own_data"})

HANDED_ON = re.compile(r"#.*\bhanded to \w+")

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Level(NamedTuple):
    """Areas of equal rank. If `siblings`, they may not import one another."""

    areas: tuple[str, ...]
    siblings: bool = False


@dataclass(frozen=True)
class Source:
    """A parsed file of the package. `module` is its dotted name, such as `workhook.core.ids`."""

    path: Path
    module: str
    is_package: bool
    tree: ast.Module
    lines: tuple[str, ...]

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """Return all nodes of the tree. Cached because walking the tree takes longer than most rules."""
        return tuple(ast.walk(self.tree))

    @property
    def area(self) -> str:
        """Return the first name below the package, which is empty for the package's own `__init__`."""
        return area_of(self.module)


def load(root: Path) -> list[Source]:
    """Parse every Python file below `root`, the folder that contains the package. Raises `SyntaxError`."""
    looked = gc.isenabled()
    gc.disable()  # nothing here is garbage, and collections would make this five times as slow
    try:
        return [_read(root, path) for path in sorted(root.rglob("*.py"))]
    finally:
        if looked:
            gc.enable()


def _read(root: Path, path: Path) -> Source:
    parts = path.relative_to(root).with_suffix("").parts
    is_package = parts[-1] == "__init__"
    module = ".".join(parts[:-1] if is_package else parts)
    text = path.read_text(encoding="utf-8")
    return Source(path, module, is_package, ast.parse(text, str(path)), tuple(text.splitlines()))


def area_of(module: str) -> str:
    return [*module.split("."), ""][1]


# --- imports -----------------------------------------------------------------------------------------------------


def parse_order(text: str, first: str = "core") -> tuple[Level, ...]:
    """Parse the import order in a document: the only code span that starts with `first <`. Raises `ValueError`."""
    spans = re.findall(rf"`({first}\s*<[^`]+)`", text)
    if len(spans) != 1:
        raise ValueError(f"expected one import order, found {len(spans)}")
    levels = []
    for part in spans[0].split("<"):
        siblings = "|" in part
        names = part.strip().removeprefix("{").removesuffix("}")
        areas = tuple(name.strip() for name in re.split(r"[|,]", names))
        if not all(re.fullmatch(r"[a-z_]+", name) for name in areas):
            raise ValueError(f"cannot read {part.strip()!r} in the import order")
        levels.append(Level(areas, siblings))
    return tuple(levels)


def imported_modules(source: Source) -> Iterator[tuple[int, str]]:
    """Yield the line and dotted name of every import from the package, including lazy, type-only and dynamic imports.

    `from workhook.core import ids` yields `workhook.core.ids`, whether `ids` is a module or a name in one. Areas do not
    depend on the difference.
    """
    for node in source.nodes:
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(source, node)
            names = [f"{base}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Call) and _last_name(node.func) in {"import_module", "__import__"}:
            names = [arg.value for arg in node.args[:1] if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
        for name in names:
            if name.split(".")[0] == PACKAGE:
                yield getattr(node, "lineno", 0), name


def _absolute(source: Source, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    parts = source.module.split(".")
    drop = node.level - 1 if source.is_package else node.level
    return ".".join(parts[: len(parts) - drop] + ([node.module] if node.module else []))


def import_violations(source: Source, order: tuple[Level, ...]) -> Iterator[str]:
    """Yield imports from a later area, from a sibling, or from or into an area missing from the order."""
    ranks = {area: rank for rank, level in enumerate(order) for area in level.areas}
    here = "cli" if source.area == "__main__" else source.area  # `python -m workhook` is the command line
    if here and here not in ranks:
        yield f"{source.path}:1: the area {here!r} is not in the import order"
        return
    for line, name in imported_modules(source):
        there = area_of(name)
        if there == here or there.startswith("__"):  # every area may import `__version__` from the package
            continue
        where = f"{source.path}:{line}: {here or PACKAGE} imports {name}"
        if there not in ranks:
            yield f"{where}, whose area is not in the import order"
        elif not here or ranks[there] > ranks[here]:
            yield f"{where}, which is to the right"
        elif ranks[there] == ranks[here] and order[ranks[here]].siblings:
            yield f"{where}, its sibling"


def layer_violations(source: Source, area: str, order: tuple[Level, ...]) -> Iterator[str]:
    """Yield imports from a layer of an area into a later one, a sibling, or one missing from the order.

    A module directly in the area may import every layer, but not the other way round.
    """
    ranks = {layer: rank for rank, level in enumerate(order) for layer in level.areas}
    top = f"{PACKAGE}.{area}."
    if not source.module.startswith(top):
        return
    here = source.module.removeprefix(top).split(".")[0]
    if here not in ranks:
        if source.is_package or "." in source.module.removeprefix(top):
            yield f"{source.path}:1: the layer {here!r} is not in the order of {area}"
        return
    for line, name in imported_modules(source):
        there = name.removeprefix(top).split(".")[0]
        if not name.startswith(top) or there == here:
            continue
        where = f"{source.path}:{line}: {here} imports {name}"
        if there not in ranks or ranks[there] > ranks[here]:
            yield f"{where}, which is to the right"
        elif ranks[there] == ranks[here] and order[ranks[here]].siblings:
            yield f"{where}, its sibling"


# --- responsibilities of modules --------------------------------------------------------------------------------------


def page_violations(source: Source) -> Iterator[str]:
    """Yield imports of route modules into pages."""
    if source.area != "web" or source.module in PAGES_OF_THE_API:
        return
    for line, name in imported_modules(source):
        if any(API_MODULE.search(part) for part in name.split(".")):
            yield f"{source.path}:{line}: a page imports {name}; move what both use to actions or queries"


def sql_violations(source: Source) -> Iterator[str]:
    """Yield SQL in `api` modules, and calls that execute it."""
    if not API_MODULE.search(source.module.split(".")[-1]):
        return
    for node in source.nodes:
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [_absolute(source, node)]
        is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in SQL_CALLS
        if is_call or SQL_MODULES.intersection(names):
            yield f"{source.path}:{getattr(node, 'lineno', 0)}: SQL in an api module; move it to queries or actions"


# --- sizes -------------------------------------------------------------------------------------------------------


def file_size_violations(path: Path) -> Iterator[str]:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    if lines > MAX_FILE_LINES:
        yield f"{path}:1: {lines} lines, over {MAX_FILE_LINES}"


def short_module_violations(source: Source) -> Iterator[str]:
    """Yield modules that are too short. Package `__init__` and `__main__` modules and migrations are exempt."""
    is_face = source.is_package or source.path.name == "__main__.py"
    lines = len(source.lines)
    if lines < MIN_FILE_LINES and not is_face and ".migrations." not in source.module:
        yield f"{source.path}:1: {lines} lines, under {MIN_FILE_LINES}; put it into the module of its subject"


def function_size_violations(path: Path, nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, Function):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > MAX_FUNCTION_LINES:
                yield f"{path}:{node.lineno}: {node.name} has {lines} lines, over {MAX_FUNCTION_LINES}"


# --- coding rules -----------------------------------------------------------------------------------------------------


def sleep_violations(source: Source) -> Iterator[str]:
    """Yield `time.sleep` under any name, and `select` without files, which block the event loop or hide a race."""
    names = {
        alias.asname or alias.name
        for node in source.nodes
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.name == "time"
    }
    for node in source.nodes:
        if isinstance(node, ast.ImportFrom) and node.module == "time" and not node.level:
            found = any(alias.name == "sleep" for alias in node.names)
        else:
            found = (
                isinstance(node, ast.Attribute)
                and node.attr == "sleep"
                and isinstance(node.value, ast.Name)
                and node.value.id in names
            )
        if found or _waits_for_nothing(node):
            yield f"{source.path}:{getattr(node, 'lineno', 0)}: time.sleep"


def _waits_for_nothing(node: ast.AST) -> bool:
    """Return whether the node calls `select` with three empty sequences, which merely sleeps."""
    if not isinstance(node, ast.Call) or len(node.args) < 3:
        return False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    return name == "select" and all(isinstance(each, ast.List | ast.Tuple) and not each.elts for each in node.args[:3])


def print_violations(source: Source) -> Iterator[str]:
    if source.area in PRINTING_AREAS:
        return
    for node in source.nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
            yield f"{source.path}:{node.lineno}: print; log it instead"


def transaction_violations(source: Source) -> Iterator[str]:
    """Yield transactions that are not retried after a deadlock. `in_transaction` and `idempotency.write` retry them.

    Deliveries and commands are exempt, because an unrecorded delivery becomes due again, and a person repeats a
    command.
    """
    if source.area not in RETRYING_AREAS or source.module in ONCE:
        return
    for node in source.nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "transaction":
            yield f"{source.path}:{node.lineno}: transaction(); write with in_transaction()"


def swallow_violations(source: Source) -> Iterator[str]:
    """Yield catch-all handlers that neither raise nor log the error, and catch-all uses of `suppress`.

    A handler may instead hand the error to its consumer: to a future with `set_exception`, or as a value, if a comment
    on the line of the `except` says so (`# … handed to …`).
    """
    for node in source.nodes:
        if isinstance(node, ast.ExceptHandler) and _catches_everything(node.type):
            said = node.name is not None and HANDED_ON.search(source.lines[node.lineno - 1])
            if not said and not any(_accounts_for_error(inner) for inner in _own_nodes(node.body)):
                yield f"{source.path}:{node.lineno}: every error is caught here and none is raised, logged or handed on"
        elif (
            isinstance(node, ast.Call)
            and _last_name(node.func) == "suppress"
            and any(_catches_everything(argument) for argument in node.args)
        ):
            yield f"{source.path}:{node.lineno}: every error is suppressed here"


def _catches_everything(caught: ast.expr | None) -> bool:
    if caught is None:
        return True
    kinds = caught.elts if isinstance(caught, ast.Tuple) else [caught]
    return any(
        _last_name(kind) in {"Exception", "BaseException", "ExceptionGroup", "BaseExceptionGroup"} for kind in kinds
    )


def _own_nodes(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """Yield the nodes that run as part of `body`, but not the bodies of functions and classes defined in it."""
    waiting: list[ast.AST] = list(body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, Function | ast.Lambda | ast.ClassDef):
            continue
        yield node
        waiting.extend(ast.iter_child_nodes(node))


def _accounts_for_error(node: ast.AST) -> bool:
    if isinstance(node, ast.Raise):
        return True
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return False
    if node.func.attr == "set_exception":  # the error is raised to the awaiter of the future
        return True
    return node.func.attr in LOG_METHODS and bool(LOGGER_NAME.search(_last_name(node.func.value)))


def _last_name(node: ast.expr) -> str:
    """Return `b` for `a.b`, for `b`, and for a call of either, and an empty string for anything else."""
    if isinstance(node, ast.Call):
        return _last_name(node.func)
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""

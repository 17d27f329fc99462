"""`python -m scripts.import_cycles`: groups of modules that import each other, lazily or not. Exits 1 if there are any.

Imports under `if TYPE_CHECKING` count: a cycle of types is a cycle for the reader.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from scripts.source_rules import Source, imported_modules, load


def import_graph(sources: Sequence[Source]) -> dict[str, set[str]]:
    """Each module with the modules it imports. A package stands for its `__init__` alone."""
    modules = {source.module for source in sources}
    graph: dict[str, set[str]] = {}
    for source in sources:
        found = {name if name in modules else name.rpartition(".")[0] for _, name in imported_modules(source)}
        graph[source.module] = (found & modules) - {source.module}
    return graph


def cycles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """One cycle after the other, each as the modules on its way; the last import of a cycle is left out to go on."""
    left = {module: set(imported) for module, imported in graph.items()}
    found = []
    while True:
        try:
            TopologicalSorter(left).prepare()
        except CycleError as error:
            way: list[str] = list(reversed(error.args[1]))
            found.append(way)
            left[way[0]].discard(way[1])
        else:
            return found


if __name__ == "__main__":
    there = cycles(import_graph(load(Path("src"))))
    for each in there:
        print(" -> ".join(each))
    sys.exit(bool(there))

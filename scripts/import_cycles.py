"""Find import cycles between modules, including lazy imports: `python -m scripts.import_cycles`.

Exits with status 1 if there are any.

Imports under `if TYPE_CHECKING` count, because a cycle of types is just as hard to read.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from scripts.source_rules import Source, imported_modules, load


def import_graph(sources: Sequence[Source]) -> dict[str, set[str]]:
    """Return the imports of each module. A package is represented by its `__init__` only."""
    modules = {source.module for source in sources}
    graph: dict[str, set[str]] = {}
    for source in sources:
        found = {name if name in modules else name.rpartition(".")[0] for _, name in imported_modules(source)}
        graph[source.module] = (found & modules) - {source.module}
    return graph


def cycles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Return all cycles, each as a list of modules.

    To find the next cycle, the last import of the previous one is removed.
    """
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

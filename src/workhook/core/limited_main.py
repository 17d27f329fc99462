"""Run one function of a script with limits on CPU time and memory. Runs as a script and imports nothing of Workhook.

`python -I limited_main.py SCRIPT` reads a job (JSON) from standard input, calls `answer(job, folder)` of the script and
writes the returned bytes to standard output. Libraries print to standard error, which is never parsed. Besides the
script's own keys, the job has `path` (the server's library path), `cpu_s` and `memory_bytes`.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path
from types import ModuleType


def load(script: Path) -> ModuleType:
    """Load a script as a module, without importing its package."""
    spec = importlib.util.spec_from_file_location(script.stem, script)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[script.stem] = module
    spec.loader.exec_module(module)
    return module


def _limit(cpu_s: int, memory_bytes: int) -> None:
    try:
        import resource
    except ImportError:  # not on Windows; the parent's timeout still applies
        return
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + 1))  # the soft limit sends SIGXCPU, which names the cause
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def main(script: Path) -> None:
    os.closerange(3, 65536)  # uvloop passes on descriptors that the server has marked as inheritable
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output of libraries is not part of the result
    job = json.load(sys.stdin.buffer)
    _limit(job["cpu_s"], job["memory_bytes"])
    sys.path[:] = job["path"]  # isolated mode ignores PYTHONPATH
    output.write(load(script).answer(job, Path.cwd()))
    output.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))

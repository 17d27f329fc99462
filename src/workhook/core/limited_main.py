"""Run one function of a script within limits of CPU time and memory. Started as a script; imports nothing of Workhook.

`python -I limited_main.py SCRIPT` reads a job (JSON) from standard input, calls `answer(job, folder)` of the script and
writes the bytes that it returns to standard output. Whatever libraries print goes to standard error, which is never
parsed.

The job has `path` (where the server found its libraries), `cpu_s` and `memory_bytes` beside what the script reads.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path
from types import ModuleType


def load(script: Path) -> ModuleType:
    """A script as a module, without the package that it is in."""
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
    except ImportError:  # Windows has none of these limits; the parent's time limit remains
        return
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + 1))  # the first is SIGXCPU, which says why
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def main(script: Path) -> None:
    os.closerange(3, 65536)  # uvloop hands down what the server has marked as inheritable
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is not part of the answer
    job = json.load(sys.stdin.buffer)
    _limit(job["cpu_s"], job["memory_bytes"])
    sys.path[:] = job["path"]  # the environment does not say it
    output.write(load(script).answer(job, Path.cwd()))
    output.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""The rules of docs/contributors/architecture.md hold in the code, and the checks that say so can fail."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scripts import check_repository, import_cycles, source_rules
from scripts.source_rules import Level, Source
from workhook.work import answers
from workhook.work.kernel import questions

ROOT = Path(__file__).resolve().parents[2]

ORDER = (
    Level(("core",)),
    Level(("storage",)),
    Level(("http",)),
    Level(("events",)),
    Level(("identity",)),
    Level(("work", "hooks"), siblings=True),
    Level(("delivery",)),
    Level(("web", "git_push"), siblings=True),
    Level(("cli", "bootstrap", "asgi", "chores", "process", "supervisor")),
)

WORK_ORDER = (
    Level(("kernel",)),
    Level(("people",)),
    Level(("board",)),
    Level(("files",)),
    Level(("discussion",)),
    Level(("time",)),
    Level(("money",)),
    Level(("history",)),
    Level(("portability",)),
    Level(("administration",)),
)

Rule = Callable[[Source], Iterator[str]]


def follows_order(source: Source) -> Iterator[str]:
    yield from source_rules.import_violations(source, ORDER)


def follows_order_of_layers(source: Source) -> Iterator[str]:
    yield from source_rules.layer_violations(source, "work", WORK_ORDER)


def has_small_functions(source: Source) -> Iterator[str]:
    yield from source_rules.function_size_violations(source.path, source.nodes)


def is_short(source: Source) -> Iterator[str]:
    yield from source_rules.file_size_violations(source.path)


RULES: tuple[Rule, ...] = (
    follows_order,
    follows_order_of_layers,
    is_short,
    source_rules.short_module_violations,
    source_rules.page_violations,
    source_rules.sql_violations,
    has_small_functions,
    source_rules.sleep_violations,
    source_rules.print_violations,
    source_rules.swallow_violations,
    source_rules.transaction_violations,
)


@pytest.fixture(scope="module")
def sources() -> list[Source]:
    found = source_rules.load(ROOT / "src")
    assert len(found) > len(ORDER)  # a wrong folder would follow every rule
    return found


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_code_follows_every_rule(rule: Rule, sources: list[Source]) -> None:
    broken = [line for source in sources for line in rule(source)]
    assert not broken, "\n" + "\n".join(broken)


def test_the_document_states_the_enforced_order() -> None:
    text = (ROOT / "docs/contributors/architecture.md").read_text(encoding="utf-8")
    assert source_rules.parse_order(text) == ORDER
    assert source_rules.parse_order(text, "kernel") == WORK_ORDER


def test_every_question_of_a_package_has_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "_registering", [])
    asked = [each for each in vars(questions).values() if isinstance(each, questions.Question)]
    for each in asked:
        each._answer = None
    with pytest.raises(RuntimeError, match="no answer"):
        asked[0]()
    answers.register()
    assert [each._name for each in asked if each._answer is None] == []


@pytest.mark.parametrize("text", ["no order", "`core < storage` and `core < http`", "`core < {a | }`"])
def test_a_document_must_state_exactly_one_order(text: str) -> None:
    with pytest.raises(ValueError, match="order"):
        source_rules.parse_order(text)


# --- the checks can fail -----------------------------------------------------------------------------------------


@pytest.fixture
def make_source(tmp_path: Path) -> Callable[[str, str], Source]:
    def make(name: str, text: str) -> Source:
        path = tmp_path / "workhook" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        [source] = source_rules.load(tmp_path)
        return source

    return make


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("core/ids.py", "import workhook.storage"),
        ("core/ids.py", "import os, workhook.storage.tables as tables"),
        ("core/ids.py", "from workhook.storage import Database"),
        ("core/ids.py", "from workhook import storage"),
        ("core/ids.py", "from ..storage import Database"),
        ("core/__init__.py", "from .. import storage"),
        ("work/board/tasks/api.py", "from ....delivery.lanes import Lane"),
        ("core/ids.py", "def later():\n    from workhook.http import problems"),
        ("core/ids.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from workhook.http import problems"),
        ("core/ids.py", "import importlib\nimportlib.import_module('workhook.cli')"),
        ("work/api.py", "from workhook.hooks import queries"),
        ("hooks/api.py", "from workhook.work import queries"),
        ("delivery/lanes.py", "from workhook import cli"),
        ("web/pages.py", "from workhook.bootstrap import build"),
        ("__init__.py", "from workhook.core import ids"),
        ("helpers/text.py", ""),
        ("core/ids.py", "from workhook.helpers import text"),
    ],
)
def test_an_import_against_the_order_is_found(name: str, text: str, make_source: Callable[[str, str], Source]) -> None:
    assert len(list(follows_order(make_source(name, text)))) == 1


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("work/board/tasks/api.py", "from workhook.work.money.invoices import issued"),
        ("work/board/tasks/api.py", "from workhook.work import answers"),
        ("work/kernel/access.py", "def later():\n    from ..people.clients import api"),
        ("work/garage/cars.py", ""),
    ],
)
def test_an_import_against_the_order_of_packages_is_found(
    name: str, text: str, make_source: Callable[[str, str], Source]
) -> None:
    assert len(list(follows_order_of_layers(make_source(name, text)))) == 1


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("work/answers.py", "from workhook.work.money.invoices import issued"),
        ("work/money/invoices/api.py", "from ...board.tasks import queries\nfrom workhook.identity import tables"),
        ("web/board/pages.py", "from workhook.work.money.invoices import issued"),
    ],
)
def test_an_import_along_the_order_of_packages_is_allowed(
    name: str, text: str, make_source: Callable[[str, str], Source]
) -> None:
    assert not list(follows_order_of_layers(make_source(name, text)))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("storage/tables.py", "from workhook.core import ids\nfrom . import dialects\nfrom ..core.clock import now_ms"),
        ("work/board/tasks/api.py", "from ..columns import queries\nfrom workhook import __version__"),
        ("delivery/lanes.py", "from workhook.hooks import tables\nfrom workhook.work import tables"),
        ("cli/serve.py", "from workhook import asgi, bootstrap"),
        ("__main__.py", "from workhook.cli import main"),
        ("core/json.py", "import workhooks, json\nfrom . import ids"),
    ],
)
def test_an_import_to_the_left_is_allowed(name: str, text: str, make_source: Callable[[str, str], Source]) -> None:
    assert not list(follows_order(make_source(name, text)))


def test_a_file_or_function_over_its_limit_is_found(make_source: Callable[[str, str], Source]) -> None:
    at_limit = "def f():\n" + "    pass\n" * 59 + "\n" * 740
    assert not [*is_short(source := make_source("core/a.py", at_limit)), *has_small_functions(source)]

    too_long = "class A:\n    async def f(self):\n" + "        pass\n" * 60 + "\n" * 740
    source = make_source("core/a.py", too_long)
    assert [len(list(rule(source))) for rule in (is_short, has_small_functions)] == [1, 1]


@pytest.mark.parametrize(
    "text",
    [
        "import time\ntime.sleep(1)",
        "import time as t\nnap = t.sleep",
        "from time import sleep as nap\nnap(1)",
        "import select\nselect.select((), (), (), 1)",
        "from select import select\nselect([], [], [], 1)",
    ],
)
def test_a_blocking_sleep_is_found(text: str, make_source: Callable[[str, str], Source]) -> None:
    assert len(list(source_rules.sleep_violations(make_source("core/a.py", text)))) == 1


def test_a_waiting_task_is_not_a_blocking_sleep(make_source: Callable[[str, str], Source]) -> None:
    text = "import asyncio, time\ntime.monotonic()\nasync def f():\n    await asyncio.sleep(0)"
    assert not list(source_rules.sleep_violations(make_source("core/a.py", text)))


def test_print_is_found_outside_of_commands(make_source: Callable[[str, str], Source]) -> None:
    assert len(list(source_rules.print_violations(make_source("core/a.py", "print('x')")))) == 1


def test_commands_may_print(make_source: Callable[[str, str], Source]) -> None:
    assert not list(source_rules.print_violations(make_source("cli/a.py", "print('x')")))


def test_a_write_that_is_not_retried_is_found(make_source: Callable[[str, str], Source]) -> None:
    text = "async def f(call):\n    async with call.database.transaction() as tx:\n        pass"
    assert len(list(source_rules.transaction_violations(make_source("work/a.py", text)))) == 1


def test_deliveries_and_commands_need_no_retry(make_source: Callable[[str, str], Source]) -> None:
    text = "async def f(database):\n    async with database.transaction() as tx:\n        pass"
    assert not list(source_rules.transaction_violations(make_source("delivery/a.py", text)))


@pytest.mark.parametrize(
    "handler",
    [
        "except Exception:\n    pass",
        "except BaseException as error:\n    result = error",
        "except:\n    result = None",
        "except (ValueError, Exception):\n    catalog.info()",
        "except Exception:\n    def later():\n        raise",
        "except* Exception:\n    pass",
        "except Exception:\n    dialog('it failed')",
        "except Exception:  # noqa: BLE001  # handed to nobody\n    pass",
    ],
)
def test_a_swallowed_error_is_found(handler: str, make_source: Callable[[str, str], Source]) -> None:
    source = make_source("core/a.py", f"try:\n    f()\n{handler}")
    assert len(list(source_rules.swallow_violations(source))) == 1


def test_a_suppressed_error_is_found(make_source: Callable[[str, str], Source]) -> None:
    text = "import contextlib\nwith contextlib.suppress(Exception):\n    f()"
    assert len(list(source_rules.swallow_violations(make_source("core/a.py", text)))) == 1


@pytest.mark.parametrize(
    "handler",
    [
        "except ValueError:\n    pass",
        "except Exception:\n    raise",
        "except Exception as error:\n    if f:\n        raise KeyError from error",
        "except Exception:\n    log.exception('it failed')",
        "except Exception:\n    self._logger.warning('it failed')",
        "except Exception:\n    structlog.get_logger().error('it failed')",
        "except BaseException as error:\n    future.set_exception(error)",
        "except BaseException as error:  # noqa: BLE001  # handed to whoever waits\n    outcome = error",
    ],
)
def test_an_error_that_is_raised_logged_or_passed_on_is_allowed(
    handler: str, make_source: Callable[[str, str], Source]
) -> None:
    source = make_source("core/a.py", f"try:\n    f()\n{handler}")
    assert not list(source_rules.swallow_violations(source))


# --- the rules of `make check` -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        "https://py" + "pi.org/project/x",
        "see https://files.python" + "hosted.org/packages",
        '"resolved"' + ': "https://mirror.example/x.tgz"',
        "--extra-index" + "-url https://mirror.example",
        "--find" + "-links=/srv/wheels",
        "registry" + "=https://mirror.example",
        "http://mirror.example/root/sim" + "ple/",
    ],
)
def test_a_package_index_in_a_file_is_found(line: str, tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    path.write_text(f"first\n{line}\n", encoding="utf-8")
    assert [found.split(":")[1] for found in check_repository.index_address_violations(path)] == ["2"]


def test_an_ordinary_address_is_not_a_package_index(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    lines = ("https://example.com/a/" + "simpler/way", "uv --no-emit-index" + "-url", "registry of names")
    path.write_text("\n".join(lines), encoding="utf-8")
    assert not list(check_repository.index_address_violations(path))


HASH = "    --hash=sha256:" + "0" * 64


def test_a_lock_file_lists_its_pins(tmp_path: Path) -> None:
    path = tmp_path / "lock.txt"
    path.write_text(f"# made\nSome_Name==1.2 ; sys_platform == 'win32' \\\n{HASH} \\\n{HASH}\n    # via x\n", "utf-8")
    assert check_repository.read_lock(path) == ({"some-name": {"1.2"}}, [])


def test_every_version_that_a_lock_pins_under_a_marker_counts(tmp_path: Path) -> None:
    path = tmp_path / "lock.txt"
    path.write_text(
        f"a==1 ; python_full_version < '3.13' \\\n{HASH}\na==2 ; python_full_version >= '3.13' \\\n{HASH}\n", "utf-8"
    )
    pins, wrong = check_repository.read_lock(path)
    assert (pins, wrong) == ({"a": {"1", "2"}}, [])
    assert list(check_repository.unmet(["a>=1"], pins, path)) == []
    assert list(check_repository.unmet(["a>=2"], pins, path)) == [f"{path}: pins 1, 2 for 'a>=2'; run `make lock`"]


@pytest.mark.parametrize(
    "text",
    ["a==1\n", "a>=1 \\\n" + HASH, f"a==1 \\\n{HASH}\n-e .\n", f"a==1 \\\n{HASH}\n--no-index\n", "a @ file:///a.whl\n"],
)
def test_a_lock_file_without_pins_and_hashes_is_found(text: str, tmp_path: Path) -> None:
    path = tmp_path / "lock.txt"
    path.write_text(text, encoding="utf-8")
    assert check_repository.read_lock(path)[1]


def test_a_lock_file_older_than_the_project_file_is_found(tmp_path: Path) -> None:
    wanted = ["a>=2", "B_c", "d[extra]>=1; sys_platform != 'win32'"]
    found = list(check_repository.unmet(wanted, {"a": {"1.9"}, "d": {"1.0"}}, tmp_path / "lock.txt"))
    assert [line.split("'")[1] for line in found] == ["a>=2", "B_c"]


def test_the_size_limits_apply_to_all_source_files(tmp_path: Path) -> None:
    for name in ("src/a.js", "src/a.svg", "docs/a.js"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x\n" * 801, encoding="utf-8")
    found = list(check_repository.size_violations(tmp_path, sorted(tmp_path.rglob("*.*"))))
    assert [line.split(":")[0] for line in found] == [str(tmp_path / "src/a.js")]


def test_every_script_parses() -> None:
    for path in sorted((ROOT / "scripts").glob("*.py")):
        ast.parse(path.read_text(encoding="utf-8"), str(path))


# --- cycles --------------------------------------------------------------------------------------------------------


def test_there_are_no_import_cycles(sources: list[Source]) -> None:
    graph = import_cycles.import_graph(sources)
    assert import_cycles.cycles(graph) == []


def test_an_import_cycle_is_found_once() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b", "a"}, "d": {"a"}}
    assert sorted(map(len, import_cycles.cycles(graph))) == [3, 4]
    assert import_cycles.cycles({"a": {"b"}, "b": set()}) == []


@pytest.mark.parametrize(
    ("name", "lines", "found"),
    [
        ("core/ids.py", 39, 1),
        ("core/ids.py", 40, 0),
        ("core/__init__.py", 1, 0),
        ("git_push/__main__.py", 1, 0),
        ("storage/migrations/versions/first.py", 1, 0),
    ],
)
def test_a_short_module_is_found(name: str, lines: int, found: int, make_source: Callable[[str, str], Source]) -> None:
    assert len(list(source_rules.short_module_violations(make_source(name, "\n" * lines)))) == found


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("web/home.py", "from workhook.hooks import api", 1),
        ("web/home.py", "from workhook.identity.audit_api import routes", 1),
        ("web/home.py", "from ..work.files.api import routes as files", 1),
        ("web/home.py", "from workhook.work.files import actions\nfrom workhook.web.frame import api_fields", 0),
        ("cli/setup.py", "from workhook.hooks import api", 0),
    ],
)
def test_a_page_that_imports_routes_is_found(
    name: str, text: str, found: int, make_source: Callable[[str, str], Source]
) -> None:
    assert len(list(source_rules.page_violations(make_source(name, text)))) == found


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("hooks/api.py", "import sqlalchemy as sa", 1),
        ("identity/audit_api.py", "from workhook.storage.metadata import big", 1),
        ("hooks/api.py", "async def f(tx):\n    await tx.fetch_all(1)", 1),
        ("hooks/queries.py", "import sqlalchemy as sa", 0),
        ("hooks/api.py", "from workhook.storage import Reader\nfrom workhook.storage.pages import Page", 0),
    ],
)
def test_sql_in_an_api_module_is_found(
    name: str, text: str, found: int, make_source: Callable[[str, str], Source]
) -> None:
    assert len(list(source_rules.sql_violations(make_source(name, text)))) == found


def test_every_target_of_make_has_a_help_text() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    [phony] = re.findall(r"^\.PHONY: (.+)$", text, re.MULTILINE)
    explained = set(re.findall(r"^([a-z-]+):.*## \S", text, re.MULTILINE))
    assert set(phony.split()) - explained == {"git"}

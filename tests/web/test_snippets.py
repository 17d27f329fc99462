"""The code samples for verifying signatures, each run with the signature of a real delivery."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import pytest

from tests.harness.debian import UNPACKED, Program, program
from tests.node_tools import node
from workhook.delivery.sign import Profile, Signer
from workhook.web.hooks.snippets import LANGUAGES, SECRET_PLACE, get_snippets

SECRET = "whsec_c2VjcmV0K29mL21pbmU"
_GO_CHECK = """package main

import (
	"fmt"
	"os"

	"example.com/webhook"
)

func main() {
	body, _ := os.ReadFile(os.Args[1])
	fmt.Println(webhook.IsGenuine(body, os.Args[2]))
}
"""
_JAVA_CHECK = """public class Check {
    public static void main(String[] given) throws Exception {
        byte[] body = java.nio.file.Files.readAllBytes(java.nio.file.Path.of(given[0]));
        boolean isGenuine = Webhook.isGenuine(body, given[1]);
        if (given[1].isEmpty()) isGenuine |= Webhook.isGenuine(body, null); // as frameworks do if it is missing
        System.out.println(isGenuine);
    }
}
"""


class Run(NamedTuple):
    """A command that takes a file name and a signature, with its environment variables."""

    command: Sequence[str]
    environment: Mapping[str, str] = MappingProxyType({})


def _java_tool(name: str) -> str:
    """Skip if Java is missing. It cannot be unpacked from a package because it needs its configuration in /etc."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed: the code that pages show for it is NOT TESTED.")
    return found


def _python(folder: Path, code: str) -> Run:
    driver = "import sys\nprint(is_genuine(open(sys.argv[1], 'rb').read(), sys.argv[2]))\n"
    (folder / "check.py").write_text(f"{code}\n{driver}")
    return Run([sys.executable, "check.py"])


def _javascript(folder: Path, code: str) -> Run:
    driver = "console.log(isGenuine(readFileSync(process.argv[2]), process.argv[3]))\n"
    (folder / "check.mjs").write_text(f'import {{ readFileSync }} from "node:fs"\n{code}\n{driver}')
    return Run([str(node()), "check.mjs"])


def _go(folder: Path, code: str) -> Run:
    go = program("go", "golang-go")
    (folder / "check").mkdir()
    (folder / "go.mod").write_text("module example.com/webhook\n\ngo 1.18\n")
    (folder / "webhook.go").write_text(code)
    (folder / "check" / "main.go").write_text(_GO_CHECK)
    own = {"GOCACHE": str(folder / "cache"), "GOPROXY": "off", "GOTOOLCHAIN": "local"}
    subprocess.run(
        [go.path, "build", "-o", "genuine-go", "./check"],
        cwd=folder,
        check=True,
        timeout=120,
        env={**os.environ, **go.environment, **own},
    )
    return Run(["./genuine-go"])


def _ruby_library(ruby: Program) -> Mapping[str, str]:
    """Return the path of the standard library of an unpacked Ruby, which otherwise searches /usr/lib."""
    if not ruby.environment:
        return {}
    below = UNPACKED / "usr/lib"
    found = [*below.glob("ruby/3.*"), *below.glob("*-linux-gnu/ruby/3.*"), *below.glob("ruby/vendor_ruby")]
    return {"RUBYLIB": ":".join(str(each) for each in found)}


def _ruby(folder: Path, code: str) -> Run:
    ruby = program("ruby", "ruby")
    (folder / "check.rb").write_text(f"{code}\nputs genuine?(File.binread(ARGV[0]), ARGV[1])\n")
    return Run([ruby.path, "check.rb"], {**ruby.environment, **_ruby_library(ruby)})


def _php(folder: Path, code: str) -> Run:
    php = program("php", "php-cli")
    driver = 'echo is_genuine(file_get_contents($argv[1]), $argv[2]) ? "true" : "false";\n'
    (folder / "check.php").write_text(f"{code}\n{driver}")
    return Run([php.path, "check.php"], php.environment)


def _java(folder: Path, code: str) -> Run:
    java, compiler = _java_tool("java"), _java_tool("javac")
    (folder / "Webhook.java").write_text(code)
    (folder / "Check.java").write_text(_JAVA_CHECK)
    subprocess.run([compiler, "Webhook.java", "Check.java"], cwd=folder, check=True, timeout=120)
    return Run([java, "Check"])


RUN: dict[str, Callable[[Path, str], Run]] = {
    "python": _python,
    "javascript": _javascript,
    "go": _go,
    "ruby": _ruby,
    "php": _php,
    "java": _java,
}


@pytest.mark.variants("language")
@pytest.mark.parametrize("language", LANGUAGES)
def test_a_sample_accepts_only_valid_signatures(tmp_path: Path, language: str) -> None:
    [snippet] = [each for each in get_snippets("X-Own") if each.name == language]
    signer = Signer(Profile(hook_id=1, target_id=1, target_type="repository", secret=SECRET.encode()))
    request = signer.prepare('{"text": "Grüße & mehr"}'.encode(), guid="1", event="push", now_ms=0)
    signature = request.headers["X-Hub-Signature-256"]
    run = RUN[language](tmp_path, snippet.code(SECRET))
    (tmp_path / "genuine").write_bytes(request.body)
    (tmp_path / "forged").write_bytes(request.body + b" ")
    wrong = [signature[:-1] + ("0" if signature[-1] != "0" else "1"), signature[:20], "sha256=ü", ""]
    tried = [("genuine", signature, "true"), ("forged", signature, "false")]
    for name, given, expected in [*tried, *(("genuine", each, "false") for each in wrong)]:
        done = subprocess.run(
            [*run.command, name, given],
            cwd=tmp_path,
            env={**os.environ, **run.environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert (done.returncode, done.stdout.strip().lower()) == (0, expected), (name, given, done.stderr)


def test_samples_mark_the_secret_and_use_the_real_headers() -> None:
    for each in get_snippets("X-Own"):
        assert SECRET_PLACE not in each.before + each.after, "it is marked once"
        code = each.code()
        assert code.count(SECRET_PLACE) == 1
        assert "X-Own-Event" in code
        assert "X-Own-Delivery" in code
        assert "@PREFIX@" not in code

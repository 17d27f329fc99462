"""Build a release into a new folder: wheel, source distribution, SBOM (CycloneDX) and `SHA256SUMS`.

python -m scripts.release [FOLDER]    default: dist/VERSION

The version comes from the tag (`hatch_version`). The same commit always produces the same files, because builds take
their timestamps from it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from hatch_version import find_version

ROOT = Path(__file__).parent.parent
LOCK = ROOT / "requirements" / "runtime.txt"
NPM_LOCK = ROOT / "assets" / "package-lock.json"
NPM_SHIPPED = ("@hotwired/stimulus", "@hotwired/turbo", "lucide-static", "pdfjs-dist", "sortablejs", "swagger-ui-dist")
"""npm packages whose files are in the wheel; the others only build it."""
SUMS = "SHA256SUMS"


class ReleaseError(Exception):
    """A release that cannot be built, with the remedy."""


def release(folder: Path, version: str) -> list[Path]:
    """Build everything into `folder`, which must be missing or empty, and return the files."""
    if folder.exists() and any(folder.iterdir()):
        raise ReleaseError(f"{folder} is not empty. Move or delete it: a release is never overwritten.")
    folder.mkdir(parents=True, exist_ok=True)
    built_at = _git("log", "-1", "--format=%ct")
    _run([sys.executable, "-m", "hatchling", "build", "-d", str(folder)], {"SOURCE_DATE_EPOCH": built_at})
    sbom = folder / f"workhook-{version}.cdx.json"
    sbom.write_text(bill_of_materials(version, built_at), encoding="utf-8")
    files = sorted(folder.iterdir())
    lines = [f"{hashlib.sha256(each.read_bytes()).hexdigest()}  {each.name}\n" for each in files]
    (folder / SUMS).write_text("".join(lines), encoding="utf-8")
    return [*files, folder / SUMS]


def bill_of_materials(version: str, built_at: str) -> str:
    """Return a CycloneDX document that lists the locked Python packages and the npm packages in the wheel."""
    command = [sys.executable, "-m", "cyclonedx_py", "requirements", str(LOCK)]
    command += ["--pyproject", str(ROOT / "pyproject.toml"), "--output-reproducible"]
    made = json.loads(_run(command, {"SOURCE_DATE_EPOCH": built_at}))
    root = made["metadata"]["component"]
    root["version"], root["purl"] = version, f"pkg:pypi/workhook@{version}"
    for each in made["components"]:
        del each["description"]  # the line of the lock, with every hash
    packages = npm_components()
    made["components"] += packages
    made["dependencies"] += [{"ref": each["bom-ref"]} for each in packages]
    [ours] = [each for each in made["dependencies"] if each["ref"] == root["bom-ref"]]
    ours["dependsOn"] = sorted([*ours.get("dependsOn", []), *(each["bom-ref"] for each in packages)])
    text = json.dumps(made, indent=2) + "\n"
    fault = JsonStrictValidator(SchemaVersion.from_version(made["specVersion"])).validate_str(text)
    if fault is not None:
        raise ReleaseError(f"the SBOM is not valid CycloneDX: {fault}")
    return text


def npm_components() -> list[dict[str, Any]]:
    """Return the npm packages in the wheel as CycloneDX components, with the digests of their lock file."""
    locked = json.loads(NPM_LOCK.read_text(encoding="utf-8"))["packages"]
    components = []
    for name in NPM_SHIPPED:
        package = locked[f"node_modules/{name}"]
        algorithm, _, digest = package["integrity"].partition("-")
        purl = f"pkg:npm/{name.replace('@', '%40')}@{package['version']}"
        hashed = {"alg": algorithm.upper().replace("SHA", "SHA-"), "content": base64.b64decode(digest).hex()}
        components.append(
            {
                "type": "library",
                "bom-ref": purl,
                "name": name,
                "version": package["version"],
                "purl": purl,
                "licenses": [{"license": {"id": package["license"]}}],
                "hashes": [hashed],
            }
        )
    return components


def _git(*arguments: str) -> str:
    return _run(["git", *arguments], {}).strip()


def _run(command: list[str], environment: dict[str, str]) -> str:
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise ReleaseError(f"{' '.join(command)} failed:\n{done.stderr or done.stdout}")
    return done.stdout


def next_tag(version: str) -> str:
    """Return the tag of the release that a development version such as `0.3.0.dev12` leads to."""
    return f"v{version.partition('.dev')[0]}"


def main(arguments: list[str]) -> int:
    try:
        if _git("status", "--porcelain"):
            raise ReleaseError("There are uncommitted changes. Commit or stash them, then run make release again.")
        version = find_version(ROOT)
        folder = Path(arguments[0]) if arguments else ROOT / "dist" / version
        for path in release(folder, version):
            print(path)
        if "dev" in version:
            advice = f"For a release, tag the commit first: git tag {next_tag(version)}"
            print(f"{version} is a development version. {advice}")
    except ReleaseError as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

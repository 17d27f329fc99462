"""Write docs/operators/settings.md from the settings themselves. `check_repository` compares the two.

python -m scripts.write_settings_reference
"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

from workhook.core.config import Settings, expected_value, flag_of

PAGE = Path(__file__).parent.parent / "docs" / "operators" / "settings.md"

HEAD = """# Settings

Each setting is a flag of `workhook serve`, an environment variable, and a key in `workhook.toml` in the data folder.
Flags override variables, and variables override the file.

- For variables marked with *, `…_FILE` names a file that contains the value.
- The value 0 turns a limit off.
- All errors are reported together at startup. Unknown keys and `WORKHOOK_…` variables are errors, except for variables
  set by container orchestration (`WORKHOOK_PORT_8000_TCP`).

```toml
port = 8080
delivery_allow_networks = ["10.0.0.0/8", "192.168.0.0/16"]
```

| flag | variable | key | default | values | meaning |
| --- | --- | --- | --- | --- | --- |
"""


def render() -> str:
    """Return the whole page."""
    rows = []
    for each in fields(Settings):
        variable = f"WORKHOOK_{each.name.upper()}"
        default = "" if each.default in (None, ()) else f"`{_as_written(each.default)}`"
        values = _values(expected_value(each.metadata["parse"]))
        star = " *" if each.metadata["secret"] else ""
        names = f"`{flag_of(each.name)}` | `{variable}`{star} | `{each.name}`"
        rows.append(f"| {names} | {default} | {values} | {each.metadata['help']} |")
    return HEAD + "\n".join(rows) + "\n"


def _as_written(default: object) -> str:
    """Return a default as one writes it in a variable."""
    return str(default).lower() if isinstance(default, bool) else str(default)


def _values(text: str) -> str:
    """Return the description of the values, with the names it lists as code. Any text and any path need none."""
    if " in quotes" in text:
        return ""
    if text == "true or false":
        return "`true` or `false`"
    if text.startswith("one of "):
        return "one of " + ", ".join(f"`{name}`" for name in text.removeprefix("one of ").split(", "))
    return text


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")

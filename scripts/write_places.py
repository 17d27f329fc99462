"""Write docs/team/places.md from the pictured pages and tests/pictures/screens.toml. `check_repository` compares them.

python -m scripts.write_places
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from tests.pictures.places import PLACES, Place

PAGE = Path(__file__).parent.parent / "docs" / "team" / "places.md"
SCREENS = Path(__file__).parent.parent / "tests" / "pictures" / "screens.toml"
OWNER, PROJECT = "northlight", "harbor-festival-2027"

HEAD = f"""# Screens

Pictures of every page of the web app, on a computer and, in the dark theme, on a phone. The organization is `{OWNER}`
and its project is `{PROJECT}`; `…` is the address of the project. In the guide on your server, click
a picture to enlarge it. [Find your way around](web-app.md) explains how to use the app.
"""

_KNOWN = {"owner": OWNER, "project": PROJECT, "folder": "team", "name": "NAME", "slug": "NAME"}
_IN_PROJECT = f"/{OWNER}/{PROJECT}/"


def render() -> str:
    """Return the whole page. Raises `KeyError` for a screen without a place."""
    sections = tomllib.loads(SCREENS.read_text(encoding="utf-8"))["section"]
    places = {each.name: each for each in PLACES}
    parts = [HEAD]
    for section in sections:
        parts.append(f"\n## {section['title']}\n")
        for screen in section["screens"]:
            parts += _screen(places[screen["place"]], screen)
    return "".join(parts)


def _screen(place: Place, screen: dict[str, str]) -> Iterator[str]:
    yield f"\n### {screen['title']}\n\n`{_address(place)}`: {screen['text']}\n\n"
    yield f"![{screen['picture']}](../pictures/{place.name}.webp)\n"
    yield f"![{screen['picture']}, on a phone](../pictures/{place.name}-phone.webp)\n"


def _address(place: Place) -> str:
    known = _KNOWN | ({"name": "web-app"} if "folder" in place.other else {})
    address = re.sub(r"\{(\w+)\}", lambda found: known.get(found[1], "ID"), place.path)
    address += place.query if place.query.startswith("#") else ""
    return address.replace(_IN_PROJECT, "…/") if address.startswith(_IN_PROJECT) else address


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")

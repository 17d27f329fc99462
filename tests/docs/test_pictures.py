"""The pictures of the README and of docs/team/places.md exist, are small and are described, and every page has one."""

from __future__ import annotations

import re
from pathlib import Path

from tests.pictures.__main__ import BYTES_MAX, BYTES_MAX_ALL, looks_of
from tests.pictures.places import PLACES, README, UNPICTURED
from workhook.asgi import described
from workhook.http.operations import PAGES
from workhook.http.operations import PLACES as ROOMS

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "pictures"


def names_of(*wanted: str) -> set[str]:
    return {f"{place.name}{look.ending}.webp" for place in PLACES if place.name in wanted for look in looks_of(place)}


def test_the_pictures_of_the_readme_exist() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = {ROOT / each for each in re.findall(r'(?:src|srcset)="([^"]+)"', readme)}
    assert shown == {FOLDER / f"{name}{ending}.webp" for name in README for ending in ("", "-dark")}
    assert all(each.is_file() for each in shown)
    assert all(len(each) > 20 for each in re.findall(r'<img[^>]*alt="([^"]*)"', readme))


def test_every_place_has_pictures_and_no_picture_is_unused() -> None:
    pictures = list(FOLDER.iterdir())
    assert {each.name for each in pictures} == names_of(*(place.name for place in PLACES))
    assert all(each.stat().st_size <= BYTES_MAX for each in pictures)
    assert sum(each.stat().st_size for each in pictures) <= BYTES_MAX_ALL


def test_the_page_of_places_shows_and_describes_every_picture() -> None:
    page = (ROOT / "docs" / "team" / "places.md").read_text(encoding="utf-8")
    found = re.findall(r"!\[([^\]]*)\]\(\.\./pictures/([^)]+)\)", page)
    shown = [name for _, name in found]
    assert len(shown) == len(set(shown))
    assert set(shown) == {each for each in names_of(*(place.name for place in PLACES)) if "-dark." not in each}
    assert all(len(alt) > 20 for alt, _ in found)
    assert len({alt for alt, _ in found}) == len(found)


def test_every_page_has_a_picture_or_a_reason_for_having_none() -> None:
    pages = {each.path for each in described() if each.method == "GET" and each.area in (PAGES, ROOMS)}
    pictured = {place.path for place in PLACES}
    assert pages - pictured == set(UNPICTURED)
    assert pictured - pages == {"/"}  # programs request it too

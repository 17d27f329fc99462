"""Label colors of other services, mapped to the nearest color of a project."""

from __future__ import annotations

import pytest

from workhook.web.frame.formats import hue
from workhook.work.portability.imports.mapping import COLORS, nearest_color


@pytest.mark.parametrize(
    ("text", "color"),
    [
        ("d73a4a", "red"), ("#A2EEEF", "teal"), ("0075ca", "sky"), ("7057ff", "purple"), ("008672", "teal"),
        ("e4e669", "yellow"), ("d876e3", "pink"), ("FBCA04", "yellow"), ("0e8a16", "green"), ("ff0010", "red"),
        ("1d76db", "blue"), ("ededed", None), ("000000", None), ("", None), ("red", None), ("d73a4", None),
    ],
)  # fmt: skip
def test_the_nearest_color_has_the_closest_hue(text: str, color: str | None) -> None:
    assert nearest_color(text) == color


def test_every_color_has_its_own_hue() -> None:
    assert len({hue("Urgent", {"Urgent": each}) for each in COLORS}) == len(COLORS)
    assert hue("Urgent", {"Other": "red"}) == hue("Urgent")

"""Who wants a page, and who wants JSON."""

from __future__ import annotations

_PAGES = frozenset({"text/html", "application/xhtml+xml"})


def prefers_page(accept: str | None, *, otherwise: bool) -> bool:
    """Whether the `Accept` header names HTML before JSON: with a higher weight or, with the same, further to the left.

    `otherwise`: for a header that names neither, as programs send it (`*/*`), and for none.
    """
    best: tuple[float, bool] | None = None
    for each in (accept or "").split(","):
        media_type, *parameters = (part.strip().lower() for part in each.split(";"))
        is_page = media_type in _PAGES
        if not is_page and media_type != "application/json" and not media_type.endswith("+json"):
            continue
        weight = _weight(parameters)
        if weight > (best[0] if best else 0.0):
            best = weight, is_page
    return best[1] if best else otherwise


def _weight(parameters: list[str]) -> float:
    """`q` (RFC 9110, 12.4.2). 0 is not wanted at all; what cannot be read counts as that."""
    for each in parameters:
        name, _, value = each.partition("=")
        if name.strip() == "q":
            try:
                return float(value)
            except ValueError:
                return 0.0
    return 1.0

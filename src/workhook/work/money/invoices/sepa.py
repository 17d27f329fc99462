"""The QR code of a transfer, which banks' apps read: the SEPA credit transfer of EPC069-12, version 002. Pure."""

from __future__ import annotations

NAME_MAX_CHARS = 70
REMITTANCE_MAX_CHARS = 140
AMOUNT_MAX_MINOR = 99_999_999_999
VERSION_MAX = 13  # of the symbol; EPC069-12, 2.2


def transfer_text(name: str, iban: str, bic: str | None, amount_minor: int, remittance: str) -> str | None:
    """What the code holds, or None where the amount is none that it can have. `amount_minor`: cents of EUR."""
    if not 0 < amount_minor <= AMOUNT_MAX_MINOR:
        return None
    lines = (
        "BCD",
        "002",
        "1",  # UTF-8
        "SCT",
        bic or "",
        _plain(name, NAME_MAX_CHARS),
        iban,
        f"EUR{amount_minor // 100}.{amount_minor % 100:02}",
        "",  # no code of a purpose
        "",  # no structured reference
        _plain(remittance, REMITTANCE_MAX_CHARS),
    )
    return "\n".join(lines)


def code_of(text: str) -> str | None:
    """The symbol as SVG, without the quiet zone. None if it does not fit."""
    import segno  # 2 MiB, of which a server that shows no such code has no use

    try:
        code = segno.make_qr(text, error="m", boost_error=False, encoding="utf-8")
    except segno.DataOverflowError:
        return None
    if not isinstance(code.version, int) or code.version > VERSION_MAX:
        return None
    return str(code.svg_inline(border=0, omitsize=True))


def _plain(text: str, most: int) -> str:
    """In one line."""
    return " ".join(text.split())[:most]

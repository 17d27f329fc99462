"""The metadata of a PDF with an embedded e-invoice, required by Factur-X 1.0 (ZUGFeRD 2). Pure functions.

Typst writes PDF/A-3 and attaches the file but cannot add this metadata, so it is replaced here. The structure of
Typst's files is known: a cross-reference table at the end (ISO 32000-1, 7.5) and uncompressed metadata. Any other
structure is rejected.
"""

from __future__ import annotations

import re

FILE_NAME = "factur-x.xml"
CONFORMANCE_LEVEL = "EN 16931"
NAMESPACE = "urn:factur-x:pdfa:CrossIndustryDocument:invoice:1p0#"

_END = re.compile(rb"trailer\n<<([^\0]{1,1000})>>\nstartxref\n(\d{1,10})\n%%EOF\s*\Z")
_TABLE = re.compile(rb"xref\n0 (\d{1,7})\n")
_ENTRY_BYTES = 20
_ENTRY = re.compile(rb"(\d{10}) (\d{5} [nf](?: \n|\r\n| \r))")
_ROOT = re.compile(rb"/Root (\d{1,7}) 0 R")
_METADATA = re.compile(rb"/Metadata (\d{1,7}) 0 R")
_STREAM = re.compile(rb"(\d{1,7} 0 obj\n<<)/Length (\d{1,7})(/Type/Metadata/Subtype/XML>>\nstream\n)")
_STREAM_END = b"\nendstream\nendobj\n"

_SCHEMAS_END, _RDF_END = b"</rdf:Bag></pdfaExtension:schemas>", b"</rdf:RDF>"
_BEGIN = f'<rdf:Description rdf:about="" xmlns:fx="{NAMESPACE}">'.encode()
_PROPERTIES = {
    "DocumentType": ("INVOICE", "The type of the document"),
    "DocumentFileName": (FILE_NAME, "The name of the embedded XML document"),
    "Version": ("1.0", "The version of the standard that the XML document follows"),
    "ConformanceLevel": (CONFORMANCE_LEVEL, "The profile of the XML document"),
}
"""The metadata values and their descriptions, which PDF/A requires."""


class UnknownForm(ValueError):
    """The PDF does not have the structure that Typst writes."""


def with_metadata(pdf: bytes) -> bytes:
    """Add the Factur-X metadata to a PDF, deterministically. Raises `UnknownForm`."""
    end = _END.search(pdf, max(len(pdf) - 1200, 0))
    if end is None:
        raise UnknownForm("trailer")
    table_at = int(end[2])
    places, kinds = _table(pdf, table_at, end.start())
    root = _number(_ROOT, end[1], "root")
    catalogue_at = _offset_of(places, root)
    catalogue = pdf[catalogue_at : pdf.find(b"\nendobj", catalogue_at)]
    if not catalogue.startswith(b"%d 0 obj\n<<" % root):
        raise UnknownForm("catalogue")
    stream_at = _offset_of(places, _number(_METADATA, catalogue, "metadata"))
    head = _STREAM.match(pdf, stream_at)
    if head is None:
        raise UnknownForm("stream of metadata")
    packet_end = head.end() + int(head[2])
    if pdf[packet_end : packet_end + len(_STREAM_END)] != _STREAM_END:
        raise UnknownForm("end of metadata")
    packet = _extended(pdf[head.end() : packet_end])
    stream = b"%b/Length %d%b%b" % (head[1], len(packet), head[3], packet)
    more = len(stream) - (packet_end - stream_at)
    entries = [
        b"%010d %b" % (at + more if at > stream_at else at, kind) for at, kind in zip(places, kinds, strict=True)
    ]
    return b"".join(
        (
            pdf[:stream_at],
            stream,
            pdf[packet_end:table_at],
            b"xref\n0 %d\n" % len(entries),
            *entries,
            b"trailer\n<<%b>>\nstartxref\n%d\n%%%%EOF" % (end[1], table_at + more),
        )
    )


def _number(pattern: re.Pattern[bytes], data: bytes, name: str) -> int:
    """Return the number that the pattern finds. Raises `UnknownForm` unless it matches exactly once."""
    found = pattern.findall(data)
    if len(found) != 1:
        raise UnknownForm(name)
    return int(found[0])


def _offset_of(places: list[int], number: int) -> int:
    if not 0 < number < len(places):
        raise UnknownForm("reference")
    return places[number]


def _table(pdf: bytes, begin: int, end: int) -> tuple[list[int], list[bytes]]:
    """Return the offset of each object, and the rest of its table entry.

    The single table must fill the space between `begin` and `end`; a file with incremental updates would have several.
    """
    head = _TABLE.match(pdf, begin)
    if head is None or end - head.end() != int(head[1]) * _ENTRY_BYTES:
        raise UnknownForm("table")
    places, kinds = [], []
    for at in range(head.end(), end, _ENTRY_BYTES):
        entry = _ENTRY.fullmatch(pdf, at, at + _ENTRY_BYTES)
        if entry is None:
            raise UnknownForm("entry of the table")
        places.append(int(entry[1]))
        kinds.append(entry[2])
    return places, kinds


def _extended(packet: bytes) -> bytes:
    """Add the properties. User text in the packet is escaped, so the tags searched for are never part of it."""
    if packet.count(_SCHEMAS_END) != 1 or packet.count(_RDF_END) != 1 or _BEGIN in packet:
        raise UnknownForm("metadata")
    values = "".join(f"<fx:{name}>{value}</fx:{name}>" for name, (value, _) in _PROPERTIES.items())
    described = "".join(
        f'<rdf:li rdf:parseType="Resource"><pdfaProperty:name>{name}</pdfaProperty:name>'
        "<pdfaProperty:valueType>Text</pdfaProperty:valueType><pdfaProperty:category>external</pdfaProperty:category>"
        f"<pdfaProperty:description>{words}</pdfaProperty:description></rdf:li>"
        for name, (_, words) in _PROPERTIES.items()
    )
    schema = (
        '<rdf:li rdf:parseType="Resource"><pdfaSchema:schema>Factur-X PDFA Extension Schema</pdfaSchema:schema>'
        f"<pdfaSchema:namespaceURI>{NAMESPACE}</pdfaSchema:namespaceURI><pdfaSchema:prefix>fx</pdfaSchema:prefix>"
        f"<pdfaSchema:property><rdf:Seq>{described}</rdf:Seq></pdfaSchema:property></rdf:li>"
    )
    properties = _BEGIN + f"{values}</rdf:Description>".encode()
    packet = packet.replace(_SCHEMAS_END, schema.encode() + _SCHEMAS_END)
    return packet.replace(_RDF_END, properties + _RDF_END)

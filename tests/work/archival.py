"""Structural checks for archival PDFs (PDF/A-3b, ISO 19005-3) and access to their metadata.

None of the package registries used by the tests offers a PDF/A validator. These checks cover the rules that a change to
the template, Typst or the metadata could break.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from datetime import datetime
from typing import Any
from xml.etree import ElementTree as ET

from pypdf import PdfReader
from pypdf.generic import ArrayObject, DictionaryObject, IndirectObject, StreamObject

FX = "{urn:factur-x:pdfa:CrossIndustryDocument:invoice:1p0#}"
_RDF = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}"
_PDFA_ID = "{http://www.aiim.org/pdfa/ns/id/}"
_SCHEMA, _PROPERTY = "{http://www.aiim.org/pdfa/ns/schema#}", "{http://www.aiim.org/pdfa/ns/property#}"
_XMP, _DC = "{http://ns.adobe.com/xap/1.0/}", "{http://purl.org/dc/elements/1.1/}"
_FORBIDDEN_ACTIONS = {
    "/Launch",
    "/JavaScript",
    "/ResetForm",
    "/ImportData",
    "/Movie",
    "/Sound",
    "/Hide",
    "/SetOCGState",
}
_FONT_FILES = {"/FontFile", "/FontFile2", "/FontFile3"}


def opened(pdf: bytes) -> PdfReader:
    """Open a PDF in strict mode, resolving every object through the cross-reference table."""
    reader = PdfReader(io.BytesIO(pdf), strict=True)
    for _ in _objects(reader):
        pass
    return reader


def _objects(reader: PdfReader) -> Iterator[Any]:
    for generation, numbers in reader.xref.items():
        for number in numbers:
            if number:
                yield reader.get_object(IndirectObject(number, generation, reader))


def metadata(reader: PdfReader) -> ET.Element:
    """Return the RDF tree, which must be uncompressed for tools that cannot parse PDF."""
    stream: Any = reader.root_object["/Metadata"].get_object()
    assert stream["/Type"] == "/Metadata"
    assert stream["/Subtype"] == "/XML"
    assert "/Filter" not in stream
    text = stream.get_data().decode()
    assert text.startswith("<?xpacket begin=")
    assert text.endswith('<?xpacket end="r"?>')
    [tree] = ET.fromstring(text).iter(f"{_RDF}RDF")  # produced by this project
    return tree


def facturx_properties(reader: PdfReader) -> dict[str, str]:
    """Return the Factur-X properties by name."""
    described = metadata(reader).findall(f"{_RDF}Description/*")
    return {each.tag.removeprefix(FX): each.text or "" for each in described if each.tag.startswith(FX)}


def faults(pdf: bytes) -> list[str]:
    """Return everything an archive would reject."""
    reader = opened(pdf)
    found = [*_head_faults(pdf, reader), *_metadata_faults(reader)]
    for each in _objects(reader):
        if isinstance(each, DictionaryObject):
            found += _object_faults(each)
    return found


def _head_faults(pdf: bytes, reader: PdfReader) -> Iterator[str]:
    first, second = pdf.split(b"\n", 2)[:2]
    if first != b"%PDF-1.7" or not (second.startswith(b"%") and len(second) >= 5 and min(second[1:5]) > 127):
        yield "the header has no comment of four binary bytes"
    if "/ID" not in reader.trailer or "/Encrypt" in reader.trailer:
        yield "the trailer has no ID, or the file is encrypted"
    root: Any = reader.root_object
    intents = [each.get_object() for each in root.get("/OutputIntents", ())]
    if [(each["/S"], bool(each["/DestOutputProfile"].get_object().get_data())) for each in intents] != [
        ("/GTS_PDFA1", True)
    ]:
        yield "not one profile of colours"
    if {"/AA", "/OpenAction", "/OCProperties", "/NeedsRendering", "/Requirements"} & set(root):
        yield "the catalogue does something"
    if "/AF" not in root or set(root["/Names"]) != {"/EmbeddedFiles"}:
        yield "the catalogue names no attached file, or more than that"


def _object_faults(each: Any) -> Iterator[str]:
    kind = each.get("/Type")
    if kind == "/Font" and each["/Subtype"] != "/Type3":
        (font,) = each.get("/DescendantFonts", [each])
        if not _FONT_FILES & set(font.get_object()["/FontDescriptor"].get_object()):
            yield f"{each['/BaseFont']} is not embedded"
        if each["/Subtype"] == "/Type0" and "/ToUnicode" not in each:
            yield f"{each['/BaseFont']} has no text"
    if kind == "/Filespec" and not {"/F", "/UF", "/EF", "/AFRelationship", "/Desc"} <= set(each):
        yield "an attached file is not described"
    if kind == "/EmbeddedFile" and not ("/Subtype" in each and "/ModDate" in each["/Params"]):
        yield "an attached file has no type or no time"
    if each.get("/S") in _FORBIDDEN_ACTIONS or kind == "/Annot":
        yield "there is an action or a note"
    if isinstance(each, StreamObject):
        filters = each.get("/Filter", [])
        if "/LZWDecode" in (filters if isinstance(filters, ArrayObject) else [filters]) or "/F" in each:
            yield "a stream is packed as LZW, or lies elsewhere"
        if each.get("/Interpolate") or each.get("/Alternates") or each.get("/ColorSpace") == "/DeviceCMYK":
            yield "a picture uses a feature that archives forbid"


def _metadata_faults(reader: PdfReader) -> Iterator[str]:
    tree = metadata(reader)
    texts = {each.tag: each.text for each in tree.findall(f"{_RDF}Description/*")}
    if (texts.get(f"{_PDFA_ID}part"), texts.get(f"{_PDFA_ID}conformance")) != ("3", "B"):
        yield "it does not say that it is PDF/A-3b"
    described = {
        schema.findtext(f"{_SCHEMA}namespaceURI"): {each.text for each in schema.iter(f"{_PROPERTY}name")}
        for schema in tree.iter(f"{_RDF}li")
        if schema.find(f"{_SCHEMA}namespaceURI") is not None
    }
    if described.get(FX.strip("{}")) != set(facturx_properties(reader)):
        yield "what it says of the e-invoice is not described"
    if len(list(tree.iter("{http://www.aiim.org/pdfa/ns/extension/}schemas"))) != 1:
        yield "there is not one list of descriptions"
    document = reader.metadata
    assert document is not None
    title = tree.findtext(f"{_RDF}Description/{_DC}title/{_RDF}Alt/{_RDF}li")
    author = tree.findtext(f"{_RDF}Description/{_DC}creator/{_RDF}Seq/{_RDF}li")
    made, changed = texts.get(f"{_XMP}CreateDate"), texts.get(f"{_XMP}ModifyDate")
    if (title, author) != (document.title, document.author):
        yield "title or author differ from those of the document"
    for text, at in ((made, document.creation_date), (changed, document.modification_date)):
        if at is None or text is None or datetime.fromisoformat(text) != at:
            yield "a time differs from that of the document"

"""EN 16931 in the UN/CEFACT syntax (Cross Industry Invoice D16B). Pure functions.

Elements are in the order of the schema. Tests validate the result with the official schema and rules.
"""

from __future__ import annotations

import re
from datetime import date
from decimal import Decimal
from xml.etree import ElementTree as ET

from workhook.work.money.invoices.einvoice import EInvoice, ELine, EParty, ETax, Service
from workhook.work.money.invoices.paper import DocumentLocale

GUIDELINE = "urn:cen.eu:en16931:2017"
SEPA_TRANSFER, TRANSFER = "58", "30"
"""The codes of payment means (UNTDID 4461)."""
VAT = "VAT"
NO_TEXT = "-"
"""Replaces a text without any character allowed in XML, because the standard requires one."""
LINES_OF_ADDRESS = ("LineOne", "LineTwo", "LineThree")

_STANDARD = "urn:un:unece:uncefact:data:standard"
_NAMES = {
    "rsm": f"{_STANDARD}:CrossIndustryInvoice:100",
    "ram": f"{_STANDARD}:ReusableAggregateBusinessInformationEntity:100",
    "udt": f"{_STANDARD}:UnqualifiedDataType:100",
    "qdt": f"{_STANDARD}:QualifiedDataType:100",
}
# Characters that XML 1.0 does not allow.
_NOT_XML = re.compile("[^\t\n\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_BY_EIGHT = "102"
"""The code (UNTDID 2379) of dates written like 20261127."""


def to_xml(document: EInvoice) -> bytes:
    for prefix, name in _NAMES.items():
        ET.register_namespace(prefix, name)
    root = ET.Element(_tag("rsm:CrossIndustryInvoice"))
    context = _add(root, "rsm:ExchangedDocumentContext")
    _add(_add(context, "ram:GuidelineSpecifiedDocumentContextParameter"), "ram:ID", GUIDELINE)
    head = _add(root, "rsm:ExchangedDocument")
    _add(head, "ram:ID", document.number)
    _add(head, "ram:TypeCode", document.kind)
    _add_day(head, "ram:IssueDateTime", document.issued)
    if document.note:
        _add(_add(head, "ram:IncludedNote"), "ram:Content", document.note)
    trade = _add(root, "rsm:SupplyChainTradeTransaction")
    for number, line in enumerate(document.lines, 1):
        _add_line(trade, number, line, document)
    agreement = _add(trade, "ram:ApplicableHeaderTradeAgreement")
    _add_party(agreement, "ram:SellerTradeParty", document.seller)
    _add_party(agreement, "ram:BuyerTradeParty", document.buyer)
    delivery = _add(trade, "ram:ApplicableHeaderTradeDelivery")
    if document.service and document.service[0] == document.service[1]:
        event = _add(delivery, "ram:ActualDeliverySupplyChainEvent")
        _add_day(event, "ram:OccurrenceDateTime", document.service[0])
    _add_settlement(trade, document)
    ET.indent(root)
    return bytes(ET.tostring(root, encoding="UTF-8", xml_declaration=True))


def _tag(name: str) -> str:
    prefix, _, local = name.partition(":")
    return f"{{{_NAMES[prefix]}}}{local}"


def _add(parent: ET.Element, name: str, text: str | None = None, **attributes: str) -> ET.Element:
    element = ET.SubElement(parent, _tag(name), attributes)
    if text is not None:
        element.text = _plain_text(text) or NO_TEXT
    return element


def _plain_text(text: str) -> str:
    return _NOT_XML.sub("", text.replace("\r\n", "\n")).strip()


def _add_amount(parent: ET.Element, name: str, amount: Decimal, **attributes: str) -> None:
    _add(parent, name, f"{amount:.2f}", **attributes)


def _add_day(parent: ET.Element, name: str, day: date) -> None:
    _add(_add(parent, name), "udt:DateTimeString", f"{day:%Y%m%d}", format=_BY_EIGHT)


def _plain(value: Decimal) -> str:
    return f"{value.normalize():f}"


def _add_party(parent: ET.Element, name: str, party: EParty) -> None:
    element = _add(parent, name)
    if party.tax_number and not party.vat_id:
        # A seller must have an identifier or a VAT ID (BR-CO-26).
        _add(element, "ram:ID", party.tax_number)
    _add(element, "ram:Name", party.name)
    address = _add(element, "ram:PostalTradeAddress")
    lines = party.lines
    if len(lines) > len(LINES_OF_ADDRESS):  # the last line contains the rest
        lines = (*lines[:2], ", ".join(lines[2:]))
    for line, text in zip(LINES_OF_ADDRESS, lines, strict=False):
        _add(address, f"ram:{line}", text)
    _add(address, "ram:CountryID", party.country)
    if party.email:
        _add(_add(element, "ram:URIUniversalCommunication"), "ram:URIID", party.email, schemeID="EM")
    if party.vat_id:
        _add(_add(element, "ram:SpecifiedTaxRegistration"), "ram:ID", party.vat_id, schemeID="VA")
    if party.tax_number:
        _add(_add(element, "ram:SpecifiedTaxRegistration"), "ram:ID", party.tax_number, schemeID="FC")


def _add_line(parent: ET.Element, number: int, line: ELine, document: EInvoice) -> None:
    element = _add(parent, "ram:IncludedSupplyChainTradeLineItem")
    _add(_add(element, "ram:AssociatedDocumentLineDocument"), "ram:LineID", str(number))
    name, _, more = _plain_text(line.description).partition("\n")
    product = _add(element, "ram:SpecifiedTradeProduct")
    _add(product, "ram:Name", name)
    if more.strip():
        _add(product, "ram:Description", more)
    agreement = _add(element, "ram:SpecifiedLineTradeAgreement")
    _add(_add(agreement, "ram:NetPriceProductTradePrice"), "ram:ChargeAmount", _plain(line.price))
    delivery = _add(element, "ram:SpecifiedLineTradeDelivery")
    _add(delivery, "ram:BilledQuantity", _plain(line.qty), unitCode=line.unit)
    settlement = _add(element, "ram:SpecifiedLineTradeSettlement")
    tax = _add(settlement, "ram:ApplicableTradeTax")
    _add(tax, "ram:TypeCode", VAT)
    _add(tax, "ram:CategoryCode", line.code)
    _add(tax, "ram:RateApplicablePercent", _plain(line.percent))
    if line.service:
        _add_period(settlement, line.service)
    if line.allowance:
        _add_allowance(settlement, line.allowance)
    if line.rounding:  # a charge, or an allowance if negative
        rounding = _add(settlement, "ram:SpecifiedTradeAllowanceCharge")
        _add(_add(rounding, "ram:ChargeIndicator"), "udt:Indicator", "true" if line.rounding > 0 else "false")
        _add_amount(rounding, "ram:ActualAmount", abs(line.rounding))
        _add(rounding, "ram:Reason", DocumentLocale(document.language).translate("Rounding per time entry"))
    summation = _add(settlement, "ram:SpecifiedTradeSettlementLineMonetarySummation")
    _add_amount(summation, "ram:LineTotalAmount", line.net)


def _add_period(parent: ET.Element, service: Service) -> None:
    period = _add(parent, "ram:BillingSpecifiedPeriod")
    _add_day(period, "ram:StartDateTime", service[0])
    _add_day(period, "ram:EndDateTime", service[1])


def _add_allowance(parent: ET.Element, amount: Decimal) -> ET.Element:
    allowance = _add(parent, "ram:SpecifiedTradeAllowanceCharge")
    _add(_add(allowance, "ram:ChargeIndicator"), "udt:Indicator", "false")
    _add_amount(allowance, "ram:ActualAmount", amount)
    _add(allowance, "ram:ReasonCode", "95")  # discount (UNTDID 5189)
    return allowance


def _add_settlement(parent: ET.Element, document: EInvoice) -> None:
    settlement = _add(parent, "ram:ApplicableHeaderTradeSettlement")
    _add(settlement, "ram:PaymentReference", document.number)
    _add(settlement, "ram:InvoiceCurrencyCode", document.currency)
    if document.iban and document.kind == "380":
        means = _add(settlement, "ram:SpecifiedTradeSettlementPaymentMeans")
        _add(means, "ram:TypeCode", SEPA_TRANSFER if document.currency == "EUR" else TRANSFER)
        _add(_add(means, "ram:PayeePartyCreditorFinancialAccount"), "ram:IBANID", document.iban)
        if document.bic:
            _add(_add(means, "ram:PayeeSpecifiedCreditorFinancialInstitution"), "ram:BICID", document.bic)
    for tax in document.taxes:
        _add_tax(settlement, tax, document)
    if document.service and document.service[0] != document.service[1]:
        _add_period(settlement, document.service)
    for tax in document.taxes:
        if tax.allowance:
            category = _add(_add_allowance(settlement, tax.allowance), "ram:CategoryTradeTax")
            _add(category, "ram:TypeCode", VAT)
            _add(category, "ram:CategoryCode", tax.code)
            _add(category, "ram:RateApplicablePercent", _plain(tax.percent))
    terms = _add(settlement, "ram:SpecifiedTradePaymentTerms")
    if document.terms:
        _add(terms, "ram:Description", document.terms)
    if document.due is not None:
        _add_day(terms, "ram:DueDateDateTime", document.due)
    _add_sums(settlement, document)
    if document.preceding is not None:
        number, day = document.preceding
        preceding = _add(settlement, "ram:InvoiceReferencedDocument")
        _add(preceding, "ram:IssuerAssignedID", number)
        at = _add(preceding, "ram:FormattedIssueDateTime")
        _add(at, "qdt:DateTimeString", f"{day:%Y%m%d}", format=_BY_EIGHT)


def _add_tax(parent: ET.Element, tax: ETax, document: EInvoice) -> None:
    element = _add(parent, "ram:ApplicableTradeTax")
    _add_amount(element, "ram:CalculatedAmount", tax.tax)
    _add(element, "ram:TypeCode", VAT)
    if tax.code in ("E", "AE"):
        reason = "Exempt from tax" if tax.code == "E" else "Reverse charge"
        _add(element, "ram:ExemptionReason", DocumentLocale(document.language).translate(reason))
    _add_amount(element, "ram:BasisAmount", tax.base)
    _add(element, "ram:CategoryCode", tax.code)
    if tax.code == "AE":
        _add(element, "ram:ExemptionReasonCode", "VATEX-EU-AE")
    _add(element, "ram:RateApplicablePercent", _plain(tax.percent))


def _add_sums(parent: ET.Element, document: EInvoice) -> None:
    sums = _add(parent, "ram:SpecifiedTradeSettlementHeaderMonetarySummation")
    nets = sum((each.net for each in document.lines), Decimal(0))
    allowances = sum((each.allowance for each in document.taxes), Decimal(0))
    tax = sum((each.tax for each in document.taxes), Decimal(0))
    total = nets - allowances + tax
    _add_amount(sums, "ram:LineTotalAmount", nets)
    if allowances:
        _add_amount(sums, "ram:AllowanceTotalAmount", allowances)
    _add_amount(sums, "ram:TaxBasisTotalAmount", nets - allowances)
    _add_amount(sums, "ram:TaxTotalAmount", tax, currencyID=document.currency)
    _add_amount(sums, "ram:GrandTotalAmount", total)
    if document.paid:
        _add_amount(sums, "ram:TotalPrepaidAmount", document.paid)
    _add_amount(sums, "ram:DuePayableAmount", total - document.paid)

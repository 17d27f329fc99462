"""What the API says where an amount does not fit its currency, and what pages say instead (`api_sentences`)."""

from __future__ import annotations

from collections.abc import Mapping

from workhook.web.frame.texts import text

OF_AMOUNTS: Mapping[str, str] = {
    "seller.country: an e-invoice needs it; write country in %(where)s": text(
        "Your country: the owner of the projects writes it in their billing settings."
    ),
    "seller.vat_id: an e-invoice needs it or a tax number; write vat_id or tax_number in %(where)s; an invoice that "
    "was sent keeps what it was sent with: credit it, and send another": text(
        "Your VAT id or your tax number: the owner of the projects writes one of them in their billing settings. This "
        "invoice was sent without and stays so. Credit it, and send another."
    ),
    "buyer.country: an e-invoice needs it; write buyer.country in %(where)s": text(
        "The client's country: it is written in the billing settings of the project."
    ),
    "buyer.name: an e-invoice needs it; write bill_to of the invoice, or buyer.name in %(where)s before it is "
    "sent": text(
        "The client's name: it is written in the billing settings of the project, or on the draft. This invoice was "
        "sent without and stays so. Credit it, and send another."
    ),
    "seller.country: an e-invoice needs it; the studio has to complete its billing settings": text(
        "The country of who bills: the studio has to complete its billing settings."
    ),
    "seller.vat_id: an e-invoice needs it or a tax number; the studio has to complete its billing settings": text(
        "The VAT id or the tax number of who bills: the studio has to complete its billing settings."
    ),
    "buyer.country: an e-invoice needs it; the studio has to complete its billing settings": text(
        "The country of who pays: the studio has to complete its billing settings."
    ),
    "buyer.name: an e-invoice needs it; the studio has to complete its billing settings": text(
        "The name of who pays: the studio has to complete its billing settings."
    ),
    "currency: an e-invoice has amounts with at most two decimals, and this one in %(currency)s has more": text(
        "An e-invoice has amounts with at most two decimals, and this one in %(currency)s has more"
    ),
    "%(field)s: an amount in %(currency)s has no decimals": text("An amount in %(currency)s has no decimals"),
    "%(field)s: an amount in %(currency)s has at most %(digits)s decimals": text(
        "An amount in %(currency)s has at most %(digits)s decimals"
    ),
    "%(field)s: at most %(high)s in %(currency)s": text("In %(currency)s it can be at most %(high)s"),
    "currency: an amount in %(currency)s has no decimals, and the invoice has one with more; send %(field)s with "
    "it": text("The invoice has amounts with decimals, and an amount in %(currency)s has none. Change them first."),
    "currency: an amount in %(currency)s has at most %(digits)s decimals, and the invoice has one with more; send "
    "%(field)s with it": text(
        "The invoice has amounts with more decimals than an amount in %(currency)s has, which is %(digits)s. Change "
        "them first."
    ),
    "currency: an amount in %(currency)s has no decimals, and the invoice has one with more; take the time with that "
    "rate off first, with timesheet_ids": text(
        "The invoice has amounts with decimals, and an amount in %(currency)s has none. Change them first."
    ),
    "currency: an amount in %(currency)s has at most %(digits)s decimals, and the invoice has one with more; take the "
    "time with that rate off first, with timesheet_ids": text(
        "The invoice has amounts with more decimals than an amount in %(currency)s has, which is %(digits)s. Change "
        "them first."
    ),
    "currency: %(whose)s does not fit %(currency)s, where %(what)s; %(again)s": text(
        "A rate or the budget does not fit %(currency)s, where %(what)s: %(again)s. Rates of tasks and of time entries "
        "count, too."
    ),
    "%(field)s (%(id)s): an amount in %(currency)s has no decimals, and its rate has more; give it another "
    "billable_rate": text("An hour of %(id)s has a rate with decimals, and an amount in %(currency)s has none"),
    "%(field)s (%(id)s): an amount in %(currency)s has at most %(digits)s decimals, and its rate has more; give it "
    "another billable_rate": text(
        "An hour of %(id)s has a rate with more decimals than an amount in %(currency)s has, which is %(digits)s"
    ),
}

PHRASES_OF_AMOUNTS = (
    text("an amount has no decimals"),
    text("an amount has at most %(digits)s decimals"),
    text("a rate is at most %(high)s"),
    text("change the amount first"),
    text("restore the task and change the amount first"),
    text("create another project with that currency"),
)
"""Parts of them: what `%(what)s` and `%(again)s` stand for."""

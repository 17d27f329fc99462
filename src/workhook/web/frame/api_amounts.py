"""What the API says where an amount does not fit its currency, and what pages say instead (`api_sentences`)."""

from __future__ import annotations

from collections.abc import Mapping

from workhook.web.frame.texts import text

OF_AMOUNTS: Mapping[str, str] = {
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
    "currency: %(what)s does not fit %(currency)s, where an amount has no decimals; change the amount first": text(
        "A rate or the budget has decimals, and an amount in %(currency)s has none. Change these amounts first; rates "
        "of tasks and of time that was spent count, too."
    ),
    "currency: %(what)s does not fit %(currency)s, where an amount has at most %(digits)s decimals; change the amount "
    "first": text(
        "A rate or the budget has more decimals than an amount in %(currency)s has, which is %(digits)s, or is too "
        "large. Change these amounts first; rates of tasks and of time that was spent count, too."
    ),
    "%(field)s (%(id)s): an amount in %(currency)s has no decimals, and its rate has more; give it another "
    "billable_rate": text("An hour of %(id)s has a rate with decimals, and an amount in %(currency)s has none"),
    "%(field)s (%(id)s): an amount in %(currency)s has at most %(digits)s decimals, and its rate has more; give it "
    "another billable_rate": text(
        "An hour of %(id)s has a rate with more decimals than an amount in %(currency)s has, which is %(digits)s"
    ),
}

"""What pages call the fields of the API, and what they say where a field is not what it has to be."""

from __future__ import annotations

from collections.abc import Mapping

from workhook.web.frame.texts import text

LABELS: Mapping[str, str] = {
    "address": text("Address"),
    "again": text("The same again"),
    "amount": text("Amount"),
    "assignees": text("Assigned to"),
    "blocked_by": text("Waits for"),
    "bic": text("BIC"),
    "billable": text("Billable"),
    "bill_from": text("From"),
    "bill_to": text("Bill to"),
    "billable_rate": text("Rate per hour"),
    "body": text("Reply"),
    "buyer.address": text("Address"),
    "buyer.email": text("E-mail address"),
    "buyer.name": text("Name"),
    "buyer.vat_id": text("VAT id"),
    "buyer.country": text("Country"),
    "callback_urls": text("Callback addresses"),
    "column_id": text("Column"),
    "content_type": text("Content type"),
    "cover_url": text("Cover picture"),
    "credits": text("Credits that come with it"),
    "currency": text("Currency"),
    "deadline": text("Deadline"),
    "description": text("Description"),
    "estimate": text("Estimate"),
    "discount": text("Discount in percent"),
    "due": text("Due"),
    "duration": text("Duration"),
    "email": text("E-mail address"),
    "end_time": text("End"),
    "event": text("Event"),
    "expires_at": text("Can be spent through"),
    "feedback": text("What was said about it"),
    "file": text("File"),
    "folder": text("Folder"),
    "group_by": text("One line for each"),
    "header_style": text("Names of the headers"),
    "homepage_url": text("Home page"),
    "iban": text("IBAN"),
    "insecure_ssl": text("Certificate of the receiver"),
    "interval": text("It is paid"),
    "invoice_number": text("Number"),
    "labels": text("Labels"),
    "label_colors": text("Label colours"),
    "language": text("Language of invoices"),
    "legal_name": text("Name on invoices"),
    "limit_pausing": text("Most pauses"),
    "login": text("Login"),
    "max_concurrency": text("Deliveries at the same time"),
    "method": text("How it was paid"),
    "minimum_months": text("Months before it can be canceled"),
    "name": text("Name"),
    "note": text("What it is for"),
    "notes": text("Note"),
    "number_format": text("Format of the numbers"),
    "organization": text("Name of your organization"),
    "parent_id": text("Task above"),
    "repeat": text("Repeats"),
    "paid_at": text("Day"),
    "password": text("Password"),
    "hourly_rate": text("Rate per hour"),
    "payment_days": text("Days until an invoice is due"),
    "payment_method": text("How it is paid"),
    "payment_terms": text("Terms"),
    "position": text("Position"),
    "previous_secret_expires_in": text("The secret before signs, too, for"),
    "priority": text("Priority"),
    "public_key": text("Your public key (PEM)"),
    "qty": text("Quantity"),
    "rate_limit": text("Most deliveries a second"),
    "reason": text("Reason"),
    "reference": text("Reference"),
    "retries": text("Retries after a failure"),
    "role": text("Role"),
    "secret": text("Your secret"),
    "sections": text("Checklists"),
    "service_from": text("Service from"),
    "service_to": text("Service until"),
    "since": text("From (UTC)"),
    "stage": text("State"),
    "start_time": text("Start"),
    "task_id": text("Task"),
    "tax": text("Tax in percent"),
    "tax_category": text("Kind of tax"),
    "text": text("Comment"),
    "timezone": text("Time zone"),
    "title": text("Title"),
    "total": text("Amount"),
    "unit_price": text("Price of one"),
    "until": text("Until (UTC)"),
    "url": text("Address of the receiver"),
    "username": text("User name (basic authentication)"),
    "vat_id": text("VAT id"),
    "tax_number": text("Tax number"),
    "country": text("Country"),
}
"""The label that stands at the field on the page."""

_OFFERED = text("Choose one of the values that are offered for “%(field)s”.")
_MUST_BE = {
    "text of %(low)s to %(high)s characters": text("%(field)s must have %(low)s to %(high)s characters"),
    "text of at most %(high)s characters": text("%(field)s must have at most %(high)s characters"),
    "text of at most %(high)s bytes": text("%(field)s must have at most %(high)s characters"),
    "text of at least %(low)s characters": text("%(field)s must have at least %(low)s characters"),
    "at most %(high)s KiB of text": text("%(field)s must have at most %(high)s KiB of text"),
    "at most %(high)s KiB of text, counted as the markup that is stored": text(
        "%(field)s must have at most %(high)s KiB of text"
    ),
    "of at most %(high)s tags": text("%(field)s must have at most %(high)s tags"),
    "more than markup without text": text("%(field)s must have some text"),
    "text without colons and control characters": text("%(field)s must be text without colons"),
    "without NUL characters": text("%(field)s must not contain NUL characters"),
    "UTF-8": text("%(field)s must be text"),
    "a whole number": text("%(field)s must be a whole number"),
    "a whole number from %(low)s to %(high)s": text("%(field)s must be a whole number from %(low)s to %(high)s"),
    "a whole number of at most %(high)s": text("%(field)s must be a whole number of at most %(high)s"),
    "a whole number of at least %(low)s": text("%(field)s must be a whole number of at least %(low)s"),
    "a number of at most %(high)s": text("%(field)s must be a number of at most %(high)s"),
    "a number from 0 to 100 with at most four decimals": text(
        "%(field)s must be a number from 0 to 100 with at most four decimals"
    ),
    "a number of more than 0 and at most %(high)s, with at most six decimals": text(
        "%(field)s must be a number of more than 0 and at most %(high)s, with at most six decimals"
    ),
    "a number of at least 0 with at most two decimals": text(
        "%(field)s must be a number of at least 0 with at most two decimals"
    ),
    "a number of at least 0 with at most two decimals, and at most %(high)s": text(
        "%(field)s must be a number from 0 to %(high)s with at most two decimals"
    ),
    "a number of at least 0": text("%(field)s must be a number of at least 0"),
    "a number of at least 0, and at most %(high)s": text("%(field)s must be a number from 0 to %(high)s"),
    "more than 0": text("%(field)s must be more than 0"),
    "a number, or text of 1 to %(high)s characters": text("%(field)s must have 1 to %(high)s characters"),
    "a whole number of milliseconds, such as 5400000, or a text such as 1h 30m or 1:30": text(
        "%(field)s must be hours and minutes, such as 1:30"
    ),
    "a whole number of milliseconds, such as 5400000, or a text such as 1h 30m or 1:30, and at most %(high)s "
    "(%(days)s days)": text("%(field)s must be at most %(days)s days"),
    "a date such as 2026-11-20, or a time such as 2026-11-20T09:00:00Z, with Z or an offset": text(
        "%(field)s must be a date such as 2026-11-20"
    ),
    "a date such as 2026-11-20": text("%(field)s must be a date such as 2026-11-20"),
    "a date that exists, such as 2026-11-20": text("%(field)s must be a date that exists, such as 2026-11-20"),
    "a time such as 2026-11-20T09:00:00Z, with Z or an offset": text(
        "%(field)s must be a date and a time, such as 2026-11-20 09:00"
    ),
    "a time such as 2026-11-20T09:00:00Z": text("%(field)s must be a date and a time, such as 2026-11-20 09:00"),
    "a time from 1970 to 9998": text("%(field)s must be a time from 1970 to 9998"),
    "an http or https URL": text("%(field)s must be an address that begins with http:// or https://"),
    "an e-mail address": text("Enter a whole e-mail address, such as ada@example.com."),
    "an IBAN such as DE89 3704 0044 0532 0130 00: two letters, two digits, 11 to 30 letters or digits": text(
        "An IBAN has two letters, two digits, and 11 to 30 letters or digits, such as DE89 3704 0044 0532 0130 00."
    ),
    "an IBAN: one of %(country)s has %(wanted)s characters, this one has %(number)s": text(
        "An IBAN of %(country)s has %(wanted)s characters, this one has %(number)s."
    ),
    "an IBAN whose check digits are right; compare it with the bank's": text(
        "The check digits of the IBAN are wrong. Compare it with the bank's."
    ),
    "a BIC of 8 or 11 characters, such as COBADEFFXXX": text("A BIC has 8 or 11 characters, such as COBADEFFXXX."),
    "a country by its two letters (ISO 3166-1), such as DE": text("Write the country by its two letters, such as DE."),
    "the name of a time zone, such as Europe/Vienna": text(
        "%(field)s must be the name of a time zone, such as Europe/Vienna"
    ),
    "a VAT id with the letters of its country first, such as DE123456789": text(
        "A VAT id has the letters of its country first, such as DE123456789."
    ),
    "a VAT id as %(country)s writes them; compare it with the certificate": text(
        "%(country)s writes VAT ids in another form. Compare it with the certificate."
    ),
    "a tax number as the tax office writes it, such as 21/815/08150": text(
        "Write the tax number as the tax office does, such as 21/815/08150."
    ),
    "text with {number} once (or {number:05} for at least five digits, at most {number:09}), and at most once {year}, "
    "such as INV-{number:05} or {year}-{number:04}; no other braces": text(
        "The format needs the number once, such as INV-{number:05}, and has no other braces but those of the year."
    ),
    "a PNG or a JPEG": text("The logo must be a PNG or a JPEG"),
    "a currency of ISO 4217, such as EUR": text("%(field)s must be a currency, such as EUR"),
    "1 to %(most)s of A-Z a-z 0-9 . _ - without .git at the end": text(
        "The address must have 1 to %(most)s letters (a to z), digits, dots, hyphens and underscores, and not end "
        "with .git"
    ),
    "1 to %(most)s letters, digits and single hyphens": text(
        "The login must have 1 to %(most)s letters, digits and single hyphens"
    ),
    "the public half alone: keep the private key to yourself": text(
        "Enter the public key alone. Keep the private key to yourself."
    ),
    "the PEM of an RSA public key of %(low)s to %(high)s bits": text(
        "%(field)s must be an RSA key of %(low)s to %(high)s bits, in PEM form"
    ),
    "an RSA public key with the usual exponent, 65537, or another of at most 32 bits": text(
        "%(field)s must have the usual exponent, 65537, or another of at most 32 bits"
    ),
    "one of %(values)s": _OFFERED,
    "true or false": _OFFERED,
    "a list of text of %(low)s to %(high)s characters": text(
        "%(field)s: each must have %(low)s to %(high)s characters"
    ),
    "an object whose values are each %(values)s": text("%(field)s: there are too many, or one of them is too long"),
    "json or form": _OFFERED,
    "0 or 1": _OFFERED,
    "github, service or standard": _OFFERED,
    "seconds, at most %(most)s": _OFFERED,
    "a file, with a filename": text("Choose a file."),
    "one file": text("Choose one file."),
}
"""What the API says behind "%(field)s must be", and the page's sentence."""

OF_A_FIELD: Mapping[str, str] = {
    "%(field)s must be a recurrence rule (RRULE of RFC 5545), such as %(more)s": text(
        "This is no rule for days. Write one like FREQ=WEEKLY;BYDAY=MO or FREQ=MONTHLY;BYMONTHDAY=-1"
    ),
    "expires_at must be a time such as 2026-11-20T09:00:00Z, with Z or an offset": text(
        "The last day must be a date, such as 2026-11-20"
    ),
    "%(field)s is required": text("%(field)s must be filled in"),
    "%(field)s must not be empty": text("%(field)s must be filled in"),
    "%(field)s must not contain NUL": text("%(field)s must not contain NUL characters"),
    "%(field)s must be a string": text("%(field)s must be text"),
    "%(field)s is longer than %(most)s characters": text("%(field)s must have at most %(most)s characters"),
    "there is no parameter %(name)s": text("The form has a field that this page does not know. Reload the page."),
    # A field that may be empty: a form has no null.
    **{f"%(field)s must be {wanted} or null": sentence for wanted, sentence in _MUST_BE.items()},
    **{f"%(field)s must be {wanted}": sentence for wanted, sentence in _MUST_BE.items()},
}

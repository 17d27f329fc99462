"""Prometheus metrics of mail."""

from __future__ import annotations

from prometheus_client import Counter, Gauge

SENT = Counter("workhook_mail_sent_total", "Messages that the mail server took.")
FAILED = Counter(
    "workhook_mail_failed_total",
    "Messages that were given up: the address was refused (bounced), the message was (refused), or no attempt "
    "succeeded for two days (tried).",
    ["reason"],
)
RETRIES = Counter("workhook_mail_retries_total", "Failed attempts that will be repeated.")
WAITING = Gauge("workhook_mail_waiting", "Messages that wait to be sent, in the whole database.")
OLDEST = Gauge("workhook_mail_oldest_seconds", "Age of the oldest message that is due now, or 0.")
TROUBLE = Counter("workhook_mail_trouble_total", "Times that the mail server could not be used.")
ERRORS = Counter("workhook_mail_errors_total", "Errors of its own while it sent mail, which the log tells of.")

# A counter that appears with its first event hides that event from `increase()`.
for _reason in ("bounced", "refused", "tried"):
    FAILED.labels(_reason)

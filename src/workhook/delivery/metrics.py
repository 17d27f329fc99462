"""Prometheus metrics of deliveries and mail."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

DELIVERIES = Counter("workhook_deliveries_total", "Delivery attempts recorded, by outcome.", ["outcome"])
DELIVERED, FAILED = DELIVERIES.labels("success"), DELIVERIES.labels("failure")
DELIVERY_SECONDS = Histogram(
    "workhook_delivery_seconds",
    "Duration of a delivery attempt in seconds.",
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
)
QUEUE_SECONDS = Histogram(
    "workhook_queue_age_seconds",
    "Seconds from when a delivery was due until its attempt started.",
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30, 300, 3600),
)
RECORDED = Histogram(
    "workhook_record_batch_size",
    "Attempt outcomes recorded per transaction.",
    buckets=(1, 2, 4, 8, 16, 32, 64, 128, 512),
)
IN_FLIGHT = Gauge("workhook_deliveries_in_flight", "Delivery attempts in flight or waiting to be recorded.")
PENDING_HOOKS = Gauge("workhook_pending_hooks", "Webhooks with due deliveries or pending retries.")
LANES = Gauge("workhook_lanes_leased", "Webhooks with work that this process has loaded.")
WORKERS = Gauge("workhook_workers", "Delivering processes, as last seen by this process.")
LATE = Counter("workhook_late_records_total", "Delivery attempts that ended after their process had lost its lease.")
RETRIES = Counter("workhook_retries_scheduled_total", "Failed delivery attempts that will be retried.")
THROTTLED = Counter("workhook_throttled_total", "Deliveries held back by their webhook's own limits.")
TURNED_OFF = Counter(
    "workhook_hooks_turned_off_total",
    "Webhooks disabled because the receiver answered 410 (gone) or failed for five days (failing).",
    ["reason"],
)
TROUBLE = Counter("workhook_worker_trouble_total", "Failed steps of the worker, which are retried.", ["step"])
PRUNED = Counter("workhook_pruned_rows_total", "Rows removed because of their age.", ["table"])

# A counter that first appears with its first event hides that event from `increase()`, which alerts use.
for _step in ("attempt", "deactivate", "hung", "lease", "own", "record", "recorded", "secret", "send", "turn"):
    TROUBLE.labels(_step)
for _reason in ("failing", "gone"):
    TURNED_OFF.labels(_reason)


MAIL_SENT = Counter("workhook_mail_sent_total", "Messages accepted by the mail server.")
MAIL_FAILED = Counter(
    "workhook_mail_failed_total",
    "Messages abandoned because the address was rejected (bounced), the message was rejected (refused), or no "
    "attempt succeeded for two days (tried).",
    ["reason"],
)
MAIL_RETRIES = Counter("workhook_mail_retries_total", "Failed attempts to send a message that will be retried.")
MAIL_WAITING = Gauge("workhook_mail_waiting", "Messages waiting to be sent, in the whole database.")
MAIL_OLDEST = Gauge("workhook_mail_oldest_seconds", "Age of the oldest due message in seconds, or 0.")
MAIL_TROUBLE = Counter("workhook_mail_trouble_total", "Failures to reach the mail server.")
MAIL_ERRORS = Counter("workhook_mail_errors_total", "Internal errors while sending mail; see the log.")

# A counter that first appears with its first event hides that event from `increase()`.
for _reason in ("bounced", "refused", "tried"):
    MAIL_FAILED.labels(_reason)

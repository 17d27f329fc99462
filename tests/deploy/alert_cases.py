"""Samples for the alerts in the notation of `promtool test rules`, every two minutes for a little over six hours."""

from __future__ import annotations

EVERY = "2m"
LONG = 185
JOB = 'job="workhook"'
ONE = f'{JOB},instance="a:8000"'


def steady(value: float) -> str:
    return f"{value}x{LONG}"


def growing(by: float) -> str:
    """Return a counter that grows by this much every two minutes."""
    return f"0+{by}x{LONG}"


def late(values: str) -> str:
    """Return a counter that stays at 0 and takes these values shortly before the end."""
    return f"0x{LONG - 10} {values}"


def buckets(metric: str, seconds: float) -> dict[str, str]:
    """Return a histogram in which everything takes about `seconds`."""
    edges = (0.1, 1, 30, 300)
    series = {f'{metric}_bucket{{{ONE},le="{each:g}"}}': growing(60 if seconds <= each else 0) for each in edges}
    return {**series, f'{metric}_bucket{{{ONE},le="+Inf"}}': growing(60)}


UP = f"up{{{ONE}}}"
WORKERS = f"workhook_workers{{{ONE}}}"
FDS = f"process_open_fds{{{ONE}}}"
CLOCK = f"workhook_clock_ahead_seconds{{{ONE}}}"
FINE = f'workhook_requests_total{{{ONE},method="GET",route="/user",status="200"}}'
ERRORS = f'workhook_requests_total{{{ONE},method="GET",route="/user",status="503"}}'
DELIVERED = f'workhook_deliveries_total{{{ONE},outcome="success"}}'
FAILED = f'workhook_deliveries_total{{{ONE},outcome="failure"}}'
IN_FLIGHT = f"workhook_deliveries_in_flight{{{ONE}}}"
LATE = f"workhook_late_records_total{{{ONE}}}"
OPEN = f'workhook_database_connections{{{ONE},state="open"}}'
IDLE = f'workhook_database_connections{{{ONE},state="idle"}}'
WAITING = f"workhook_database_waiting_transactions{{{ONE}}}"
QUOTA = f'workhook_quota_organizations{{{ONE},state="full"}}'
SKIPPED = f'workhook_sweep_skipped_total{{{ONE},kind="file"}}'
MAIL_AGE = f"workhook_mail_oldest_seconds{{{ONE}}}"
MAIL_ERRORS = f"workhook_mail_errors_total{{{ONE}}}"
SPANS_LOST = f'workhook_spans_total{{{ONE},outcome="lost"}}'
PERIODS = f"workhook_checkout_periods_failed_total{{{ONE}}}"


def trouble(step: str) -> str:
    return f'workhook_worker_trouble_total{{{ONE},step="{step}"}}'


def turned_off(reason: str) -> str:
    return f'workhook_hooks_turned_off_total{{{ONE},reason="{reason}"}}'


def given_up(reason: str) -> str:
    return f'workhook_mail_failed_total{{{ONE},reason="{reason}"}}'


def rolled_back(outcome: str) -> str:
    return f'workhook_database_rolled_back_total{{{ONE},reason="deadlock",outcome="{outcome}"}}'


def files(code: str) -> str:
    return f'workhook_files_trouble_total{{{ONE},code="{code}"}}'


def chore(outcome: str) -> str:
    return f'workhook_chore_runs_total{{{ONE},chore="audit_log",outcome="{outcome}"}}'


# A healthy server. An occasional failure is normal.
HEALTHY: dict[str, str] = {
    UP: steady(1),
    WORKERS: steady(2),
    FDS: steady(200),
    f"process_max_fds{{{ONE}}}": steady(1024),
    CLOCK: steady(0.05),
    FINE: growing(600),
    ERRORS: growing(3),
    **buckets("workhook_request_seconds", 0.05),
    **buckets("workhook_queue_age_seconds", 0.05),
    DELIVERED: growing(100),
    FAILED: growing(20),
    IN_FLIGHT: steady(3),
    LATE: steady(0),
    **{trouble(each): steady(0) for each in ("hung", "lease", "secret", "record")},
    **{turned_off(each): steady(0) for each in ("gone", "failing")},
    OPEN: steady(5),
    IDLE: steady(3),
    WAITING: steady(2),
    rolled_back("again"): growing(1),
    rolled_back("refused"): steady(0),
    files("storage_full"): steady(0),
    files("storage_unavailable"): steady(0),
    QUOTA: steady(0),
    chore("success"): growing(1),
    chore("failure"): late("1x10"),
    SKIPPED: steady(0),
    PERIODS: steady(0),
    MAIL_AGE: steady(20),
    MAIL_ERRORS: steady(0),
    SPANS_LOST: steady(0),
    **{given_up(each): steady(0) for each in ("refused", "tried")},
    given_up("bounced"): growing(1),
}

# The only series that differ when an alert must fire. An empty value means that the series does not exist.
FIRING: dict[str, dict[str, str]] = {
    "WorkhookDown": {UP: steady(0)},
    "WorkhookMissing": {UP: ""},
    "WorkhookNothingDelivers": {WORKERS: steady(0)},
    "WorkhookOpenFiles": {FDS: steady(1000)},
    "WorkhookClockOff": {CLOCK: steady(-3)},
    "WorkhookErrors": {ERRORS: growing(60)},
    "WorkhookSlow": buckets("workhook_request_seconds", 20),
    "WorkhookQueueOld": buckets("workhook_queue_age_seconds", 200),
    "WorkhookDeliveriesStand": {DELIVERED: steady(7), FAILED: steady(1)},
    "WorkhookReceiversFail": {FAILED: growing(300)},
    "WorkhookHookTurnedOff": {turned_off("gone"): late("1x10")},
    "WorkhookWorkerHangs": {trouble("hung"): late("1x10")},
    "WorkhookLeaseLost": {LATE: late("2x10")},
    "WorkhookSecretUnreadable": {trouble("secret"): late("3x10")},
    "WorkhookWorkerTrouble": {trouble("record"): growing(1)},
    "WorkhookConnectionsTaken": {IDLE: steady(0)},
    "WorkhookTransactionsWait": {WAITING: steady(80)},
    "WorkhookTransactionsRefused": {rolled_back("refused"): late("1x10")},
    "WorkhookDiskFull": {files("storage_full"): late("1x10")},
    "WorkhookFilesUnavailable": {files("storage_unavailable"): late("1x10")},
    "WorkhookQuotaFull": {QUOTA: steady(1)},
    "WorkhookChoreFails": {chore("success"): steady(4), chore("failure"): growing(1)},
    "WorkhookRowsLeft": {SKIPPED: growing(1)},
    "WorkhookSubscriptionsStand": {PERIODS: growing(1)},
    "WorkhookMailStands": {MAIL_AGE: steady(2000)},
    "WorkhookMailGivenUp": {given_up("refused"): late("1x10")},
    "WorkhookMailErrors": {MAIL_ERRORS: late("1x10")},
    "WorkhookSpansLost": {SPANS_LOST: growing(1)},
}

"""Structured logs on standard error: readable on a terminal, JSON lines elsewhere."""

from __future__ import annotations

import logging
import sys
from collections.abc import MutableMapping
from typing import Any

import structlog

from workhook.core.text import underlying_stream, visible

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}


def configure(level: str = "info", style: str = "auto") -> None:
    """Configure structlog, and route the log records of libraries through it."""
    renderers: list[Any] = [structlog.processors.JSONRenderer()]
    as_text = style == "text" or (style == "auto" and sys.stderr.isatty())
    if as_text:
        # The default formatter would print the local variables of every frame, including payloads, tokens and secrets.
        renderers = [
            _make_visible,
            structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback),
        ]
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.StackInfoRenderer(),
            structlog.processors.format_exc_info,
            *renderers,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=structlog.PrintLoggerFactory(underlying_stream(sys.stderr)),
        cache_logger_on_first_use=False,
    )
    logging.captureWarnings(not as_text)
    root = logging.getLogger()
    root.handlers = [_ToStructlog()]
    root.setLevel(max(LEVELS[level], logging.WARNING))


def failure(**facts: object) -> None:
    """Log why the process ends. With `exc_info` set, the current exception is included."""
    structlog.get_logger(__name__).error("process_failed", **facts)


def start_line(text: str, style: str, **facts: object) -> str:
    """Return a line about the start of a process for standard output: plain text, or JSON if `style` is `json`."""
    if style != "json":
        return text
    entry: MutableMapping[str, Any] = {"event": text, **facts, "level": "info"}
    structlog.processors.TimeStamper(fmt="iso", utc=True)(None, "info", entry)
    return str(structlog.processors.JSONRenderer()(None, "info", entry))


def _make_visible(logger: Any, method: str, entry: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Escape control sequences, because entries quote untrusted input. JSON lines escape it anyway."""
    shown: MutableMapping[str, Any] = {}
    for name, value in entry.items():
        if isinstance(value, str):
            value = visible(value, keep="\n\t" if name in ("exception", "stack") else "")
        elif value is not None and not isinstance(value, int | float):
            value = visible(repr(value), keep="")
        shown[visible(name, keep="")] = value
    return shown


class _ToStructlog(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        structlog.get_logger(record.name).log(record.levelno, record.getMessage(), exc_info=record.exc_info)

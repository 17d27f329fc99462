"""The short sayings that pings carry."""

from __future__ import annotations

import random

PING_QUOTES: tuple[str, ...] = (
    "Say it once, and say it signed.",
    "What was written down can be told again.",
    "A slow reader holds up only its own post.",
    "Promise little, deliver at least once.",
    "Name things as those who use them do.",
    "An error that speaks is half mended.",
    "First make it durable, then make it known.",
    "The best retry is the one nobody notices.",
    "Every door has two sides: check both.",
    "Small steps leave short logs.",
    "Silence from a receiver is an answer too.",
    "Leave the desk as you would like to find it.",
)


def random_quote() -> str:
    """One saying, picked at random."""
    return random.choice(PING_QUOTES)  # noqa: S311 - nothing is kept secret by it

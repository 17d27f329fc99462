"""Short notices between the parts of a process and between processes: "hooks 3 and 7 have work", "hook 5 changed".

A signal is sent after a commit and may be lost (a crash, a broken connection). Listeners must also find out without it,
later; a signal only makes it sooner. `None` as ids means "anything may have changed".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable

import structlog

Listener = Callable[[frozenset[int] | None], None]
Forward = Callable[[str, frozenset[int]], None]

DUE = "due"  # hook ids that have a dispatch to send
HOOK = "hook"  # hook ids that were changed, turned off or deleted
EVENTS = "events"  # repository ids in which something happened
WORKERS = "workers"  # 0: processes that deliver have come or gone, or acknowledge that others did
FORMS = "forms"  # ids of sessions with a form that was answered
TOKENS = "tokens"  # token ids that were revoked or changed; 0: any may have

log = structlog.get_logger(__name__)


class Signals:
    """The listeners of this process. An engine that serves several processes sets `forward`."""

    def __init__(self) -> None:
        self._listeners: dict[str, list[Listener]] = defaultdict(list)
        self.forward: Forward | None = None

    def listen(self, topic: str, listener: Listener) -> Callable[[], None]:
        """Call `listener` for every signal of the topic until the returned function is called."""
        self._listeners[topic].append(listener)
        return lambda: self._listeners[topic].remove(listener)

    def send(self, topic: str, ids: Iterable[int]) -> None:
        """Tell this process and the others."""
        what = frozenset(ids)
        self.deliver(topic, what)
        if self.forward is not None:
            self.forward(topic, what)

    def deliver(self, topic: str, ids: frozenset[int] | None) -> None:
        """Tell this process only."""
        for listener in tuple(self._listeners[topic]):
            try:
                listener(ids)
            except Exception:
                log.exception("signal_listener_failed", topic=topic)

    def deliver_everything(self) -> None:
        """Signals may have been missed: tell every listener to look."""
        for topic in tuple(self._listeners):
            self.deliver(topic, None)

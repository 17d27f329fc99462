"""Short notices between the parts of a process and between processes: "hooks 3 and 7 have work", "hook 5 changed".

A signal is sent after a commit and may be lost in a crash or with a connection. Listeners must also find changes
without it; a signal only makes that faster. `None` as the IDs means "anything may have changed".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable

import structlog

Listener = Callable[[frozenset[int] | None], None]
Forward = Callable[[str, frozenset[int]], None]

DUE = "due"  # IDs of hooks with a dispatch to send
HOOK = "hook"  # IDs of hooks that were changed, disabled or deleted
EVENTS = "events"  # IDs of repositories with new events
WORKERS = "workers"  # always 0: delivering processes joined, left, or acknowledged that others did
FORMS = "forms"  # IDs of sessions whose form was answered
TOKENS = "tokens"  # IDs of tokens that were revoked or changed; 0: any token may be affected

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
        sent = frozenset(ids)
        self.deliver(topic, sent)
        if self.forward is not None:
            self.forward(topic, sent)

    def deliver(self, topic: str, ids: frozenset[int] | None) -> None:
        for listener in tuple(self._listeners[topic]):
            try:
                listener(ids)
            except Exception:
                log.exception("signal_listener_failed", topic=topic)

    def deliver_everything(self) -> None:
        """Make every listener check for changes, because signals may have been missed."""
        for topic in tuple(self._listeners):
            self.deliver(topic, None)

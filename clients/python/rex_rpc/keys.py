"""Names for requests, by which one that is sent again takes place once. Knows no method and sends nothing."""

from __future__ import annotations

import os
import threading
import typing as t

from .wire_gen import Key


class Keys:
    """Gives each new request a key of its own, and lets the server forget what has been answered.

    Send a request again with the key it had, over any connection, until it is answered; then it is `done`. With the next
    key the server learns that everything up to the first that is not done will never be asked for again.
    """

    def __init__(self, client: t.Optional[str] = None) -> None:
        """`client`: a name that nobody else has and had; absent: a random one, for what this process asks."""
        self.client = client or f"python-{os.urandom(8).hex()}"
        self._lock = threading.Lock()
        self._last = 0
        self._open: t.Set[int] = set()

    def new(self) -> Key:
        with self._lock:
            acked = min(self._open, default=self._last + 1) - 1
            self._last += 1
            self._open.add(self._last)
            return {"client": self.client, "seq": self._last, "acked": acked}

    def done(self, key: Key) -> None:
        """Its answer is here, an error too; it is never sent again."""
        with self._lock:
            self._open.discard(key["seq"])

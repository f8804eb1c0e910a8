"""What the tests of the relay share: chains of instances, neighbours that keep no rules, and what is told of hosts.

Must not know any scenario. Nothing here sleeps to let something happen.
"""

import pathlib
import queue

from rig import Rex, RpcError, alive, binary, until
from watching import WatchCase

SUPPORT = pathlib.Path(__file__).resolve().parents[1] / "support"


class RelayCase(WatchCase):
    """The class's instance has no hops of its own: these tests make theirs."""

    @classmethod
    def start_rex(cls):
        cls.rex = Rex(env=cls.environment(), hops=0)

    def near(self):
        """One more instance."""
        return self.spawn(env=self.environment(), hops=0)

    def hop(self, rex, path="hop", **params):
        """Connects the last name of `path` from where the others lead; tells what is known of it."""
        before, _, name = path.rpartition("/")
        params = params if "url" in params or "argv" in params else {"argv": [binary()], **params}
        for _ in range(3):
            try:
                return rex.call("host/connect", host=before, name=name, **params)
            except RpcError as error:  # a fake one on a busy machine may take longer than we give a greeting
                if "no greeting" not in str(error):
                    raise
        return rex.call("host/connect", host=before, name=name, **params)

    def place_of(self, rex):
        """The URL of an instance's own socket, once it is there."""
        path = until(lambda: next(self.folder_of_sockets().glob(f"{rex.pid}-*.sock"), None))
        self.assertTrue(path, "the instance has no socket")
        return f"unix://{path}"

    def chain(self, rex, *names):
        """Connects each name behind the one before; gives the pids and the path of the last."""
        pids, path = [], ""
        for name in names:
            path = f"{path}/{name}" if path else name
            pids.append(pid_of(self.hop(rex, path)))
        return pids, path

    def script(self, text):
        """An argv that runs a shell script in place of a rex-rpc."""
        place = self.own_folder / f"rex-rpc-{len(list(self.own_folder.iterdir()))}"
        place.write_text(f"#!/bin/sh\n{text}\n")
        place.chmod(0o755)
        return [str(place)]

    def fake(self, *lines):
        """An argv that runs these lines of Python, with fake_instance.py's words."""
        code = self.own_folder / f"fake{len(list(self.own_folder.iterdir()))}.py"
        code.write_text("from fake_instance import *\n" + "\n".join(lines) + "\n")
        return self.script(f"exec env PYTHONPATH={SUPPORT} python3 {code}")


def pid_of(info):
    return int(info["machine"]["instance"].split("-")[0])


def told(rex, method="host/status", timeout=60, **members):
    """The next notification of a method whose params have these members; others are passed over."""
    while True:
        try:
            message = rex.notifications.get(timeout=timeout)
        except queue.Empty:
            raise AssertionError(f"no {method} with {members}; {rex.diagnosis()}") from None
        params = message["params"]
        if message["method"] == method and all(params.get(name) == value for name, value in members.items()):
            return message if "id" in message else params


def everything_told(rex):
    """All notifications that have come; asks once, so that what was sent before the answer has come."""
    rex.call("ping")
    messages = []
    while not rex.notifications.empty():
        messages.append(rex.notifications.get_nowait())
    return messages


def gone(case, *pids):
    for pid in pids:
        case.assertTrue(until(lambda pid=pid: not alive(pid), 30), f"{pid} is still there")

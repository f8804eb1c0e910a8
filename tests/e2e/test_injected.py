"""When the kernel says no (L10): one system call of the program fails, the first, the second, and so on to the last.

Whatever it was, a call is answered, with a result or by the name of what is wrong; nothing is left behind, and the next
session is as good as any. What cannot even begin says why and ends.
"""

import re
import subprocess
import unittest

from rig import LONG, Rex, RexCase, RpcError, alive, binary, family, is_sanitized, needs, until

# (system call, what the kernel may say)
POINTS = [
    ("openat", "EMFILE"), ("pipe2", "EMFILE"), ("memfd_create", "EMFILE"), ("socketpair", "EMFILE"),
    ("clone3", "EAGAIN"), ("clone", "EAGAIN"), ("epoll_ctl", "ENOMEM"), ("fcntl", "EINVAL"),
    ("sendmsg", "ENOBUFS"), ("sendto", "ENOBUFS"), ("recvfrom", "EINTR"), ("write", "EINTR"), ("read", "EINTR"),
    ("pwrite64", "ENOSPC"), ("pread64", "EIO"), ("ftruncate", "EIO"), ("timerfd_settime", "EINVAL"),
    ("getdents64", "EIO"), ("epoll_wait", "EINTR"), ("readlink", "EACCES"), ("newfstatat", "EACCES"),
]
TYPED = {"OsError", "StartFailed", "LimitExceeded", "SessionNotFound", "SessionEnded"}


def can_inject():
    probe = ["strace", "-D", "-qq", "-o", "/dev/null", "-e", "inject=ftruncate:error=EIO:when=1", "true"]
    return subprocess.run(probe, check=False, capture_output=True).returncode == 0


@needs("strace")
@unittest.skipIf(is_sanitized(), "cannot run here: a sanitizer makes calls of its own")
class Injected(RexCase):
    @classmethod
    def setUpClass(cls):
        if not can_inject():
            raise unittest.SkipTest("cannot run here: strace may not trace")
        super().setUpClass()

    def life(self, rex):
        """A session and what else there is, from a start to an end: the kinds of what was refused."""
        refused = []

        def call(method, **params):
            try:
                return rex.call(method, **params)
            except RpcError as error:
                refused.append(error.type)
                return None

        call("session/create", session="s", shell="bash")
        call("session/run", session="s", command="echo hi; (exit 3)")
        call("process/run", command="echo one-off")
        call("file/write", path=str(self.folder / "file"), data="x")
        call("session/create", session="p", argv=["cat"], tty=False)
        call("session/close", session="p", graceMs=100)
        call("session/close", session="s", graceMs=100)
        return refused

    def traced(self, *options):
        trace = self.folder / "trace"
        return Rex(["strace", "-D", "-q", "-o", str(trace), *options, binary(), "--private"]), trace

    def count(self):
        """How often a life makes each call: before it has made its loop, which is mostly the loader's work, and in all."""
        rex, trace = self.traced("-e", "trace=epoll_create1," + ",".join(sorted({call for call, _ in POINTS})))
        self.assertEqual(self.life(rex), [])
        rex.close()
        self.assertTrue(until(lambda: "+++ exited" in trace.read_text()))
        begun = trace.read_text().index("epoll_create1(")
        places = {call: [match.start() for match in re.finditer(rf"^{call}\(", trace.read_text(), re.MULTILINE)]
                  for call, _ in POINTS}
        return {call: (sum(place < begun for place in at), len(at)) for call, at in places.items()}

    def test_L10_whichever_call_fails_it_is_told_and_what_comes_after_works(self):
        counts = self.count()
        for call, errno in POINTS:
            before, count = counts[call]
            every = 1 if LONG else max(1, (count - before) // 2)  # in a short run two or three of each
            for when in range(before + 1, count + 1, every):
                with self.subTest(call=call, errno=errno, when=when):
                    self.one(call, errno, when)

    def one(self, call, errno, when):
        rex, _ = self.traced("-e", f"trace={call}", "-e", f"inject={call}:error={errno}:when={when}")
        try:
            refused = self.life(rex)
            if None not in refused:  # else it could not even begin
                refused += self.life(rex) if not refused else []  # it had not been its turn yet
                self.assertLessEqual(set(refused), TYPED)
                after = rex.session("after", shell="dash")
                self.ended(after.run("echo after; (exit 7)"), 7, output="after\n")
                self.assertEqual(after.call("close")["survivors"], [])
            pids = list(family(rex.process.pid))
            code = rex.close()
            self.assertTrue(code == 0 or (code == 1 and "rex-rpc: " in "".join(rex.stderr)), (code, rex.stderr))
            self.assertTrue(until(lambda: not any(alive(pid) for pid in pids), 2))
        finally:
            rex.kill()


if __name__ == "__main__":
    unittest.main()

"""What the tests of terminals share: the same program in a session of ours and in a tmux of the same size.

Must not know any one program. Whatever is compared is waited for; nothing here sleeps.
"""

import os
import shutil
import subprocess
import unicodedata
import uuid

from rig import RexCase, until

TERM = "xterm-256color"
ROWS, COLS = 24, 80


def environment(home):
    return {"TERM": TERM, "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "HOME": str(home), "PATH": os.environ["PATH"]}


class Tmux:
    """A program in a tmux server of its own: the reference."""

    def __init__(self, folder, argv, env, rows=ROWS, cols=COLS):
        self.socket = str(folder / f"tmux-{uuid.uuid4().hex[:8]}")
        config = folder / "tmux.conf"
        config.write_text(f"set -g status off\nset -g default-terminal {TERM}\nset -g escape-time 0\n")
        variables = [word for name, value in env.items() for word in ("-e", f"{name}={value}")]
        self.call("-f", str(config), "new-session", "-d", "-x", str(cols), "-y", str(rows), *variables, *argv, env=env)

    def call(self, *words, env=None):
        command = ["tmux", "-S", self.socket, *words]
        done = subprocess.run(command, env=env, capture_output=True, text=True, encoding="utf-8", timeout=30)
        assert done.returncode == 0, done
        return done.stdout

    def keys(self, *keys):
        for key in keys:
            self.call("send-keys", *(("-l", "--", key) if len(key) == 1 else ("--", key)))

    def screen(self):
        lines = self.call("capture-pane", "-p").split("\n")[:-1]
        col, row = map(int, self.call("display-message", "-p", "#{cursor_x} #{cursor_y}").split())
        return lines, (row, col)

    def close(self):
        subprocess.run(["tmux", "-S", self.socket, "kill-server"], capture_output=True, timeout=30, check=False)


class TerminalCase(RexCase):
    def program(self, *argv, rows=ROWS, cols=COLS, **options):
        """A session of `argv` as an agent would start it, with a terminal that can do something."""
        env = environment(self.own_folder)
        return self.fresh(None, argv=list(argv), rows=rows, cols=cols, env=env, **options)

    def reference(self, *argv, rows=ROWS, cols=COLS):
        tmux = Tmux(self.own_folder, argv, environment(self.own_folder), rows, cols)
        self.addCleanup(tmux.close)
        return tmux

    @staticmethod
    def shown(session):
        view = session.call("screen")
        return view["lines"], (view["cursor"]["row"], view["cursor"]["col"])

    def shows(self, session, text):
        """Waits until `text` stands on the screen; returns the screen."""
        view = until(lambda: text in "\n".join((seen := session.call("screen"))["lines"]) and seen)
        self.assertTrue(view, f"no {text!r} on {session.call('screen')}")
        return view

    def same(self, session, tmux, ready, but=lambda lines: lines):
        """Both come to show the same text with the cursor at the same place, once `ready` stands on the reference.

        `but` takes out of both what is known to differ.
        """

        def compare():
            theirs, ours = tmux.screen(), self.shown(session)
            done = ready in "\n".join(theirs[0])
            return done and (but(theirs[0]), theirs[1]) == (but(ours[0]), ours[1])

        if not until(compare):
            theirs, ours = tmux.screen(), self.shown(session)
            self.assertIn(ready, "\n".join(theirs[0]))
            self.assertEqual((but(ours[0]), ours[1]), (but(theirs[0]), theirs[1]))

    def both(self, session, tmux, *keys):
        session.call("write", keys=list(keys))
        tmux.keys(*keys)


def has_controls(text):
    return any(unicodedata.category(c) == "Cc" for c in text)


def editor():
    """vim by one of its names."""
    return next((name for name in ("vim", "vim.tiny", "vi") if shutil.which(name)), "vim.tiny")

"""The Emacs package in a real Emacs: without a screen (rex-rpc-tests.el), and in a terminal whose screen is read.

$REX_RPC is the program. Needs emacs and tmux.
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tests" / "e2e"), str(ROOT / "tests" / "support"), str(ROOT / "editors" / "support")]

from editor_world import EditorCase  # noqa: E402
from rig import needs  # noqa: E402
from rex import binary  # noqa: E402

PACKAGE = ROOT / "editors" / "emacs"
DEADLINE = 300


@needs("emacs")
class WithoutScreen(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="rex-emacs-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def emacs(self, *arguments, **environment):
        done = subprocess.run(["emacs", "--batch", "-Q", *arguments], text=True, capture_output=True, timeout=DEADLINE,
                              env={**os.environ, "HOME": self.folder, "LC_ALL": "C.UTF-8", **environment},
                              cwd=self.folder, check=False, stdin=subprocess.DEVNULL)
        return done.returncode, done.stdout + done.stderr

    def compiled(self):
        """A copy of the package with its bytecode, and what the compiler said."""
        for file in PACKAGE.glob("*.el"):
            shutil.copy(file, self.folder)
        files = sorted(str(file) for file in pathlib.Path(self.folder).glob("*.el"))
        return self.emacs("-L", self.folder, "-f", "batch-byte-compile", *files)

    def test_it_compiles_without_a_warning(self):
        code, said = self.compiled()
        self.assertEqual(code, 0, said)
        self.assertNotIn("Warning", said)
        self.assertNotIn("Error", said)

    def test_its_documentation_is_in_order(self):
        files = " ".join(json.dumps(str(file)) for file in sorted(PACKAGE.glob("*.el")))
        code, said = self.emacs("--eval", "(require 'checkdoc)",
                                "--eval", "(setq checkdoc-force-docstrings-flag nil)",
                                "--eval", f"(dolist (file '({files})) (checkdoc-file file))")
        self.assertEqual((code, said), (0, ""))

    def check(self, hops):
        self.compiled()
        counts = pathlib.Path(self.folder) / "counts"
        counts.touch()
        work = pathlib.Path(self.folder) / "work"
        work.mkdir()
        counting = [sys.executable, str(ROOT / "editors" / "support" / "counting.py"), str(counts),
                    os.path.abspath(binary())]
        code, said = self.emacs("-L", self.folder, "-l", str(PACKAGE / "tests" / "rex-rpc-tests.el"),
                                "-f", "ert-run-tests-batch-and-exit",
                                REX_RPC=os.path.abspath(binary()), REX_TEST_HOPS=str(hops), REX_TEST_COUNTS=str(counts),
                                REX_TEST_FOLDER=str(work), REX_TEST_COMMAND=json.dumps(counting),
                                XDG_RUNTIME_DIR=self.folder)
        self.assertEqual(code, 0, said)

    def test_here(self):
        self.check(0)

    def test_two_hosts_away(self):
        self.check(2)


@needs("emacs", "tmux")
class OnAScreen(EditorCase):
    def editor(self, hosts=None, env=None):
        """An Emacs in a terminal; `hosts` are its `rex-rpc-hosts`."""
        entries = " ".join(f'("{name}" :argv [{" ".join(map(json.dumps, target["argv"]))}])' for name, target in (hosts or {}).items())
        setup = (f'(setq rex-rpc-command \'("{os.path.abspath(binary())}") rex-rpc-hosts \'({entries}) '
                 'rex-rpc-shell \'("/bin/bash" "--norc" "--noprofile" "-i") inhibit-startup-screen t)')
        emacs = self.start(["emacs", "-nw", "-Q", "-L", str(PACKAGE), "-l", "rex-rpc", "--eval", setup], env)
        emacs.shows("*scratch*")  # before that, keys are the terminal's
        return emacs

    @staticmethod
    def meta_x(emacs, *words):
        emacs.keys("M-x")
        for word in words:
            emacs.type(f"{word}\r")

    @staticmethod
    def from_terminal(emacs, *words):
        """M-x out of a terminal buffer, whose keys are the program's behind C-c."""
        emacs.keys("C-c", "M-x")
        for word in words:
            emacs.type(f"{word}\r")

    def terminal_on(self, host, hosts):
        emacs = self.editor(hosts)
        self.meta_x(emacs, "rex-shell", host)
        emacs.shows("bash-5")
        return emacs

    def shell_ends_with_its_code(self, host, hosts):
        self.check_terminal(host, hosts, "eterm-color", "27 99").shows("exited abnormally with code 3")

    def test_a_shell_here_in_a_buffer(self):
        self.shell_ends_with_its_code("", None)

    def test_a_shell_two_hosts_away_in_a_buffer(self):
        self.shell_ends_with_its_code("hop/hop", self.hops())

    def test_a_dropped_link_is_said_and_the_terminal_goes_on_by_itself(self):
        emacs = self.terminal_on("hop/hop", self.hops())
        self.check_link_heals(emacs)
        self.from_terminal(emacs, "eval-expression", "(* 6 7)")
        emacs.shows("42 (#o52")

    def test_a_shell_that_ended_behind_a_dropped_link_is_said_and_another_is_begun(self):
        emacs = self.terminal_on("hop/hop", self.hops())
        self.end_session_behind_a_cut_link()
        emacs.shows("there is no session")
        emacs.shows("code 255")
        self.meta_x(emacs, "rex-reconnect")
        emacs.shows("this is a new one")
        emacs.comes_to_show("echo again$((1+1))\r", "again2")

    def test_shells_on_hosts_end_with_the_editor(self):
        emacs = self.terminal_on("hop/hop", self.hops())
        self.assertEqual(len(self.sessions()), 1)
        self.from_terminal(emacs, "kill-emacs")
        self.check_nothing_is_left()

    def test_a_session_of_an_agent_is_watched_replayed_taken_over_and_handed_back(self):
        agent, session = self.agent()
        session.run("echo before; seq 3")
        emacs = self.editor()
        self.meta_x(emacs, "rex-attach", session.name)
        emacs.shows("before")
        session.run("echo of the agent")
        emacs.shows("of the agent")
        emacs.type("x")
        emacs.shows("only watching")
        asked = session.start("run", command="read -p 'Go on? ' x; echo said $x", returnOnInput=False)
        emacs.shows("Go on?")
        self.from_terminal(emacs, "rex-take")
        emacs.shows("[rex: typing]")
        emacs.picture("emacs-take-over")
        emacs.type("yes\r")
        self.assertIn("said yes", asked.result()["output"])
        self.refused("NotWriter", session.run, "echo no")
        emacs.shows(f"{session.info['cwd']} $")  # the agent's shell is free, and the editor knows
        emacs.type("p")  # a line of one's own
        emacs.shows("$ p")
        emacs.type("wd; echo by hand\r")
        emacs.shows("\nby hand")
        self.from_terminal(emacs, "rex-watch")
        emacs.shows("[rex: watching]")
        self.assertEqual(session.output("echo mine again"), "mine again\n")
        emacs.shows("mine again")
        os.kill(agent.pid, signal.SIGKILL)
        emacs.shows("is lost: end of input]")  # and does not say that it goes on
        emacs.shows("code 255")

    @needs("sshd", "unshare")
    @unittest.skipUnless(os.getuid() == 0, "cannot run here: sshd with a PAM of its own needs root")
    def test_a_password_is_asked_for_hidden(self):
        environment = self.host_with_password("ala kazam")
        config = self.folder / ".config" / "rex-rpc"
        config.mkdir(parents=True)
        (config / "hosts.json").write_text('{"hosts": {"far": {"url": "ssh://far"}}}')
        emacs = self.editor(env=environment)
        self.meta_x(emacs, "rex-shell", "far")
        emacs.shows("asks for a password")
        emacs.type("ala kazam\r")
        emacs.shows("bash-5")
        self.assertNotIn("kazam", emacs.text())
        emacs.comes_to_show("echo over$((1+1))\r", "over2")
        emacs.keys("C-c", "C-f")
        emacs.keys("C-a", "C-k")
        emacs.type("/rex:far:/etc/hostname\r")
        emacs.shows("-F1  hostname")


if __name__ == "__main__":
    unittest.main()

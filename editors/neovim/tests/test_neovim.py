"""The Neovim plugin in a real Neovim: without a screen (spec_*.lua), and in a terminal whose screen is read.

$REX_RPC is the program. Needs nvim and tmux.
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

PLUGIN = ROOT / "editors" / "neovim"
DEADLINE = 300
NVIM = ["nvim", "-u", "NONE", "-i", "NONE", "-n", "--cmd", f"set rtp^={PLUGIN}", "--cmd",
        f"lua package.path = package.path .. ';{PLUGIN}/tests/?.lua'", "--cmd", "runtime plugin/rex.lua"]


@needs("nvim")
class WithoutScreen(unittest.TestCase):
    def spec(self, name, hops):
        folder = tempfile.mkdtemp(prefix="rex-nvim-")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        (pathlib.Path(folder) / "work").mkdir()
        counts = f"{folder}/counts"
        pathlib.Path(counts).touch()
        counting = [sys.executable, str(ROOT / "editors" / "support" / "counting.py"), counts, os.path.abspath(binary())]
        environment = {
            **os.environ, "REX_RPC": os.path.abspath(binary()), "REX_TEST_HOPS": str(hops), "REX_TEST_COUNTS": counts,
            "REX_TEST_FOLDER": f"{folder}/work", "REX_TEST_COMMAND": json.dumps(counting), "HOME": folder,
            "XDG_RUNTIME_DIR": folder,
        }
        done = subprocess.run([*NVIM, "--headless", "-c", f"luafile {PLUGIN}/tests/{name}.lua"], env=environment, text=True,
                              cwd=folder, capture_output=True, timeout=DEADLINE, check=False, stdin=subprocess.DEVNULL)
        said = done.stdout + done.stderr
        self.assertIn("ok ", done.stdout, said)
        self.assertNotIn("FAILED", done.stdout, said)
        self.assertEqual(done.returncode, 0, said)

    def test_files_here(self):
        self.spec("spec_files", 0)

    def test_files_two_hosts_away(self):
        self.spec("spec_files", 2)

    def test_commands_here(self):
        self.spec("spec_run", 0)

    def test_commands_two_hosts_away(self):
        self.spec("spec_run", 2)


@needs("nvim", "tmux")
class OnAScreen(EditorCase):
    def editor(self, hosts=None, env=None):
        """A Neovim in a terminal; `hosts` are those of its setup()."""
        config = self.folder / "init.lua"
        setup = {"command": [os.path.abspath(binary())], "shell": ["/bin/bash", "--norc", "--noprofile", "-i"]}
        text = json.dumps({**setup, "hosts": hosts or {"unused": {"argv": ["true"]}}})
        config.write_text(f"vim.opt.shortmess:append('I')\nrequire('rex').setup(vim.json.decode([==[{text}]==]))\n")
        nvim = self.start([*NVIM, "-c", f"luafile {config}"], env)
        nvim.shows("[No Name]")  # before that, keys are the terminal's
        return nvim

    def terminal_on(self, host, hosts):
        nvim = self.editor(hosts)
        nvim.type(f":Rex {host}\r")
        nvim.shows("bash-5")
        return nvim

    def shell_ends_with_its_code(self, host, hosts):
        nvim = self.check_terminal(host, hosts, "xterm-256color", "28 100")
        nvim.shows("[rex: exited 3]")
        nvim.command("echo 'code' b:rex_exit_code")
        nvim.shows("code 3")

    def test_a_shell_here_in_a_buffer(self):
        self.shell_ends_with_its_code("", None)

    def test_a_shell_two_hosts_away_in_a_buffer(self):
        self.shell_ends_with_its_code("hop/hop", self.hops())

    def test_a_full_screen_program_in_a_buffer(self):
        nvim = self.terminal_on("", None)
        nvim.type("printf 'line %s\\n' $(seq 200) | less\r")
        nvim.shows("line 20")
        nvim.type("G")
        nvim.shows("line 200")
        nvim.type("q")
        nvim.comes_to_show("clear; echo back$((1+1))\r", "back2")

    def test_a_dropped_link_is_said_and_the_terminal_goes_on_by_itself(self):
        nvim = self.terminal_on("hop/hop", self.hops())
        self.check_link_heals(nvim)
        nvim.command("echo 'alive' 6*7")
        nvim.shows("alive 42")

    def test_a_shell_that_ended_behind_a_dropped_link_is_said_and_enter_begins_another(self):
        nvim = self.terminal_on("hop/hop", self.hops())
        self.end_session_behind_a_cut_link()
        nvim.shows("there is no session")
        nvim.type("\r")
        nvim.shows("this is a new one")
        nvim.comes_to_show("echo again$((1+1))\r", "again2")

    def test_shells_on_hosts_end_with_the_editor(self):
        nvim = self.terminal_on("hop/hop", self.hops())
        self.assertEqual(len(self.sessions()), 1)
        nvim.command("qall!")
        self.check_nothing_is_left()

    def test_a_session_of_an_agent_is_watched_replayed_taken_over_and_handed_back(self):
        agent, session = self.agent()
        session.run("echo before; read -p 'Name? ' name <<<x; seq 30")
        nvim = self.editor()
        nvim.command(f"RexAttach {session.name}")
        nvim.shows("30")
        session.run("echo of the agent")
        nvim.shows("of the agent")
        nvim.type("ix")
        nvim.shows("only watching")
        asked = session.start("run", command="read -p 'Go on? ' x; echo said $x", returnOnInput=False)
        nvim.shows("Go on?")
        nvim.command("RexTake")
        nvim.shows("typing into")
        nvim.picture("neovim-take-over")
        nvim.type("iyes\r")
        self.assertIn("said yes", asked.result()["output"])
        self.refused("NotWriter", session.run, "echo no")
        nvim.shows(f"{session.info['cwd']} $")  # the agent's shell is free, and the editor knows
        nvim.type("p")  # a line of one's own
        nvim.shows("$ p")
        nvim.type("wd; echo by hand\r")
        nvim.shows("\nby hand")
        nvim.command("RexWatch")
        nvim.shows("watching ")
        self.assertEqual(session.output("echo mine again"), "mine again\n")
        nvim.shows("mine again")
        self.assertEqual(agent.call("session/info", session=session.name)["rows"], session.info["rows"])
        os.kill(agent.pid, signal.SIGKILL)
        nvim.shows("is lost: end of input; Enter")  # and does not say that it goes on

    def test_a_session_is_picked_from_all_there_are(self):
        _, session = self.agent()
        waiting = session.run("read -p 'Proceed? ' x")
        self.assertEqual(waiting["state"], "waitingInput")
        nvim = self.editor({"gpu": {"argv": ["true"]}})
        nvim.command("RexPick")
        nvim.shows("new shell on gpu")
        nvim.shows("Proceed?")
        nvim.picture("neovim-pick")
        nvim.type("3\r")
        nvim.shows("Proceed?")
        nvim.command("file")
        nvim.shows(f"/{session.name}\"")

    @needs("sshd", "unshare")
    @unittest.skipUnless(os.getuid() == 0, "cannot run here: sshd with a PAM of its own needs root")
    def test_a_password_is_asked_for_hidden_and_who_does_not_answer_is_asked_again_on_the_next_try(self):
        environment = self.host_with_password("ala kazam")
        nvim = self.editor(env=environment)
        nvim.type(":Rex ssh://far\r")
        nvim.shows("asks for a password")
        nvim.type("\r")
        nvim.shows("tries again")
        nvim.loses("asks for a password")
        nvim.command("RexReconnect")
        nvim.shows("asks for a password")
        nvim.type("ala kazam\r")
        nvim.shows("bash-5")
        self.assertNotIn("kazam", nvim.text())
        nvim.type("i")
        nvim.comes_to_show("echo over$((1+1))\r", "over2")


if __name__ == "__main__":
    unittest.main()

"""How sessions start: `startup` and its report, and files of a user's that print, read, fail, exit, exec or hang.

Must not know how a shell is made to report. Where a start cannot end, it is given a second; nothing else waits for time.
"""

import os
import unittest

from rig import RexCase, RpcError, in_shells, needs, until

# Where each shell reads what its user wrote for an interactive start.
FILES = {"bash": ".bashrc", "dash": ".rc", "zsh": ".zshrc", "fish": ".config/fish/config.fish"}
SH = ("bash", "dash", "zsh")

# (what the file says, in which shells, what of the report or of the refusal must be there)
READY = [
    ("echo hello", ("bash", "dash", "zsh", "fish"), {"output": "hello\n"}),
    ("printf 'no line end'; nosuchcommand; false", ("bash", "dash", "zsh", "fish"), {"output": "nosuchcommand"}),
    ("head -c 1000000 /dev/zero | tr '\\0' x", ("bash", "dash", "zsh", "fish"), {"output": "xxxx"}),
    ("read answer; echo got", ("bash", "zsh"), {"warnings": "standard input", "output": "got"}),
    ("if true; then", SH, {}),
    ("if true", ("fish",), {}),
    ("echo before; exit 7", ("fish",), {"output": "before"}),  # which ends its file and no more
    ("set -eu", SH, {}),
    ("set -x; set -v", SH, {}),
    ("stty -echo -isig; stty raw", ("bash", "dash", "zsh", "fish"), {"warnings": ""}),
    ("trap 'echo bye' EXIT; trap '' INT; PS1='$(echo x) > '; PS2='? '", SH, {}),
    ("alias cd=false printf=false trap=false .=false; unset PATH", SH, {}),
    ("cd() { :; }; set() { :; }; printf() { :; }; IFS=/0123456789", ("bash", "zsh"), {}),
    ("sleep 100 & cd /usr", SH, {}),
]
REFUSED = [
    ("echo before; exit 7", SH, ("ended", "exit code 7"), "before"),
    ("echo before; kill -9 $$", SH, ("ended",), "before"),
    ("echo before; sleep 100", ("bash", "dash", "zsh", "fish"), ("in time",), "before"),
    ("echo before; while :; do :; done", SH, ("in time",), "before"),
    ("echo before; cat", ("bash", "dash", "zsh", "fish"), ("in time",), "before"),
    ("echo before; exec sleep 100", ("bash", "dash", "zsh", "fish"), (), "before"),
    ("read answer", ("dash", "fish"), ("in time",), ""),
    ("exec >/dev/null 2>&1 </dev/tty", ("bash", "zsh"), ("standard input",), ""),
    ("exec zsh -f", ("bash",), (), ""),
]


class Startup(RexCase):
    def home(self, shell, text, number=0):
        home = self.own_folder / f"{shell}-{number}"
        file = home / FILES[shell]
        file.parent.mkdir(parents=True)
        file.write_text(text + "\n")
        return file, {"HOME": str(home), "XDG_CONFIG_HOME": None, "ENV": str(file) if shell == "dash" else None}

    def works(self, session, code="(exit 3)"):
        code = "sh -c 'exit 3'" if session.info["shell"] == "fish" else code
        self.ended(session.run("PATH=/usr/bin:/bin" if session.info["shell"] != "fish" else "true"))
        session.run("set +eux")
        for _ in range(3):
            self.ended(session.run(f"echo one; {code}"), 3, output="one\n")

    def test_H9_a_file_that_leaves_a_printer_behind_changes_no_code_and_no_end(self):
        for shell in SH:
            with self.subTest(shell=shell):
                _, env = self.home(shell, "(while :; do echo noise; sleep 0.01; done) &")
                session = self.fresh(shell, startup="interactive", env=env)
                for number in range(10):
                    done = session.run(f"echo one; sleep 0.02; echo two; (exit {number})")
                    self.ended(done, number)
                    said = done["output"].splitlines()
                    self.assertEqual([line for line in said if line != "noise"], ["one", "two"])
                self.assertIn("noise", session.run("sleep 0.1")["output"])

    @needs("zsh", "fish")
    def test_D8_no_file_of_a_start_breaks_a_session_for_good(self):
        """Those that can end are ready, with what was read and said; the others are refused by the file's name; and a
        clean start is never touched."""
        calls = []
        for number, (text, shells, facts, output) in enumerate(REFUSED):
            for shell in shells:
                file, env = self.home(shell, text, f"refused-{number}")
                calls.append((text, shell, file, env, facts, output, self.rex.start(
                    "session/create", session=f"refused-{shell}-{number}", shell=shell, startup="interactive", env=env,
                    startupTimeoutMs=10_000 if "ended" in facts else 1500)))
        for number, (text, shells, report) in enumerate(READY):
            for shell in shells:
                with self.subTest(text=text, shell=shell):
                    file, env = self.home(shell, text, number)
                    session = self.fresh(shell, startup="interactive", env=env)
                    startup = session.call("info")["startup"]
                    self.assertIn(str(file), startup["sourced"])
                    self.assertIn(report.get("output", ""), startup["output"])
                    self.assertLessEqual(len(startup["output"]), 70_000)
                    if "warnings" in report:
                        self.assertIn(report["warnings"], "".join(startup["warnings"]))
                    if "PS1" not in text:
                        self.works(session)
                    session.call("close", graceMs=100)
        for text, shell, file, env, facts, output, call in calls:
            with self.subTest(text=text, shell=shell):
                with self.assertRaises(RpcError) as caught:
                    call.result()
                error = caught.exception
                self.assertEqual(error.type, "StartFailed", error)
                for fact in (*facts, str(file), 'startup "clean"'):
                    self.assertIn(fact, error.message)
                self.assertIn(output, error.data["output"])
                clean = self.fresh(shell, env=env)
                self.assertEqual(clean.info["startup"]["output"], "")
                self.works(clean)
                clean.call("close", graceMs=100)
        names = [info["session"] for info in self.rex.call("session/list")["sessions"]]
        self.assertFalse([name for name in names if name.startswith("refused")])

    @needs("zsh", "fish")
    def test_D9_a_login_reads_what_a_login_reads_and_says_so(self):
        for shell, names in (("bash", [".bash_profile"]), ("dash", [".profile"]),
                             ("zsh", [".zshenv", ".zprofile", ".zshrc", ".zlogin"]), ("fish", [".config/fish/config.fish"])):
            with self.subTest(shell=shell):
                home = self.own_folder / f"login-{shell}"
                for name in [*names, ".profile"]:
                    (home / name).parent.mkdir(parents=True, exist_ok=True)
                    (home / name).write_text(f"echo read {name}\n")
                env = {"HOME": str(home), "XDG_CONFIG_HOME": None, "ENV": None, "ZDOTDIR": None}
                startup = self.fresh(shell, startup="login", env=env).info["startup"]
                self.assertEqual([path for path in startup["sourced"] if path.startswith(str(home))],
                                 [str(home / name) for name in names])
                self.assertEqual([line for line in startup["output"].splitlines() if line.startswith("read ")],
                                 [f"read {name}" for name in names])
                self.assertGreaterEqual(startup["durationMs"], 0)
                clean = self.fresh(shell, env=env).info["startup"]
                self.assertEqual([path for path in clean["sourced"] if path.startswith(str(home))], [])

    @needs("zsh", "fish")
    @in_shells("bash", "dash", "zsh", "fish")
    def test_files_to_source_are_told_with_what_failed(self, session):
        good, bad = self.folder / "it's good", self.folder / "bad"
        good.write_text("export SEEN=1\necho good\n")
        bad.write_text("echo bad; false\n")
        own = self.fresh(session.info["shell"], startupSource=[str(good), str(bad)])
        startup = own.info["startup"]
        self.assertEqual(startup["sourced"][-2:], [str(good), str(bad)])
        self.assertIn("good\nbad\n", startup["output"])
        self.assertEqual([warning for warning in startup["warnings"] if "status 1" in warning and "bad" in warning],
                         startup["warnings"])
        self.ended(own.run("echo $SEEN"), output="1\n")

    def test_a_shell_called_sh_is_driven_as_the_shell_it_is(self):
        for program in ("bash", "dash", "busybox"):
            with self.subTest(program=program):
                link = self.own_folder / program / "sh"
                link.parent.mkdir()
                link.symlink_to(f"/bin/{program}")
                session = self.fresh(str(link))
                self.ended(session.run("echo a; (exit 3)"), 3, output="a\n")
                self.ended(session.run("false | true"), 0, pipeStatus=[1, 0] if program == "bash" else [0])
                self.usable(session)

    def test_B4_B5_the_agents_profile_opens_no_pager_editor_or_question_and_env_outranks_it(self):
        shown = ("PAGER", "GIT_PAGER", "MANPAGER", "SYSTEMD_PAGER", "EDITOR", "VISUAL", "GIT_EDITOR",
                 "GIT_TERMINAL_PROMPT", "DEBIAN_FRONTEND", "PIP_NO_INPUT", "NPM_CONFIG_YES")
        text = " ".join(f'"${{{name}-unset}}"' for name in shown)
        agent = self.fresh().output(f"echo {text}").split()
        self.assertEqual(agent, ["cat", "cat", "cat", "cat", "false", "false", "false", "0", "noninteractive", "1", "true"])
        own = {"PAGER": "less", "GIT_EDITOR": "vi", "DEBIAN_FRONTEND": None}
        changed = self.fresh(env=own).output('echo "$PAGER" "$GIT_EDITOR" "${DEBIAN_FRONTEND-unset}" "$MANPAGER"')
        self.assertEqual(changed, "less vi unset cat\n")

    def test_starting_again_after_a_death_reads_the_same_files_and_may_be_refused_until_they_are_mended(self):
        file, env = self.home("bash", "true")
        session = self.fresh("bash", startup="interactive", env=env)
        file.write_text("exit 5\n")
        self.result(session.run("exit 1"), state="shellExited")
        error = self.refused("StartFailed", session.run, "true")
        self.assertIn(str(file), error.message)
        file.write_text("true\n")
        self.assertTrue(self.ended(session.run("echo back"), output="back\n")["restarted"]["cause"])
        self.usable(session)


class Recovery(RexCase):
    """close and interrupt answer in every state a session can be in, and a session comes back from each."""

    def starting(self, name):
        file = self.own_folder / f"{name}.rc"
        os.mkfifo(file)
        call = self.rex.start("session/create", session=name, shell="bash", startup="clean", startupSource=[str(file)])
        self.assertTrue(until(lambda: any(info["session"] == name and info["pid"] for info in
                                          self.rex.call("session/list")["sessions"])))
        return call

    def in_state(self, state, name):
        """A session of that name in that state, and what is still pending of it."""
        if state == "starting":
            return self.starting(name)
        options = {"program": {"argv": ["sleep", "1000"]}, "human": {"shell": "bash", "profile": "human"}, "ended": {"shell": "bash", "restart": False},
                   "zsh": {"shell": "zsh"}, "fish": {"shell": "fish"}}.get(state, {"shell": "bash"})
        session = self.rex.session(name, **options)
        command = {
            "running": "sleep 1000", "deaf": "trap '' INT TERM HUP; sleep 1000", "stopped": "kill -STOP $$",
            "replaced": "exec sleep 1000", "nested": "bash --norc", "dead": "kill -9 $$", "ended": "exit 1",
            "unable": "ulimit -n 3", "zsh": "while :; do :; done", "fish": "while true; end",
        }.get(state)
        if command is None:
            return None
        call = session.start("run", command=command)
        if state in ("dead", "ended", "unable"):
            call.result()
            return None
        wanted = {"stopped": ("running",), "replaced": ("unmanaged",)}.get(state, ("running", "waitingInput"))
        self.assertTrue(until(lambda: session.call("info")["state"] in wanted), state)
        return call

    STATES = ("starting", "idle", "running", "deaf", "stopped", "replaced", "nested", "dead", "ended", "unable", "program",
              "human", "zsh", "fish")

    @needs("zsh", "fish")
    def test_E1_interrupt_then_close_answer_in_every_state(self):
        for state in self.STATES:
            with self.subTest(state=state):
                name = f"i-{state}"
                pending = self.in_state(state, name)
                answer = self.rex.start("session/interrupt", session=name, graceMs=100)
                try:
                    self.assertIn("state", answer.result(timeout=20))
                except RpcError as error:
                    self.assertEqual(error.type, "SessionEnded")
                self.closes(name, pending)

    @needs("zsh", "fish")
    def test_E1_close_answers_in_every_state(self):
        for state in self.STATES:
            with self.subTest(state=state):
                pending = self.in_state(state, f"c-{state}")
                self.closes(f"c-{state}", pending)

    def closes(self, name, pending):
        closed = self.rex.start("session/close", session=name, graceMs=100).result(timeout=20)
        self.assertEqual(closed["survivors"], [])
        if pending is not None:
            try:
                self.assertIn(pending.result(timeout=20)["state"],
                              ("cancelled", "exited", "shellExited", "stopped", "signaled", "waitingInput"))
            except RpcError as error:
                self.assertIn(error.type, ("StartFailed", "SessionEnded"))
        self.refused("SessionNotFound", self.rex.call, "session/info", session=name)

    @needs("zsh", "fish")
    @in_shells("bash", "dash", "zsh", "fish")
    def test_D3_S19_a_dead_shell_comes_back_where_it_was_or_near(self, session):
        place = self.folder / "a" / "b"
        place.mkdir(parents=True)
        self.ended(session.run(f"cd {place}"), cwd=str(place))
        me = "$fish_pid" if session.info["shell"] == "fish" else "$$"
        self.result(session.run(f"kill -9 {me}"), state="shellExited", signal="KILL")
        again = self.ended(session.run("pwd"), output=f"{place}\n", cwd=str(place))
        self.assertIn("9", again["restarted"]["cause"])
        place.rmdir()
        session.run(f"kill -9 {me}")
        self.ended(session.run("pwd"), output=f"{place.parent}\n")
        self.assertEqual(session.call("info")["generation"], 3)


if __name__ == "__main__":
    unittest.main()

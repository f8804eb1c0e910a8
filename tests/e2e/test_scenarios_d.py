"""Group D: a session is the user's own shell, with all its state, and whatever they do to it. Scenario rows by id.

Must not know how commands are driven. Frameworks of row D6 are not installed here; what they hook into is D4, D5, D7.
"""

import base64
import hashlib
import os
import re
import shlex
import time
import unittest

from rig import RexCase, amount, in_shells


def sha(data):
    return hashlib.sha256(data).hexdigest()


class ShellState(RexCase):
    @in_shells()
    def test_D1_what_a_command_sets_is_there_for_the_next(self, session):
        zsh = session.info["shell"] == "zsh"
        session.run("cd /tmp; export A=1; B=2; f() { echo f:$1; }; alias l='echo aliased'; set -o vi; umask 077; "
                    "ulimit -n 99")
        self.ended(session.run("pwd; echo $A$B; f x; umask; ulimit -n; sh -c 'echo $A$B'"),
                   output=f"/tmp\n12\nf:x\n{'077' if zsh else '0077'}\n99\n1\n")
        self.ended(session.run("l me"), output="aliased me\n")
        self.assertRegex(session.output("set -o"), r"(?m)^vi\s+on$")
        self.assertEqual(session.call("info")["cwd"], "/tmp")

    @in_shells()
    def test_D2_the_directory_after_is_told_although_the_command_failed(self, session):
        self.ended(session.run(f"cd {self.folder}; false"), 1, cwd=str(self.folder))
        link = self.folder / "link"
        link.symlink_to("/usr")
        self.ended(session.run(f"cd {link}; false"), 1, cwd=str(link))
        self.ended(session.run(f"cd {self.folder}/nowhere"), 2 if session.info["shell"] == "dash" else 1, cwd=str(link))
        self.ended(session.run("(cd /)"), cwd=str(link))

    @in_shells()
    def test_D3_a_directory_that_is_gone_bricks_nothing(self, session):
        self.ended(session.run(f"cd {self.folder}; mkdir -p a/b; cd a/b; rm -r ../../a"))
        self.assertEqual(session.run("ls")["state"], "exited")
        self.ended(session.run("echo still"), output="still\n")
        self.result(session.run("exit 4"), state="shellExited", exitCode=4)
        self.ended(session.run("pwd"), cwd=str(self.folder), output=f"{self.folder}\n")

    @in_shells("bash")
    def test_D4_traps_fire_for_the_user_only(self, session):
        self.ended(session.run("trap 'echo E$?' ERR; (exit 3)"), 3, output="E3\n")
        self.ended(session.run("true"), output="")
        self.ended(session.run("(exit 4); true"), output="E4\n")
        self.ended(session.run("trap -p ERR"), output="trap -- 'echo E$?' ERR\n")
        self.result(session.run("trap 'exit 9' ERR; false"), state="shellExited", exitCode=9)
        self.ended(session.run("trap 'echo R' RETURN; g() { :; }; g"), output="R\n")
        self.ended(session.run("true"), output="")

    @in_shells("bash")
    def test_D4_a_debug_trap_fires_once_a_job_and_breaks_nothing(self, session):
        """A known deviation: in a text that is sourced it fires for the text, and only another trap takes its place."""
        self.ended(session.run("trap 'echo D' DEBUG"))
        for command, code in (("true", 0), ("true; false", 1), ("(exit 3)", 3)):
            self.assertRegex(self.ended(session.run(command), code)["output"], r"\A(D\n)+\Z")
        self.ended(session.run("trap : DEBUG"))
        self.usable(session)

    @in_shells()
    def test_D4_exit_and_signal_traps_are_the_users(self, session):
        self.ended(session.run("trap 'echo bye' EXIT; trap '' INT; trap 'echo got' USR1"), output="")
        self.ended(session.run("echo on"), output="on\n")
        self.ended(session.run("kill -USR1 $$; true"), output="got\n")
        kept = session.start("run", command="sleep 0.6; echo survived")
        first = session.call("interrupt", graceMs=200)
        self.assertEqual((first["step"], first["state"]), ("INT", "running"))
        self.ended(kept.result(), output="survived\n")
        self.result(session.run("exit 5"), state="shellExited", exitCode=5, output="bye\n")

    def test_D5_prompt_code_prints_nothing_and_delays_nothing(self):
        for setting in ("PROMPT_COMMAND=(a b)", "PROMPT_COMMAND='echo NOISE'", "PROMPT_COMMAND='exit 7'",
                        "PROMPT_COMMAND='sleep 5'", "PS0='NOISE'", "declare -a PROMPT_COMMAND=('echo NOISE' 'exit 6')"):
            with self.subTest(setting=setting):
                session = self.fresh()
                begun = time.monotonic()
                self.ended(session.run(f"a() {{ echo NOISE; }}; b() {{ echo NOISE; }}; {setting}"), output="")
                self.ended(session.run("echo one"), output="one\n", restarted=None)
                self.ended(session.run("true"), output="", restarted=None)
                self.assertLess(time.monotonic() - begun, 3)

    @in_shells()
    def test_D7_prompts_have_no_effect(self, session):
        for prompt in ("'$ '", "'a\nb> '", shlex.quote("p" * 5000), "'\\033]133;D\\007'", "", "'$(echo NOISE >&2)'"):
            self.ended(session.run(f"PS1={prompt} PS2=NOISE"), output="")
            self.ended(session.run("echo one"), output="one\n")

    @in_shells()
    def test_D7_a_readonly_prompt_may_print_but_hides_no_output_and_no_code(self, session):
        """A known deviation, and D5 with it: what may not be changed is printed, or run, where a prompt would be."""
        settings = ["readonly PS1='NOISE'"]
        if session.info["shell"] == "bash":
            settings.append("readonly PROMPT_COMMAND='echo NOISE'")
        for setting in settings:
            own = self.fresh(session.info["shell"])
            self.ended(own.run(setting))
            for _ in range(3):
                result = self.ended(own.run("echo one; (exit 8)"), 8)
                self.assertEqual(re.sub("NOISE\n?", "", result["output"]), "one\n")

    @in_shells("bash")
    def test_D10_a_time_out_of_the_shell_itself_is_survived_or_told(self, session):
        self.ended(session.run("readonly TMOUT=1"))
        end = session.call("wait", any=[{"match": "never"}], waitMs=1500)
        self.assertIsNone(end["met"])
        after = self.ended(session.run("echo alive"), output="alive\n")
        if after["restarted"]:
            self.assertTrue(after["restarted"]["cause"])

    @in_shells()
    def test_D11_names_taken_by_the_user_do_not_reach_our_machinery(self, session):
        names = ("cd", "printf", "command", "trap", "set", "local", "unset", "echo", "test", "return", "eval", "exit")
        if session.info["shell"] == "bash":
            names += ("builtin", "source", "declare")
        dash = session.info["shell"] == "dash"
        special = {"local", "trap", "set", "unset", "return", "eval", "exit"} if dash else set()
        for name in names:
            with self.subTest(name=name):
                if name not in special:
                    self.ended(session.run(f"{name}() {{ /bin/echo TAKEN; }}"), output="")
                self.ended(session.run(f"alias {name}='rm -rf /nosuch/place'"))
        for _ in range(2):
            self.ended(session.run("/bin/echo right; /bin/sh -c 'exit 6'"), 6, output="right\n")
        self.assertEqual(session.call("close")["survivors"], [])

    @in_shells("bash")
    def test_D11_builtins_may_be_disabled(self, session):
        self.ended(session.run("enable -n printf trap; alias .=false; alias builtin=false"))
        self.usable(session)

    @in_shells("bash")
    def test_D12_special_parameters_live_on_as_for_a_person(self, session):
        self.ended(session.run("(exit 42)"), 42)
        self.ended(session.run("echo $?"), output="42\n")
        self.ended(session.run("sleep 0.01 & p=$!"))
        # What a command itself waits for, its shell may tell about in it.
        self.assertRegex(session.output("[ $! = $p ] && wait $p && echo same"), r"\A(\[1].*\n)?same\n(\[1].*\n)?\Z")
        self.ended(session.run("echo next"), output="next\n")
        session.run("echo first last_word")
        self.ended(session.run("echo $_"), output="last_word\n")
        self.ended(session.run("echo $BASH_COMMAND"), output="echo $BASH_COMMAND\n")
        self.ended(session.run("echo 'hi!!' hi!!"), output="hi!! hi!!\n")
        self.ended(session.run("echo $# $0"), output="0 bash\n")

    @in_shells("bash")
    def test_D12_the_pipe_status_is_in_the_result(self, session):
        """A known deviation: PIPESTATUS itself is the text's own, and does not outlive it."""
        self.ended(session.run("true | (exit 3); echo ${PIPESTATUS[*]}"), output="0 3\n")
        self.ended(session.run("true | (exit 3)"), 3, pipeStatus=[0, 3])
        self.ended(session.run("echo $?"), output="3\n")

    @in_shells("dash")
    def test_D12_status_and_last_background_pid_live_on_in_dash(self, session):
        self.ended(session.run("(exit 42)"), 42)
        self.ended(session.run("echo $?"), output="42\n")
        self.ended(session.run("sleep 0.01 & p=$!"))
        # What a command itself waits for, its shell may tell about in it.
        self.assertRegex(session.output("[ $! = $p ] && wait $p && echo same"), r"\A(\[1].*\n)?same\n(\[1].*\n)?\Z")
        self.ended(session.run("echo next"), output="next\n")

    def test_D13_no_command_of_an_agent_gets_into_the_history(self):
        home = self.folder
        (home / ".bashrc").write_text("export FROM_RC=1\n")
        (home / ".bash_history").write_text("mine\n")
        session = self.fresh(startup="interactive", env={"HOME": str(home), "HISTFILE": str(home / ".bash_history")})
        self.ended(session.run("echo $FROM_RC"), output="1\n")
        before = session.output("history")
        self.assertEqual(before, "    1  mine\n")
        for number in range(20):
            session.run(f"echo secret{number}")
        self.assertEqual(session.output("history"), before)
        session.run("exit")
        session.call("close")
        self.assertEqual((home / ".bash_history").read_text(), "mine\n")
        clean = self.fresh(env={"HOME": str(home)})
        self.assertEqual(clean.output("history; echo ${HISTFILE-unset}"), "unset\n")

    @in_shells()
    def test_D14_large_and_strange_environments_arrive_whole(self, session):
        shell = session.info["shell"]
        many = {f"V{number}": "x" * 1000 for number in range(1000)}
        big = self.fresh(shell, env=many)
        self.ended(big.run("env | grep -c '^V[0-9]*=x*$'"), output="1000\n")
        odd = self.fresh(shell, env={"LINES2": "a\nb\n", "EMPTY": "", "BASH_FUNC_fun%%": "() { echo fun; }",
                                     "UTF": "ä😀", "SPACE": " a  b "})
        self.ended(odd.run('echo "$LINES2$SPACE$UTF${EMPTY-unset}"'), output="a\nb\n a  b ä😀\n")
        if shell == "bash":
            self.ended(odd.run("fun"), output="fun\n")
            self.ended(odd.run("bash -c fun"), output="fun\n")

    def test_D14_an_environment_no_kernel_takes_is_refused_with_its_errno(self):
        for call in (lambda env: self.rex.call("session/create", session="never", shell="bash", env=env),
                     lambda env: self.rex.call("process/run", command=["true"], env=env)):
            with self.subTest():
                error = self.refused_by_kernel(call, {"ONE": "x" * 200_000})
                self.assertEqual(error.data["executed"], "no")
                self.assertEqual((error.data["errno"], error.data["name"]), (7, "E2BIG"))
        self.assertNotIn("never", [info["session"] for info in self.rex.call("session/list")["sessions"]])

    def refused_by_kernel(self, call, env):
        try:
            call(env)
        except Exception as error:  # noqa: BLE001: either type is right, the members are checked
            self.assertIn(getattr(error, "type", None), ("StartFailed", "OsError"), error)
            return error
        return self.fail("a single variable of 200 kB was accepted")

    def test_D14_bash_env_of_the_instance_runs_in_no_shell_of_ours(self):
        (self.folder / "hook").write_text("echo HOOKED\n")
        rex = self.spawn(env={**os.environ, "BASH_ENV": str(self.folder / "hook"), "ENV": str(self.folder / "hook")})
        for shell in ("bash", "dash"):
            session = self.fresh(shell, rex=rex)
            self.assertNotIn("HOOKED", session.info["startup"]["output"])
            self.ended(session.run("echo own"), output="own\n")
        chosen = self.fresh("bash", rex=rex, env={"BASH_ENV": str(self.folder / "hook")})
        self.ended(chosen.run("bash -c 'echo child'"), output="HOOKED\nchild\n")

    @in_shells()
    def test_D15_unset_empty_and_a_value_are_three_things(self, session):
        shell = session.info["shell"]
        launcher = {"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": "/opt/lib", "PYTHONHOME": "/nosuch", "GONE": "here",
                    "NODE_OPTIONS": "--x", "TERM_PROGRAM": "editor", "REX_RPC_SECRET": "s"}
        rex = self.spawn(env=launcher)
        show = 'for n in LD_LIBRARY_PATH PYTHONHOME GONE NEW REX_RPC_SECRET; do eval "echo $n=\\${$n-unset}"; done'
        inherited = self.fresh(shell, rex=rex)
        self.ended(inherited.run(show), output="LD_LIBRARY_PATH=/opt/lib\nPYTHONHOME=/nosuch\nGONE=here\nNEW=unset\n"
                                               "REX_RPC_SECRET=unset\n")
        changes = {"LD_LIBRARY_PATH": "", "PYTHONHOME": None, "GONE": None, "NEW": "value"}
        wanted = "LD_LIBRARY_PATH=\nPYTHONHOME=unset\nGONE=unset\nNEW=value\nREX_RPC_SECRET=unset\n"
        changed = self.fresh(shell, rex=rex, env=changes)
        self.ended(changed.run(show), output=wanted)
        self.assertEqual(rex.call("process/run", command=show, env=changes)["stdout"], wanted)
        chosen = self.fresh(shell, rex=rex, env={"TERM": "vt100", "PAGER": None, "EDITOR": "ed"})
        self.ended(chosen.run('echo "$TERM ${PAGER-unset} $EDITOR"'), output="vt100 unset ed\n")
        cleared = self.fresh(shell, rex=rex, clearEnv=True, profile="human",
                             env={"PATH": "/usr/bin:/bin", "HOME": str(self.folder)})
        self.assertNotRegex(cleared.run("env", quietMs=100)["output"], "GONE|LD_LIBRARY_PATH|TERM_PROGRAM")

    @in_shells()
    def test_D19_long_and_strange_texts_are_the_same_at_the_shell(self, session):
        size = amount(1_000_000, 10_000_000)
        body = ("0123456789abcde\n" * (size // 16))
        self.ended(session.run(f"sha256sum <<'END_OF_TEXT'\n{body}END_OF_TEXT"), output=f"{sha(body.encode())}  -\n")
        for length in (4095, 4096, 4097, 70_000):
            line = "".join(chr(33 + index % 90) for index in range(length))
            self.ended(session.run(f"printf %s {shlex.quote(line)} | sha256sum"), output=f"{sha(line.encode())}  -\n")
        every = bytes(byte for byte in range(1, 256) if byte != 0x27)
        command = b"printf %s '" + every + b"' | sha256sum"
        result = session.call("run", commandBytes=base64.b64encode(command).decode())
        self.ended(result, output=f"{sha(every)}  -\n")

    @in_shells()
    def test_D20_a_nul_is_refused_with_its_position(self, session):
        mark = self.folder / "mark"
        error = self.refused("InputRefused", session.run, f"touch {mark}; echo \0x")
        self.assertEqual((error.code, error.data["executed"]), (1106, "no"))
        self.assertEqual(error.data["at"], len(f"touch {mark}; echo "))
        self.assertFalse(mark.exists())
        self.usable(session)
        refused = self.refused("InputRefused", self.rex.call, "process/run", command=["printf", "a\0b"])
        self.assertEqual(refused.data["executed"], "no")

    @in_shells()
    def test_D21_no_character_is_special_on_the_way(self, session):
        texts = ("!", "!!", "hi!there", "\\", "\\\\n", "$(echo x)", "`echo x`", "$HOME ${HOME}", '"' * 100,
                 "a\r\nb\r\n", "\ufeffbom", "line\u2028sep\u2029", "%s%n", "\t \t", "~", "*?[a]", "#no comment", "-n",
                 "--", "\x1b[31m", "\x03\x04\x1a\x1c", "a\nb\n", "é e\u0301 😀", "\x7f\u0080\u009b")
        for text in texts:
            with self.subTest(text=text):
                result = session.run(f"printf '%s' {shlex.quote(text)} | sha256sum")
                self.ended(result, output=f"{sha(text.encode())}  -\n")
                one_off = self.rex.call("process/run", command=["printf", "%s", text])
                said = one_off["stdout"].encode()
                self.assertEqual(base64.b64decode(said) if one_off["encoding"] == "base64" else said, text.encode())
        quotes = "'\\''" * 100
        self.ended(session.run(f"printf '%s' '{quotes}' | wc -c | tr -d ' '"), output="100\n")
        self.usable(session)


class OtherShells(RexCase):
    def test_D18_a_shell_without_a_dialect_is_typed_to(self):
        """No text goes through the editing aids of zsh or fish: theirs is typed to nobody (test_shells.py). cat stands for
        any program that has the pty and no dialect."""
        session = self.rex.session("cat", argv=["cat"])
        self.addCleanup(self.close_quietly, session)
        self.assertIsNone(session.info["shell"])
        answer = session.run("rationalise ... (pair) 'quote", expect=["quote"])
        self.result(answer, state="matched")


if __name__ == "__main__":
    unittest.main()

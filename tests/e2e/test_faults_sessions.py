"""Faults of sessions and terminals, S01 to S24: what a client or a program may do to one, and what must come of it.

Must not know how a session is made; ids are those of the list of faults.
"""

import base64
import hashlib
import os
import time
import unittest

from rig import RexCase, amount, alive, family, in_shells, needs, signal, until

MIB = 1024 * 1024


class Sessions(RexCase):
    @in_shells("bash", "dash", "sh", "/bin/bash")
    def test_S01_known_shells_work(self, session):
        self.usable(session)

    @needs("busybox")
    def test_S01_busybox_ash_works(self):
        """By the name `ash`, as its distributions install it."""
        ash = self.folder / "ash"
        ash.symlink_to("/bin/busybox" if os.path.exists("/bin/busybox") else "/usr/bin/busybox")
        session = self.fresh(str(ash))
        self.usable(session)
        self.ended(session.run("printf '%s' \"$0\" >/dev/null; (exit 44)"), 44)

    def test_S01_a_shell_that_cannot_start_is_a_typed_error_and_no_session(self):
        plain = self.folder / "bash"
        plain.write_text("#!/bin/sh\n")
        folder = self.folder / "dash"
        folder.mkdir()
        for shell, name in ((f"{self.folder}/nosuch", "ENOENT"), (str(plain), "EACCES"), (str(folder), "EACCES"),
                            (f"{plain}/x", "ENOTDIR"), ("no_such_shell_anywhere", "ENOENT")):
            with self.subTest(shell=shell):
                error = self.refused("StartFailed", self.rex.call, "session/create", session="never", shell=shell)
                self.assertEqual((error.code, error.data["name"], error.data["executed"]), (1110, name, "no"))
        plain.write_text("#!/bin/sh\nexit 3\n")
        plain.chmod(0o755)
        error = self.refused("StartFailed", self.rex.call, "session/create", session="never", shell=str(plain))
        self.assertEqual(error.code, 1110)
        plain.write_text("#!/bin/sh\necho stuck; exec sleep 60\n")
        begun = time.monotonic()
        error = self.refused("StartFailed", self.rex.call, "session/create", session="never", shell=str(plain),
                             startupTimeoutMs=300)
        self.assertLess(time.monotonic() - begun, 5)
        self.assertIn("stuck", error.data["output"])
        self.refused("SessionNotFound", self.rex.call, "session/info", session="never")
        self.assertNotIn("never", [info["session"] for info in self.rex.call("session/list")["sessions"]])

    @in_shells()
    def test_S02_state_lasts_within_a_session_and_ends_at_its_border(self, session):
        other = self.fresh(session.info["shell"])
        session.run("cd /usr; export MINE=1; mine() { :; }; umask 027; sleep 60 &")
        self.ended(session.run("pwd; echo $MINE; umask"), output=f"/usr\n1\n{'027' if session.info['shell'] == 'zsh' else '0027'}\n")
        self.assertIn("sleep 60", session.output("jobs"))
        outside = other.output("pwd; echo ${MINE-unset}; umask; jobs; command -v mine")
        self.assertEqual(outside, f"{os.getcwd()}\nunset\n{other.output('umask')}")
        self.refused("SessionExists", self.rex.call, "session/create", session=session.name)

    @in_shells("bash")
    def test_S04_single_byte_writes_arrive_in_order(self, session):
        count = amount(100_000, 1_000_000)
        (self.folder / "writer.py").write_text(
            "import os\nfor i in range(%d):\n  os.write(1, b'%%d' %% (i %% 10))\n" % count)
        wanted = ("0123456789" * (count // 10)).encode()
        result = self.ended(session.run(f"python3 {self.folder}/writer.py"), totalBytes=count)
        self.assertEqual(session.read_all(result["from"]), wanted)
        pipes = self.rex.session("pipes", argv=["python3", "-c", (
            "import os\nfor i in range(20000):\n  os.write(1 + i % 2, b'%d' % (i // 2 % 10))")], tty=False)
        self.addCleanup(self.close_quietly, pipes)
        pipes.call("wait", any=[{"exit": True}], waitMs=20_000)
        for stream in ("stdout", "stderr"):
            self.assertEqual(pipes.read_all(stream=stream), b"0123456789" * 1000, stream)

    @in_shells("bash")
    def test_S06_a_paste_to_a_slow_raw_reader_arrives_whole(self, session):
        size = amount(1, 8) * MIB
        program = ("import hashlib, sys, time, tty\ntty.setraw(0)\nprint('up', flush=True)\nleft, sum = %d, "
                   "hashlib.sha256()\nwhile left:\n"
                   "  data = sys.stdin.buffer.read1(min(left, 4096))\n  left -= len(data)\n"
                   "  sum.update(data)\n  time.sleep(0.0002)\nprint(sum.hexdigest())\n" % size)
        (self.folder / "reader.py").write_text(program)
        other = self.fresh()
        job = session.run(f"python3 {self.folder}/reader.py; stty sane", expect=["up"])
        data, sent, credit = os.urandom(size), 0, []
        while sent < size:
            part = base64.b64encode(data[sent:sent + 256 * 1024]).decode()
            answer = session.start("write", data=part, encoding="base64")
            begun = time.perf_counter()
            self.ended(other.run("true"))
            self.assertLess(time.perf_counter() - begun, 1)
            answer = answer.result()
            self.assertGreater(answer["accepted"], 0)
            sent += answer["accepted"]
            credit.append(answer["inputOffset"])
        self.assertEqual((credit, credit[-1]), (sorted(credit), size))
        over = session.call("wait", job=job["job"], any=[{"exit": True}], waitMs=20_000)["result"]
        self.assertIn(hashlib.sha256(data).hexdigest(), over["output"])

    @in_shells()
    def test_S08_control_keys_act_on_the_foreground_job_only(self, session):
        background = int(session.output("sleep 60 & echo $!").split()[-1])
        for key, code in (("\x03", 128 + signal.SIGINT), ("\x1c", 128 + signal.SIGQUIT)):
            call = session.start("run", command="sleep 50")
            self.assertTrue(until(lambda: (session.call("info")["foreground"] or {}).get("command") == "sleep"))
            session.call("write", data=key)
            self.ended(call.result(), code)
        call = session.start("run", command="cat; echo over")
        self.assertTrue(until(lambda: (session.call("info")["foreground"] or {}).get("command") == "cat"))
        session.call("write", data="line\n")
        session.call("write", data="\x04")
        result = self.ended(call.result())
        self.assertTrue(result["output"].endswith("line\nover\n"), result)
        self.assertTrue(alive(background))
        self.usable(session)

    @in_shells()
    def test_S10_texts_without_an_end_harm_only_themselves(self, session):
        for command in ("echo 'x", 'echo "x', "echo `x", "echo $(x", "{ echo", "}", "case x in", "if", "while true",
                        "echo x |", "echo x &&", "((", "a() {"):
            if session.info["shell"] == "zsh" and command in ("while true", "echo x &&"):
                continue  # which it takes: an endless loop, and an echo
            with self.subTest(command=command):
                result = session.run(command, timeoutMs=3000)
                self.assertEqual(result["state"], "exited", result)
                self.assertNotEqual(result["exitCode"], 0)
                if session.info["shell"] == "bash" and command == "echo $(x":
                    later = session.run("echo usable; (exit 21)")  # bash's own memory may be broken by that text
                    self.assertIn((later["state"], later["exitCode"]), (("exited", 21), ("shellExited", None)), later)
                self.usable(session)
        for command, output in (("echo x \\", "x\n"), ("echo x # comment", "x\n"), ("# comment", ""), ("", ""),
                                ("\n\n", ""), ("echo x;", "x\n"), ("  ", "")):
            with self.subTest(command=command):
                self.ended(session.run(command, timeoutMs=3000), output=output)
                self.usable(session)
        crlf = session.run("echo a\r\necho b\r\n", timeoutMs=3000, view="raw")
        self.ended(crlf, output="a\r\nb\r\n")
        self.usable(session)

    @in_shells("bash")
    def test_S13_a_storm_of_resizes_ends_with_the_last_one(self, session):
        for rows, cols in ((0, 0), (65536, 65536), (-1, 10), (10, -1)):
            self.refused("InvalidParams", session.call, "resize", rows=rows, cols=cols)
        job = session.start("run", command="seq 1 200000; stty size")
        calls = [session.start("resize", rows=1 + number % 60, cols=1 + number % 200)
                 for number in range(amount(900, 1_000_000))]
        for call in calls:
            call.result()
        session.call("resize", rows=44, cols=144)
        job.result()
        self.ended(session.run("stty size"), output="44 144\n")

    @in_shells()
    def test_S19_a_shell_killed_from_outside_is_told_at_once(self, session):
        os.kill(session.info["pid"], signal.SIGKILL)
        self.assertTrue(until(lambda: session.call("info")["state"] == "exited", 1))
        again = self.ended(session.run("echo new"), output="new\n")
        self.assertIsNotNone(again["restarted"])
        call = session.start("run", command="sleep 60")
        self.assertTrue(until(lambda: (session.call("info")["foreground"] or {}).get("command") == "sleep"))
        begun = time.monotonic()
        os.kill(session.call("info")["pid"], signal.SIGKILL)
        self.result(call.result(timeout=5), state="shellExited", signal="KILL", exitCode=None)
        self.assertLess(time.monotonic() - begun, 1)

    @in_shells(restart=False)
    def test_S19_without_restart_a_dead_shell_stays_dead(self, session):
        self.result(session.run("kill -9 $$"), state="shellExited", signal="KILL")
        for method, params in (("run", {"command": "true"}), ("write", {"data": "x"}),
                               ("resize", {"rows": 9, "cols": 9}),
                               ("signal", {"signal": "TERM"})):
            error = self.refused("SessionEnded", session.call, method, **params)
            self.assertEqual(error.code, 1103)
        self.assertEqual(session.call("info")["state"], "exited")

    @in_shells()
    def test_S20_a_program_that_asks_for_a_password_holds_nobody(self, session):
        program = "import getpass; print('got', len(getpass.getpass('Password: ')))"
        result = session.run(f"python3 -c \"{program}\"", waitMs=20_000)
        self.result(result, state="waitingInput", exitCode=None, output="Password: ")
        self.assertEqual(result["waiting"]["kind"], "secret")
        self.refused("SessionBusy", session.run, "true")
        session.call("write", data="secret", submit=True)
        over = session.call("wait", job=result["job"], any=[{"exit": True}], waitMs=5000)["result"]
        self.ended(over)
        self.assertIn("got 6\n", over["output"])
        self.assertNotIn("secret", over["output"])
        self.usable(session)

    @in_shells()
    def test_S21_a_shell_replaced_by_an_interpreter_is_spoken_to(self, session):
        first = session.run("exec python3 -q -i -u -c 'print(\"hello\")'", expect=["hello"], waitMs=5000)
        self.result(first, state="matched")
        self.assertTrue(until(lambda: session.call("info")["state"] == "unmanaged"))
        answer = session.run("print(6 * 7)", expect=["(?m)^42"], waitMs=5000)
        self.result(answer, state="matched", exitCode=None)
        again = session.run("x = 1", waitMs=20_000)
        self.assertEqual((again["state"], again["exitCode"]), ("waitingInput", None))
        self.result(session.run("raise SystemExit(5)", waitMs=5000), state="shellExited", exitCode=5)

    @in_shells()
    def test_S22_a_character_in_two_chunks_is_one_character(self, session):
        result = session.run("printf '\\303'; sleep 0.05; printf '\\244\\342\\202'; sleep 0.05; printf '\\254\\n'")
        self.ended(result, output="ä€\n", replaced=0, totalBytes=6)
        for size in (1, 2, 3, 4):
            offset, text = result["from"], b""
            while offset < result["next"]:
                piece = session.call("read", offset=offset, maxBytes=size)
                self.assertNotIn("\ufffd", piece["data"])
                data = piece["data"].encode() if piece["encoding"] == "utf-8" else base64.b64decode(piece["data"])
                self.assertEqual(piece["next"] - offset, len(data), "offsets count bytes")
                self.assertGreater(len(data), 0)
                text, offset = text + data, piece["next"]
            self.assertEqual(text.decode(), "ä€\n")

    @in_shells()
    def test_S23_stopped_output_holds_up_neither_close_nor_others(self, session):
        call = session.start("run", command="stty ixon; sleep 0.1; seq 1 100000000")
        session.call("wait", any=[{"bytes": 10_000}], waitMs=5000)
        session.call("write", data="\x13")
        other = self.fresh()
        self.usable(other)
        begun = time.monotonic()
        self.assertEqual(session.call("close", graceMs=1000)["survivors"], [])
        self.assertLess(time.monotonic() - begun, 3)
        self.result(call.result(timeout=5), state="cancelled")
        self.usable(other)

    @in_shells("bash", journalBytes=2 * MIB + 12_345)
    def test_S24_reading_across_the_wrap_of_the_journal_is_exact(self, session):
        lines = 600_000
        result = self.ended(session.run(f"seq -w 1 {lines}"), totalBytes=7 * lines)
        info = session.call("info")
        self.assertGreater(info["oldest"], 0)
        self.assertEqual(info["next"], result["next"])
        rest = session.read_all(info["oldest"], maxBytes=99_991)
        everything = "".join(f"{number:06}\n" for number in range(1, lines + 1)).encode()
        self.assertEqual(hashlib.sha256(rest).hexdigest(), hashlib.sha256(everything[info["oldest"]:]).hexdigest())

    def test_closing_ends_the_whole_tree(self):
        """S02, S19: what a session started, however hidden, ends with it."""
        session = self.fresh()
        session.run("sleep 60 & setsid sleep 61 & (setsid sh -c 'sleep 62 & sleep 63' &); "
                    "nohup sleep 64 >/dev/null 2>&1 &")
        self.assertTrue(until(lambda: sum(status.get("Name") == "sleep"
                                          for status in family(self.rex.pid).values()) >= 5))
        pids = [pid for pid, status in family(self.rex.pid).items() if status.get("Name") == "sleep"]
        self.assertEqual(session.call("close")["survivors"], [])
        self.assertFalse([pid for pid in pids if alive(pid)])

    @in_shells("bash", "dash")  # zsh hangs up what it leaves
    def test_what_a_dead_shell_left_lives_until_its_session_is_closed(self, session):
        told = self.folder / "told"
        os.mkfifo(told)
        said = session.output(f"setsid sh -c 'echo $$ >{told}; exec sleep 66' & read p <{told}; echo $p")
        pid = next(int(word) for word in said.split() if word.isdigit())
        self.result(session.run("exit 3"), state="shellExited", exitCode=3)
        self.assertIsNotNone(session.run("true")["restarted"])
        self.ended(session.run("true"))
        self.assertTrue(alive(pid))
        self.assertEqual(session.call("close")["survivors"], [])
        self.assertFalse(alive(pid))


if __name__ == "__main__":
    unittest.main()

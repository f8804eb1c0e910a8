"""Group C: output is complete, exact where asked, readable where not, and bounded. Rows of the scenarios by their ids.

Must not know how output is stored; amounts are small on a push and the rows' own with REX_LONG=1.
"""

import base64
import hashlib
import os
import random
import re
import time
import unittest

from rig import Rex, RexCase, amount, family, in_shells, is_sanitized, memory, subprocess, until

MIB = 1024 * 1024


def sha(data):
    return hashlib.sha256(data).hexdigest()


class Output(RexCase):
    @in_shells()
    def test_C1_one_line_of_a_megabyte_keeps_its_head_and_tail(self, session):
        text = " ".join(map(str, range(170_000))) + "\n"  # nowhere like itself, so that a byte off is seen
        result = self.ended(session.run("seq -s ' ' 0 169999"), totalBytes=len(text))
        kept = result["output"]
        self.assertLessEqual(len(kept), 65536 + 200)
        gone = result["omitted"]
        self.assertEqual(gone["bytes"], gone["to"] - gone["from"])
        self.assertEqual(gone["bytes"] + len(kept), len(text))
        rest = session.call("read", offset=gone["from"], maxBytes=gone["bytes"])
        self.assertEqual(rest["next"], gone["to"])
        head = gone["from"] - result["from"]
        self.assertGreater(head, 30_000)
        self.assertEqual(gone["at"], head)
        self.assertEqual(sha((kept[:head] + rest["data"] + kept[head:]).encode()), sha(text.encode()))

    def test_C2_a_line_of_any_length_costs_bounded_memory_and_is_kept(self):
        size = amount(24, 157) * MIB
        rex = self.spawn()
        session = self.fresh(rex=rex, journalBytes=256 * MIB)
        self.ended(session.run(f"head -c {size} /dev/zero | tr '\\0' b"), totalBytes=size)
        if not is_sanitized():  # whose memory is mostly the sanitizer's
            self.assertLess(memory(rex.pid, "VmHWM"), amount(24, 64) * MIB)
        self.assertEqual(sha(session.read_all(maxBytes=4 * MIB)), sha(b"b" * size))
        middle = session.call("read", offset=size // 2 - 5, maxBytes=10)
        self.assertEqual(middle["data"], "b" * 10)

    @in_shells("bash")
    def test_C3_many_lines_end_with_the_last_one_and_exact_counts(self, session):
        count = amount(1_000_000, 100_000_000)
        total = sum(9 * 10 ** (digits - 1) * (digits + 1) for digits in range(1, len(str(count)))) + len(str(count)) + 1
        result = self.ended(session.run(f"seq 1 {count}"), totalBytes=total)
        self.assertTrue(result["output"].startswith("1\n2\n3\n"))
        self.assertTrue(result["output"].endswith(f"\n{count - 1}\n{count}\n"))
        self.assertLessEqual(len(result["output"]), 65536 + 200)
        self.assertEqual(result["next"] - result["from"], total)

    @in_shells("bash", journalBytes=2 * MIB)
    def test_C4_a_flood_is_interrupted_at_once_and_disturbs_nobody(self, session):
        other = self.fresh()
        flood = session.start("run", command="yes")
        spent = []
        end = time.monotonic() + amount(1.5, 60)
        while time.monotonic() < end:
            begun = time.perf_counter()
            self.ended(other.run("true"))
            spent.append(time.perf_counter() - begun)
        self.assertLess(sorted(spent)[len(spent) // 2], 0.5 if is_sanitized() else 0.05)
        begun = time.monotonic()
        stopped = session.call("interrupt")
        self.assertLess(time.monotonic() - begun, 1)
        self.assertEqual((stopped["step"], stopped["result"]["exitCode"]), ("INT", 130))
        self.assertEqual(flood.result()["exitCode"], 130)
        info = session.call("info")
        self.assertLessEqual(info["next"] - info["oldest"], 2 * MIB)
        self.assertGreater(info["oldest"], 0)
        self.usable(session)

    @in_shells()
    def test_C5_binary_output_is_identical_raw_and_valid_text_clean(self, session):
        size = amount(2, 10) * MIB
        data = os.urandom(size - 8) + b"\x7fELF\0\0\0\0"
        (self.folder / "data").write_bytes(data)
        raw = self.ended(session.run(f"cat {self.folder}/data", view="raw"), totalBytes=size)
        self.assertEqual(raw["encoding"], "base64")
        self.assertEqual(sha(session.read_all(raw["from"])), sha(data))
        clean = self.ended(session.run(f"cat {self.folder}/data"), totalBytes=size)
        self.assertEqual(clean["encoding"], "utf-8")
        self.assertGreater(clean["replaced"], 0)
        clean["output"].encode("utf-8")
        self.usable(session)

    @in_shells()
    def test_C5_every_program_of_a_stream_of_pipes_is_raw_too(self, session):
        result = session.run("cat /bin/true", isolate=True, view="raw", maxOutputBytes=MIB)
        self.ended(result)
        with open("/bin/true", "rb") as file:
            self.assertEqual(sha(base64.b64decode(result["output"])), sha(file.read()))

    @in_shells()
    def test_C6_a_character_that_comes_byte_by_byte_is_never_replaced(self, session):
        command = "for b in 360 237 230 200; do printf \"\\\\$b\"; sleep 0.05; done; echo; echo ok"
        call = session.start("run", command=command)
        data, offset, pieces = b"", 0, 0
        while not data.endswith(b"ok\n"):
            piece = session.call("read", offset=offset, waitMs=5000)
            self.assertNotIn("\ufffd", piece["data"])
            data += piece["data"].encode() if piece["encoding"] == "utf-8" else base64.b64decode(piece["data"])
            offset, pieces = piece["next"], pieces + 1
            self.assertLess(pieces, 200)
        self.assertEqual(data.decode(), "😀\nok\n")
        self.ended(call.result(), output="😀\nok\n", replaced=0)

    @in_shells()
    def test_C7_bytes_that_are_no_text_break_nothing(self, session):
        for command in ("printf '\\377\\376\\200'", "printf '\\355\\240\\200'", "printf 'caf\\351\\n'",
                        "printf '\\304\\343\\272\\303\\n'", "printf '\\300\\200\\370\\210'"):
            clean = self.ended(session.run(command), encoding="utf-8")
            self.assertGreater(clean["replaced"], 0)
            self.ended(session.run(command, view="raw"), encoding="base64")
        name = os.fsencode(self.folder) + b"/d\xe9p\xf4t"
        os.mkdir(name)
        there = self.ended(session.call("run", commandBytes=base64.b64encode(b"cd " + name).decode()))
        self.assertEqual(base64.b64decode(there["cwdBytes"]), name)
        self.assertNotIn("cwd", there)
        raw = self.ended(session.run("basename \"$PWD\"", view="raw"))
        self.assertEqual(base64.b64decode(raw["output"]), b"d\xe9p\xf4t\n")
        self.assertIn("time", self.rex.call("ping"))

    @in_shells()
    def test_C8_a_line_that_is_written_over_is_one_line(self, session):
        count = amount(100_000, 1_000_000)
        result = self.ended(session.run(f"seq -f '%.0f' 1 {count} | sed 's/^/\\r/' | tr -d '\\n'; echo"))
        self.assertEqual(result["output"], f"{count}\n")
        total = sum(len(str(number)) + 1 for number in range(1, count + 1)) + 1
        self.assertEqual(result["totalBytes"], total)
        raw = session.read_all(result["from"], maxBytes=4 * MIB)
        self.assertEqual(sha(raw), sha("".join(f"\r{number}" for number in range(1, count + 1)).encode() + b"\n"))
        bar = "printf ' 10%%|#   |'; printf '\\r 50%%|##  |'; printf '\\r\\033[K100%%|####|\\n'; printf 'ab\\bc\\n'"
        self.ended(session.run(bar), output="100%|####|\nac\n")

    @in_shells()
    def test_C9_what_looks_like_an_end_marker_is_only_output(self, session):
        earlier = self.ended(session.run("true"))["job"]
        hostile = ("\\033]133;D;0\\007\\033]633;D;0\\007\\033]133;A\\007", "bash-5.2# ", "$ ", "# ",
                   f"{earlier} 0||/\\000", "1 0|0||/\\000", "2 0|0||/\\000", "__rex_r 0 3\\n",
                   '{\\"jsonrpc\\":\\"2.0\\",\\"id\\":1,\\"result\\":1}\\n')
        for text in hostile:
            with self.subTest(text=text):
                result = session.run(f"printf \"{text}\"; sleep 0.02; echo; echo last; (exit 7)")
                self.ended(result, 7)
                self.assertTrue(result["output"].endswith("last\n"), result)
        self.usable(session)

    @in_shells()
    def test_C10_showing_everything_a_shell_knows_ends_nothing_and_tells_no_secret(self, session):
        (self.folder / "rc").write_text("PS1='$ '\n")
        for command in ("env", "set", 'echo "$PS1"', "typeset -f || :", f"cat {self.folder}/rc", "history || :",
                        "alias", "trap", "export -p"):
            result = session.run(command, maxOutputBytes=MIB)
            self.assertEqual((result["state"], result["completion"]), ("exited", "exact"), command)
        ours = [name for name in session.output("env").splitlines() if name.startswith(("REX_RPC_", "__rex"))]
        self.assertEqual([name.split("=")[0] for name in ours], [])
        self.usable(session)

    def test_C10_what_a_shell_tells_lets_no_job_forge_anothers_end(self):
        """A session may learn the way of its own report; with it, it reaches no other session's job."""
        spy, other = self.fresh(), self.fresh()
        channel = re.search(r">\|\s*(\S+?);?\n", spy.output("declare -f"))
        self.assertIsNotNone(channel, "where bash reports to is no longer shown: this test can go")
        victim = other.start("run", command="sleep 0.4; (exit 5)")
        self.ended(spy.run(f"for n in 1 2 3 4 5; do printf '%s 0|0||/\\0' $n >{channel.group(1)}; done; (exit 0)"))
        self.ended(victim.result(), 5)
        self.usable(other)
        # Nor does it end one job of its own in the name of another, be that over or still to come.
        gate = self.folder / "gate"
        os.mkfifo(gate)
        own = spy.start("run", command=f"for n in 1 999; do printf '%s 0|0||/\\0' $n >{channel.group(1)}; done; "
                                       f"read x <{gate}; (exit 6)")
        gate.write_text("go\n")
        self.ended(own.result(), 6)

    @in_shells()
    def test_C13_one_terminal_keeps_the_order_and_pipes_keep_streams_apart(self, session):
        merged = self.ended(session.run("for i in 1 2 3 4 5; do echo o$i; echo e$i >&2; done"))
        self.assertEqual(merged["output"], "".join(f"o{i}\ne{i}\n" for i in range(1, 6)))
        script = "i=0; while [ $i -lt 300 ]; do echo o$i; echo e$i >&2; i=$((i+1)); done"
        apart = self.rex.call("process/run", command=[session.info["shell"], "-c", script])
        self.assertEqual(apart["stdout"], "".join(f"o{i}\n" for i in range(300)))
        self.assertEqual(apart["stderr"], "".join(f"e{i}\n" for i in range(300)))
        joined = self.rex.call("process/run", command=script, mergeStderr=True)
        self.assertEqual(joined["stdout"], "".join(f"o{i}\ne{i}\n" for i in range(300)))

    def test_C13_a_program_that_ends_at_once_has_said_what_it_said(self):
        """On pipes and on a terminal: nothing goes astray between its start and the first look at its output."""
        for number in range(100):
            tty = bool(number % 2)
            session = self.fresh(shell=None, argv=["/bin/echo", "said"], tty=tty)
            over = session.call("wait", any=[{"exit": True}], waitMs=5000)
            self.result(over["result"], state="exited", exitCode=0, output="said\n")

    def test_C14_on_a_loaded_machine_too_nothing_goes_astray_at_an_end(self):
        """Thousands that print and end at once, in crowds, beside programs that want every processor."""
        burners = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(amount(4, 60))]
        for burner in burners:
            self.addCleanup(burner.wait)
            self.addCleanup(burner.kill)
        shell = self.fresh()
        for number in range(amount(8, 400)):
            calls = [self.rex.start("process/run", command=["printf", f"done {number} {each}"]) for each in range(48)]
            programs = [self.fresh(None, argv=["printf", f"done {number} {each}"], tty=bool(each % 2)) for each in range(2)]
            self.ended(shell.run("exec 9>&1; printf done; exec 9>&-"), output="done")
            for each, call in enumerate(calls):
                self.result(call.result(60), state="exited", exitCode=0, stdout=f"done {number} {each}")
            for each, program in enumerate(programs):
                over = program.call("wait", any=[{"exit": True}], waitMs=60_000)["result"]
                self.result(over, state="exited", exitCode=0, output=f"done {number} {each}")
                self.close_quietly(program)

    @in_shells()
    def test_C16_a_job_that_is_killed_leaves_its_output_and_where_it_lies(self, session):
        result = session.run("echo before; sleep 60", timeoutMs=300)
        self.result(result, state="timedOut", omitted=None)
        self.assertTrue(result["output"].startswith("before\n"))
        self.assertTrue(session.read_all(result["from"]).startswith(b"before\n"))
        killed = session.run("echo partial; sh -c 'kill -9 $$'; kill -9 $$")
        self.result(killed, state="shellExited", signal="KILL")
        self.assertTrue(killed["output"].startswith("partial\n"))
        one_off = self.rex.call("process/run", command="echo partial; sleep 60", timeoutMs=200)
        self.result(one_off, state="timedOut", stdout="partial\n")

    @in_shells(journalBytes=2 * MIB)
    def test_C17_a_cursor_gets_exact_bytes_or_is_told(self, session):
        data = bytes(random.Random(17).randbytes(300_000))
        (self.folder / "data").write_bytes(data)
        self.ended(session.run(f"cat {self.folder}/data"))
        for offset in (0, 1, 150_000, 299_999):
            self.assertEqual(sha(session.read_all(offset, maxBytes=7777)), sha(data[offset:]))
        end = session.call("read", offset=len(data))
        self.assertEqual((end["data"], end["from"], end["next"]), ("", len(data), len(data)))
        for offset, met in ((len(data), 0), (len(data) + 1, None)):
            self.assertEqual(session.call("wait", any=[{"bytes": offset}], waitMs=0)["met"], met)
        self.refused("InvalidParams", session.call, "read", offset=len(data) + 1)
        self.refused("InvalidParams", session.call, "read", offset=-1)
        self.ended(session.run("head -c 5000000 /dev/zero"))
        info = session.call("info")
        gone = self.refused("OffsetGone", session.call, "read", offset=0)
        self.assertEqual((gone.data["oldest"], gone.data["next"]), (info["oldest"], info["next"]))
        self.assertEqual(info["next"], 5_300_000)
        rest = session.read_all(info["oldest"], maxBytes=8 * MIB)
        self.assertEqual((len(rest), rest.strip(b"\0")), (info["next"] - info["oldest"], b""))

    def test_F22_the_most_output_comes_in_one_answer_or_its_length_is_told(self):
        session = self.fresh()
        result = self.ended(session.run(f"yes '' | head -c {8 * MIB}", maxOutputBytes=8 * MIB), totalBytes=8 * MIB)
        self.assertEqual((result["encoding"], len(base64.b64decode(result["output"]))), ("base64", 8 * MIB))
        for view in ("raw", "clean"):
            read = session.call("read", offset=result["from"], maxBytes=8 * MIB, view=view)
            self.assertEqual((read["encoding"], base64.b64decode(read["data"]).strip()), ("base64", b""))
        self.usable(session)
        both = f"head -c {8 * MIB} /dev/zero | tee /dev/stderr"
        refused = self.refused("LimitExceeded", self.rex.call, "process/run", command=both, maxOutputBytes=8 * MIB)
        self.assertEqual((refused.data["limit"], refused.data["executed"]), ("frameBytes", "yes"))
        done = self.rex.call("process/run", command=both, maxOutputBytes=4 * MIB)
        self.assertEqual([len(base64.b64decode(done[stream])) for stream in ("stdout", "stderr")], [4 * MIB] * 2)

    @in_shells()
    def test_C18_a_text_in_pieces_and_colours_matches_once(self, session):
        command = ("printf 'Lis'; sleep 0.05; printf '\\033[1m'; sleep 0.05; printf 'tening on :80'; sleep 0.05;"
                   "printf '\\033[0m80\\n'; sleep 0.1; echo after")
        result = session.run(command, expect=["never", "Listening on .*8080"])
        self.result(result, state="matched", exitCode=None)
        self.assertEqual(result["expect"]["index"], 1)
        self.assertEqual(result["expect"]["text"], "Listening on :8080")
        self.assertEqual(result["next"], result["expect"]["to"])
        later = session.call("wait", any=[{"match": "Listening"}, {"match": "after"}],
                             **{"from": result["next"], "waitMs": 5000})
        self.assertEqual((later["met"], later["result"]["expect"]["index"]), (1, 1), "matched once")
        raw = session.call("wait", any=[{"match": "Listening", "stripAnsi": False}], **{"from": 0, "waitMs": 100})
        self.assertIsNone(raw["met"])
        exact = session.call("wait", any=[{"match": "tening on :80", "stripAnsi": False}], **{"from": 0, "waitMs": 100})
        self.assertEqual(exact["met"], 0)
        self.refused("InvalidParams", session.call, "wait", any=[{"match": "(?=x)"}], waitMs=1)

    @in_shells()
    def test_C19_the_terminal_is_wide_and_a_resize_is_seen(self, session):
        self.ended(session.run("stty size"), output="50 200\n")
        self.assertEqual((session.info["rows"], session.info["cols"]), (50, 200))
        program = ("import os, signal\n"
                   "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGWINCH])\nprint('up', flush=True)\n"
                   "signal.sigwait([signal.SIGWINCH])\nprint('size', *os.get_terminal_size())\n")
        (self.folder / "winch.py").write_text(program)
        up = session.run(f"python3 {self.folder}/winch.py", expect=["up"])
        session.call("resize", rows=33, cols=111)
        over = session.call("wait", job=up["job"], any=[{"exit": True}], waitMs=5000)
        self.assertIn("size 111 33\n", over["result"]["output"])
        self.ended(session.run("stty size"), output="33 111\n")
        told = session.call("info")
        self.assertEqual((told["rows"], told["cols"]), (33, 111))

    def test_C22_the_machines_own_locale_is_kept_and_one_it_lacks_spoils_no_output(self):
        """Nothing of a client's own surroundings comes along; what it asks for in `env` is the shell's to complain of."""
        own = Rex(env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": "/"})
        self.addCleanup(own.close)
        (self.folder / "å日").mkdir()
        for shell in ("bash", "dash", "zsh"):
            with self.subTest(shell=shell):
                kept = self.fresh(shell, rex=own, cwd=str(self.folder))
                self.ended(kept.run("echo $LANG; ls -N"), output="C.UTF-8\nå日\n")
                asked = self.fresh(shell, rex=own, cwd=str(self.folder), env={"LC_ALL": "sv_SE.UTF-8"})
                self.ended(asked.run("echo $LC_ALL; echo *"), output="sv_SE.UTF-8\nå日\n")
                self.usable(asked)

    def test_C20_sizes_no_terminal_has_are_refused(self):
        session = self.fresh()
        for rows, cols in ((0, 0), (0, 80), (80, 0), (-1, 5), (65536, 80), (80, 65536), (2**31, 80), (2**53, 2**53)):
            self.refused("InvalidParams", session.call, "resize", rows=rows, cols=cols)
            self.refused("InvalidParams", self.rex.call, "session/create", session="never", rows=rows, cols=cols)
        for rows, cols in ((1, 1), (1000, 1000), (65535, 65535)):
            session.call("resize", rows=rows, cols=cols)
            self.ended(session.run("stty size"), output=f"{rows} {cols}\n")
        self.assertNotIn("never", [info["session"] for info in self.rex.call("session/list")["sessions"]])
        self.assertTrue(until(lambda: not family(session.info["pid"])))


if __name__ == "__main__":
    unittest.main()

"""Every row of the table of SWE-ReX's flaws (peers.md, A 4a) with the outcome it should have had.

A row is a list of commands with their results, or a function where that does not say it. Each row is a test of its own
per shell, in a session of its own, and ends with proof that the next command is fine.
"""

import os
import re
import shutil
import unittest

from shell_case import NOTICE, PATIENCE_MS, PYTHON, ShellCase, clean_environment, is_alive, raw_bytes
from rex import Rex, binary

BOTH = ("bash", "dash")
BASH = ("bash",)
RAW = {"view": "raw"}
LARGE = {"maxOutputBytes": 1 << 20}
MARKERS = "SHELLPS1PREFIX EXITCODESTART0EXITCODEEND UNIQUESTRING29234 "
STUBBORN = """sh -c 'trap "" INT; echo ready; while :; do sleep 300; done'"""
IMMUNE = """sh -c 'trap "" INT TSTP TERM HUP; echo ready; while :; do sleep 300; done'"""


class SwerexTable(ShellCase):
    """Filled by `row`."""


def row(number, promise, shells, *steps, program=None):
    """Adds row `number`: its steps, `(command, output, exit code, more)` each, or the function that it decorates."""

    def add(body):
        for shell in shells:

            def test(case, shell=shell):
                session = case.shell(shell)
                if body(case, session) is not session:
                    case.is_fine(session)

            test.__doc__ = f"Row {number}, {shell}: {promise.replace('_', ' ')}"
            name = f"test_row_{number:02}_{promise}_in_{shell}"
            assert not hasattr(SwerexTable, name), name
            if program:
                test = unittest.skipUnless(shutil.which(program), f"{program} is not installed")(test)
            setattr(SwerexTable, name, test)
        return body

    def run_steps(case, session):
        for command, output, *rest in steps:
            more = dict(rest[1]) if len(rest) > 1 else {}
            case.gives(session, command, output, rest[0] if rest else 0, **more)

    return add(run_steps) if steps else add


def end_with(case, session, escalate, step, exit_code, grace_ms=2000):
    """Interrupts the job; it must end by `step` with `exit_code`, and the session be at its prompt."""
    answer = session.call("interrupt", escalate=escalate, graceMs=grace_ms)
    case.assertEqual((answer["step"], answer["state"]), (step, "ready"))
    case.assertEqual((answer["result"]["state"], answer["result"]["exitCode"]), ("exited", exit_code))
    return answer["result"]


def restarts(code, signal=None):
    cause = {"restarted": {"cause": f"signal {signal}" if signal else "exited", "exitCode": code}}
    return ("echo again", "again\n", 0, cause)


GONE = {"state": "shellExited", "restarted": None}

# --- Output is what was written: no echo, no prompt, no marker added, none taken away.

row(1, "a_command_says_what_it_wrote", BOTH, ("echo hi", "hi\n"), ("printf hi", "hi"), ("true", ""))


@row(2, "a_colour_terminal_around_the_server_changes_nothing", BOTH)
def _(case, session):
    with Rex(env=clean_environment(case.home, TERM="xterm-256color"), cwd=case.dir) as rex:
        inner = rex.session(shell=session.info["shell"])
        case.gives(inner, "echo hi", "hi\n")
        case.gives(inner, "true", "")
        case.gives(inner, "echo $TERM", "dumb\n")


row(3, "a_forged_prompt_is_text", BOTH,
    ("echo before; echo SHELLPS1PREFIX; sleep .2; echo trailing", "before\nSHELLPS1PREFIX\ntrailing\n"))
row(4, "a_forged_prompt_ends_nothing", BOTH,
    ("echo SHELLPS1PREFIX; sleep .5; echo trailing; false", "SHELLPS1PREFIX\ntrailing\n", 1), ("echo own", "own\n"))


@row(5, "after_a_wait_that_passed_every_command_has_its_own_output", BOTH)
def _(case, session):
    gate = case.gate()
    first = case.run_in(session, "echo SHELLPS1PREFIX; read x <gate; echo trailing; false", waitMs=50)
    case.assertEqual((first["state"], first["exitCode"]), ("running", None))
    gate.release()
    case.check(case.ends(session), "SHELLPS1PREFIX\ntrailing\n", 1)
    for word in ("one", "two", "three"):
        case.gives(session, f"echo {word}", f"{word}\n")


@row(6, "a_forged_exit_code_is_text", BOTH)
def _(case, session):
    first = case.run_in(session, "(sleep .02; echo EXITCODESTART77EXITCODEEND) & false")
    case.assertEqual((first["state"], first["exitCode"]), ("exited", 1))
    second = case.run_in(session, "wait; (exit 5)")
    case.assertEqual((second["state"], second["exitCode"]), ("exited", 5))
    case.says(session, "EXITCODESTART77EXITCODEEND\n", first["from"])


@row(7, "a_file_full_of_markers_comes_whole", BOTH)
def _(case, session):
    text = (MARKERS + "\n") * 300
    case.path("local.py", text)
    case.gives(session, "cat local.py", text)


row(8, "markers_are_not_taken_out_of_output", BOTH,
    ("echo aUNIQUESTRING29234b", "aUNIQUESTRING29234b\n"),
    ("export X=SHELLPS1PREFIX; env | grep ^X=", "X=SHELLPS1PREFIX\n"),
    ("PS1=SHELLPS1PREFIX; echo $PS1", "SHELLPS1PREFIX\n"),
    ("export -p | grep X= | tr -d \\'\\\"", re.compile(r"(declare -x|export) X=SHELLPS1PREFIX\n")))
row(8, "the_environment_holds_nothing_of_ours", BOTH, ("env | grep -i rex_", "", 1))

# --- The text of a command arrives as it is.

row(9, "a_heredoc", BOTH, ("cat <<EOF\nhello\n$((6*7))\nEOF", "hello\n42\n"))
row(10, "a_command_after_a_heredoc", BOTH, ("cat <<EOF\nhello\nEOF\necho second", "hello\nsecond\n"))
row(11, "two_heredocs", BOTH,
    ("cat <<A\none\nA\ncat <<B\ntwo\nB", "one\ntwo\n"), ("cat <<A - <<B\none\nA\ntwo\nB", "two\n"))
row(12, "a_quoted_heredoc", BOTH, ("cat <<'EOF'\n$HOME `date` \\$x\nEOF", "$HOME `date` \\$x\n"))
row(13, "tabs_in_a_heredoc_reach_the_file", BOTH,
    ("cat >Makefile <<'EOF'\nall:\n\t@printf '%s\\n' 'tab'\nEOF\nmake", "tab\n"),
    ("cat Makefile", "all:\n\t@printf '%s\\n' 'tab'\n"), program="make")
row(14, "nothing_is_completed", BOTH, ("cat >f <<'EOF'\nls /usr/l\t\tx\nEOF", ""), ("cat f", "ls /usr/l\t\tx\n"))
row(15, "a_tab_in_a_command", BOTH, ("echo 'a\tb'", "a\tb\n"))
row(16, "control_bytes_in_a_command_are_text", BOTH,
    ("echo 'a\x1bb'", "a\x1bb\n", 0, {"params": RAW}), ("echo a\x03b", "a\x03b\n", 0, {"params": RAW}),
    ("echo a\x04b", "a\x04b\n", 0, {"params": RAW}), ("\x04", re.compile(r".*not found\n"), 127))

# --- A shell that ends says with what, and the next command finds a new one.

row(17, "errexit_ends_the_shell_and_says_so", BOTH, ("set -e; false", "", 1, GONE), restarts(1))
row(17, "errexit_of_an_earlier_command_counts", BOTH, ("set -e", ""), ("false", "", 1, GONE), restarts(1))
row(18, "exit_gives_its_code", BOTH,
    ("echo bye; exit 3", "bye\n", 3, GONE), restarts(3))
row(18, "the_new_shell_is_where_the_old_one_was", BOTH,
    ("mkdir -p d/gone; cd d", ""), ("exit 3", "", 3, GONE), ("basename $PWD", "d\n"),
    ("cd gone", ""), ("rmdir ../gone; exit 3", "", 3, GONE), ("basename $PWD", "d\n"))
row(19, "a_killed_shell_gives_its_signal", BOTH,
    ("kill -9 $$", "", None, {**GONE, "signal": "KILL"}), restarts(None, signal=9))

# --- Options, prompts and replaced shells.

row(20, "nounset_fails_the_command_only", BASH, ("set -u; echo $nope", "bash: nope: unbound variable\n", 1))
row(20, "nounset_fails_the_command_only", ("dash",),
    ("set -u; echo $nope", re.compile(r"dash: .*nope: parameter not set\n"), 2))
row(21, "xtrace_shows_nothing_of_ours", BOTH,
    ("set -x; echo hi", re.compile(r"\++ echo hi\nhi\n")), ("false", re.compile(r"\++ false\n"), 1),
    ("set +x", re.compile(r"\++ set \+x\n")))


@row(22, "a_replaced_shell_is_unmanaged_and_takes_typed_commands", BOTH)
def _(case, session):
    shell = session.info["shell"]
    case.settles(session, "exec bash --norc" if shell == "bash" else "exec dash")
    case.assertEqual(session.call("info")["state"], "unmanaged")
    after = case.settles(session, "echo after")
    case.assertTrue(after["output"].startswith("after\n"), after["output"])
    case.assertEqual(after["completion"], "heuristic")
    case.gives(session, "exit 5", re.compile(r"(exit\n)?"), 5, "shellExited")
    case.gives(session, *restarts(5)[:2], **restarts(5)[3])


@row(22, "a_replaced_shell_shows_its_prompt", BASH)
def _(case, session):
    prompt = case.asks(session, "PS1='new> ' exec bash --norc", "new> ")
    case.assertEqual(prompt["output"], "new> ")
    case.assertEqual(case.asks(session, "echo after", "new> ")["output"], "after\nnew> ")
    return session


@row(23, "a_nested_shell_is_a_job", BOTH)
def _(case, session):
    nested = "bash --norc" if session.info["shell"] == "bash" else "dash"
    job = case.settles(session, nested)["job"]
    case.is_busy(session, job)
    inside = case.settles(session, "echo inside", interactive=True)
    case.assertTrue(inside["output"].startswith("inside\n"), inside["output"])
    case.gives(session, "exit 4", re.compile(r"(exit\n)?"), 4, params={"interactive": True}, job=job)


@row(23, "a_nested_shell_shows_its_prompt_and_survives_an_interrupt_of_its_job", BASH)
def _(case, session):
    job = case.asks(session, "PS1='in> ' bash --norc", "in> ")["job"]
    case.assertEqual(case.asks(session, "echo inside", "in> ", interactive=True)["output"], "inside\nin> ")
    case.starts(session, "sh -c 'echo up; exec sleep 300'", "up\n", interactive=True)
    case.is_busy(session, job)
    end = session.call("interrupt", graceMs=100)
    case.assertEqual(end["step"], "INT")
    case.assertEqual(session.call("wait", any=[{"input": True}], waitMs=PATIENCE_MS)["met"], 0)
    case.gives(session, "exit 4", re.compile(r"(.*\n)*(exit\n)?"), 4, params={"interactive": True}, job=job)


row(24, "a_changed_prompt_is_harmless", BOTH,
    ("PS1='x> '", ""), ("echo a", "a\n"), ("unset PS1", ""), ("echo b", "b\n"), ("PS1= PS2=; false", "", 1))
row(25, "a_slow_prompt_command_is_harmless", BASH,
    ("PROMPT_COMMAND='sleep .3'", ""), ("false", "", 1), ("echo a", "a\n"))
row(26, "prompt_commands_add_nothing_to_output", BASH,
    ("PROMPT_COMMAND='echo PC' PS0=zero", ""), ("echo a", "a\n"), ("false", "", 1))

# --- Text that no shell can parse.


# The command, the line and the words of each shell for what is wrong with it.
SYNTAX_ERRORS = (
    ("if then", {"bash": (1, "syntax error near unexpected token `then'"),
                 "dash": (1, 'Syntax error: "then" unexpected')}),
    ("echo x; }", {"bash": (1, "syntax error near unexpected token `}'"), "dash": (1, 'Syntax error: "}" unexpected')}),
)
UNCLOSED = (
    ("echo 'abc", {"bash": (1, "unexpected EOF while looking for matching `''"),
                   "dash": (2, "Syntax error: Unterminated quoted string")}),
    ('echo "abc', {"bash": (1, "unexpected EOF while looking for matching `\"'"),
                   "dash": (2, "Syntax error: Unterminated quoted string")}),
    ("if true; then", {"bash": (2, "syntax error: unexpected end of file"),
                       "dash": (2, 'Syntax error: end of file unexpected (expecting "fi")')}),
)


def has_syntax_error(case, session, command, line, text, before=""):
    """What the shell says is in the output too, behind the name of the file that it read."""
    result = case.run_in(session, command)
    case.assertEqual((result["state"], result["exitCode"]), ("exited", 2))
    case.assertEqual(result["syntaxError"], {"line": line, "text": text, "ranBefore": bool(before)})
    case.assertRegex(result["output"], f"^{re.escape(before)}.*: {re.escape(text)}\n")


@row(27, "a_syntax_error_is_a_result_with_its_line_and_the_shells_words", BOTH)
def _(case, session):
    for command, wanted in SYNTAX_ERRORS:
        line, text = wanted[session.info["shell"]]
        has_syntax_error(case, session, command, line, text)
        has_syntax_error(case, session, f"echo one\n{command}", line + 1, text, before="one\n")


@row(28, "an_unclosed_quote_is_a_syntax_error", BOTH)
def _(case, session):
    for command, wanted in UNCLOSED:
        has_syntax_error(case, session, command, *wanted[session.info["shell"]])


row(29, "an_unclosed_heredoc_ends_with_the_text", BASH,
    ("cat <<EOF\nabc", re.compile(r"bash: .*here-document.*\nabc\n")))
row(29, "an_unclosed_heredoc_ends_with_the_text", ("dash",), ("cat <<EOF\nabc", "abc\n"))
row(30, "a_last_backslash_joins_nothing_of_ours", BOTH, ("echo hi \\", re.compile(r"hi ?\n")))
row(31, "the_sessions_own_options_decide_what_parses", BASH,
    ("touch x y; shopt -s extglob", ""), ("echo !(x)", "y\n"))
row(32, "no_line_of_a_text_escapes_from_it", BOTH,
    ("cat <<'X'\nSOUNIQUEEOF\ntouch pwned\nX", "SOUNIQUEEOF\ntouch pwned\n"), ("ls", ""))

# --- Bytes.


@row(33, "binary_output_is_whole_in_raw_and_counted_in_clean", BOTH)
def _(case, session):
    blob = (bytes(range(256)) * 2)[:300]
    case.path("blob", blob)
    case.assertEqual(raw_bytes(case.run_in(session, "cat blob", view="raw")), blob)
    case.assertGreater(case.run_in(session, "cat blob")["replaced"], 0)


row(34, "a_nul_in_output", BOTH, ("printf 'a\\0b\\n'", "a\0b\n", 0, {"params": RAW}))


@row(34, "a_nul_in_a_command_is_refused", BOTH)
def _(case, session):
    case.refused("InputRefused", session.run, "touch made; echo a\0b", waitMs=PATIENCE_MS)
    case.assertEqual(os.listdir(case.dir), [])


@row(35, "invalid_utf8_is_whole_in_raw_and_replaced_in_clean", BOTH)
def _(case, session):
    case.assertEqual(raw_bytes(case.run_in(session, "printf 'caf\\351\\n'", view="raw")), b"caf\xe9\n")
    case.gives(session, "printf 'caf\\351\\n'", "caf\ufffd\n", replaced=1)


row(35, "unicode", BOTH, ("echo 'žluťoučký 漢字 🦖'", "žluťoučký 漢字 🦖\n"))
row(36, "titles_and_character_sets_are_not_text", BOTH,
    ("printf '\\033]0;title\\007text\\n'", "text\n"), ("printf '\\033(BX\\n'", "X\n"))
row(37, "a_carriage_return_overwrites_in_clean_and_stays_in_raw", BOTH,
    ("printf '10%%\\r100%%\\n'", "100%\n"), ("printf '10%%\\r100%%\\n'", "10%\r100%\n", 0, {"params": RAW}),
    ("printf 'a\\r\\nb\\r\\n'", "a\nb\n"), ("printf 'a\\r\\nb\\r\\n'", "a\r\nb\r\n", 0, {"params": RAW}))

# --- Processes that stay behind.


@row(38, "a_background_job_is_told_as_a_survivor", BOTH)
def _(case, session):
    result = case.gives(session, "sleep 100 &", "")
    case.assertEqual([process["command"] for process in result["survivors"]], ["sleep"])


@row(38, "the_end_of_a_background_job_makes_no_noise", BOTH)
def _(case, session):
    for ending in (":", "kill $$"):
        gate = case.gate()
        pid = case.run_in(session, f"sh -c 'read x <gate; {ending}' & echo $!")["output"]
        gate.release()
        case.died(pid.strip())
        case.gives(session, "echo next", "next\n")
        case.gives(session, "/bin/true; echo more", "more\n")
        os.unlink(gate.path)


@row(38, "the_end_of_a_background_job_makes_no_noise_in_a_command_that_waits_for_another_program", BOTH)
def _(case, session):
    for ending in (":", "kill $$"):
        gate = case.gate()
        pid = case.run_in(session, f"sh -c 'read x <gate; {ending}' & echo $!")["output"]
        gate.release()
        case.died(pid.strip())
        case.gives(session, "/bin/true; echo more", "more\n")
        os.unlink(gate.path)


@row(38, "only_a_command_that_waits_for_a_job_may_get_the_shells_word_on_it", BOTH)
def _(case, session):
    case.gives(session, "sleep 100 &", "")
    case.gives(session, "kill $!; wait", re.compile(NOTICE))
    case.gives(session, "echo next", "next\n")
    case.gate()
    case.gives(session, "read x <gate &", "")
    case.gives(session, "echo go >gate; wait; echo next", re.compile(f"{NOTICE}next\n{NOTICE}"))
    case.gives(session, "echo next", "next\n")


def background_output(case, session):
    gate = case.gate()
    case.gives(session, "(read x <gate; echo LATE) &", "")
    case.gives(session, "echo after", "after\n")
    late = case.run_in(session, "echo go >gate; wait")
    case.assertTrue(late["output"].startswith("LATE\n"), late["output"])
    return gate, late


@row(39, "late_output_is_in_no_command_that_ended_before", BOTH)
def _(case, session):
    background_output(case, session)


@row(39, "late_output_names_its_process", BOTH)
def _(case, session):
    _, late = background_output(case, session)
    case.assertEqual([process["command"] for process in late["interleaved"]], [session.info["shell"]])


@row(39, "late_output_comes_without_job_notices", BOTH)
def _(case, session):
    _, late = background_output(case, session)
    case.assertRegex(late["output"], rf"\ALATE\n{NOTICE}\Z")
    case.gives(session, "echo next", "next\n")


@row(40, "an_ampersand_at_the_end_of_a_line", BOTH)
def _(case, session):
    result = case.gives(session, "sleep 100 &\necho started", "started\n")
    case.assertEqual([process["command"] for process in result["survivors"]], ["sleep"])


row(41, "carriage_returns_in_a_command", BOTH,
    ("echo hi\r\necho there\r\n", "hi\r\nthere\r\n", 0, {"params": RAW}), ("echo hi\r\necho there\r\n", "hi\nthere\n"))

# --- Programs that read the terminal never get the next command.


def reads(case, session, command):
    """Runs a `command` that reads the terminal: the call says so, and no other command gets there."""
    result = case.settles(session, command)
    case.assertEqual((result["output"], session.call("info")["state"]), ("", "waitingInput"))
    case.is_busy(session, result["job"])
    return result


@row(42, "a_program_that_reads_never_eats_a_command_and_is_interrupted", BOTH)
def _(case, session):
    reads(case, session, "cat")
    case.assertEqual(end_with(case, session, False, "INT", 130)["output"].strip(), "")


@row(42, "a_program_that_reads_gets_what_is_typed_to_it", BOTH)
def _(case, session):
    start = reads(case, session, "cat")["from"]
    case.types(session, "a line")
    case.says(session, "a line\na line\n", start)
    session.call("write", data="\u0004")
    case.check(case.ends(session), "a line\na line\n")


@row(42, "a_program_that_reads_ends_with_the_interrupt_character", BOTH)
def _(case, session):
    case.starts(session, "sh -c 'echo up; exec cat'", "up\n")
    session.call("write", data="\u0003")
    case.check(case.ends(session), re.compile(r"up\n(\^C)?\n?"), 130)


@row(43, "read_gets_what_is_typed_and_never_a_command", BOTH)
def _(case, session):
    reads(case, session, "read x")
    case.types(session, "value")
    case.check(case.ends(session), "value\n")
    case.gives(session, "echo $x", "value\n")


@row(43, "read_is_answered_by_an_interactive_run", BOTH)
def _(case, session):
    job = case.asks(session, "printf 'Name? '; read x; echo hello $x", "Name? ")["job"]
    case.gives(session, "value", "hello value\n", params={"interactive": True}, job=job)
    case.gives(session, "echo $x", "value\n")


@row(44, "read_never_gets_the_next_line_of_its_text", BOTH)
def _(case, session):
    reads(case, session, "read x\nsecond line")
    case.types(session, "value")
    case.check(case.ends(session), re.compile(r"value\n.*second: (command )?not found\n"), 127)
    case.gives(session, "echo $x", "value\n")


# --- Size.


@row(45, "long_lines_are_not_cut", BOTH)
def _(case, session):
    for length in (3000, 4094, 4096, 5000, 20_000):
        case.gives(session, f"echo {'x' * length}", "x" * length + "\n")


@row(46, "a_line_of_200_kilobytes", BOTH)
def _(case, session):
    case.gives(session, f"echo {'x' * 200_000}", "x" * 200_000 + "\n", params=LARGE)


@row(47, "a_large_heredoc_comes_whole", BOTH)
def _(case, session):
    lines = "".join(f"{number:079}\n" for number in range(1300))
    case.gives(session, f"cat <<'EOF'\n{lines}EOF", lines, params=LARGE)
    line = "y" * 8000 + "\n"
    case.gives(session, f"cat <<'EOF'\n{line}EOF", line)


# --- Waiting, interrupting, ending.


@row(48, "late_output_belongs_to_its_own_job", BOTH)
def _(case, session):
    gates = [case.gate(f"gate{number}") for number in range(1, 5)]
    first = case.run_in(session, "for i in 1 2 3 4; do echo L$i; read x <gate$i; done", waitMs=20)
    case.assertEqual(first["state"], "running")
    case.is_busy(session, first["job"])
    for number, gate in enumerate(gates, 1):
        seen = session.call("wait", any=[{"match": f"L{number}\n"}], waitMs=PATIENCE_MS, **{"from": first["from"]})
        case.assertEqual(seen["met"], 0)
        gate.release()
    case.check(case.ends(session), "L1\nL2\nL3\nL4\n")
    case.gives(session, "echo X", "X\n")


@row(49, "an_interrupt_gives_the_partial_output_and_the_true_code", BOTH)
def _(case, session):
    case.starts(session, "sh -c 'echo partial; exec sleep 300'", "partial\n")
    case.assertEqual(end_with(case, session, False, "INT", 130)["output"].rstrip("\n"), "partial")


@row(49, "an_interrupt_is_not_lost_between_two_programs", BOTH)
def _(case, session):
    for _ in range(10):
        case.starts(session, "echo partial; sleep 300", "partial\n")
        end_with(case, session, False, "INT", 130, grace_ms=500)


@row(50, "an_interrupt_that_is_ignored_says_so", BOTH)
def _(case, session):
    job = case.starts(session, STUBBORN, "ready\n")["job"]
    answer = session.call("interrupt", graceMs=50)
    case.assertEqual((answer["step"], answer["state"]), ("INT", "running"))
    case.is_busy(session, job)
    end_with(case, session, True, "TERM", 143, grace_ms=50)


@row(51, "an_interrupt_ends_no_innocent_job", BOTH)
def _(case, session):
    innocent = int(case.run_in(session, "sleep 300 & echo $!")["output"])
    case.starts(session, STUBBORN, "ready\n")
    end_with(case, session, True, "TERM", 143, grace_ms=50)
    case.assertTrue(is_alive(innocent))


@row(52, "an_interrupt_goes_as_far_as_kill", BOTH)
def _(case, session):
    case.starts(session, IMMUNE, "ready\n")
    end_with(case, session, True, "KILL", 137, grace_ms=50)


@row(53, "an_editor_can_be_ended", BASH, program="vim.tiny")
def _(case, session):
    case.settles(session, "vim.tiny x")
    answer = session.call("interrupt", escalate=True, graceMs=500)
    case.assertEqual((answer["state"], answer["result"]["state"]), ("ready", "exited"))


@row(53, "an_editor_is_left_by_its_command", BASH, program="vim.tiny")
def _(case, _session):
    session = case.shell(env={"TERM": "xterm"})
    case.is_busy(session, case.settles(session, "vim.tiny x")["job"])
    case.types(session, ":q!")
    case.check(case.ends(session), re.compile(r".*", re.DOTALL))
    case.is_fine(session)


@row(54, "a_pager_is_left_by_its_key", BASH, program="less")
def _(case, _session):
    session = case.shell(env={"TERM": "xterm"})
    case.is_busy(session, case.settles(session, "seq 3000 | less")["job"])
    session.call("write", data="q")
    case.check(case.ends(session), re.compile(r".*", re.DOTALL), pipeStatus=[0, 0])
    case.is_fine(session)


@row(54, "a_pager_can_be_ended", BASH, program="less")
def _(case, session):
    case.settles(session, "seq 3000 | less")
    answer = session.call("interrupt", escalate=True, graceMs=500)
    case.assertEqual((answer["state"], answer["result"]["state"]), ("ready", "exited"))


row(55, "changed_terminal_modes_are_harmless", BOTH,
    ("stty echo", ""), ("echo a", "a\n"), ("stty sane", ""), ("echo b", "b\n"),
    ("stty raw -echo", ""), ("echo c", "c\n"))
row(55, "a_reset_terminal_is_harmless", BOTH, ("reset", re.compile(r"\s*")), ("echo a", "a\n"), program="reset")
row(56, "a_redirected_shell_still_gives_codes", BOTH,
    ("exec 1>/dev/null", ""), ("echo a", ""), ("false", "", 1), ("exec 1>/dev/tty", ""), ("echo b", "b\n"))
row(57, "a_shell_without_stdin_lives_on", BOTH, ("exec </dev/null", ""), ("echo a", "a\n"), ("false", "", 1))
row(58, "an_exclamation_mark_is_itself", BOTH, ("echo hi!there", "hi!there\n"))
row(59, "two_exclamation_marks_are_themselves", BOTH, ("echo first", "first\n"), ('echo "bang!!"', "bang!!\n"))
row(60, "the_previous_status_is_the_previous_commands", BOTH,
    ("false", "", 1), ("echo $?", "1\n"), ("(exit 42)", "", 42), ("echo $?", "42\n"), ("echo $?", "0\n"))
row(61, "an_alias_works_from_the_next_line_on", BOTH, ("alias ll='echo aliased'\nll", "aliased\n"), ("ll", "aliased\n"))


@row(62, "an_expected_text_is_matched_and_shown", BOTH)
def _(case, session):
    result = case.run_in(session, "printf '(gdb) '; read x", expect=["never", r"\(gdb\) "])
    case.check(result, "", None, "matched")
    case.assertEqual((result["expect"]["index"], result["expect"]["text"]), (1, "(gdb) "))
    case.types(session, "")
    case.ends(session)
    case.refused("InvalidParams", session.run, "touch made", expect=["(gdb"])
    case.assertEqual(os.listdir(case.dir), [])


@row(63, "nothing_around_a_match_is_lost", BOTH)
def _(case, session):
    gate = case.gate()
    result = case.run_in(session, "echo foo; read x <gate; echo bar", expect=["foo"])
    case.check(result, "", None, "matched", next=result["expect"]["to"])
    gate.release()
    case.check(case.ends(session), "foo\nbar\n")
    case.assertEqual(session.read_all(result["expect"]["from"]), b"foo\nbar\n")


@row(64, "a_python_prompt_driven_by_expect", BASH)
def _(case, session):
    case.starts(session, f"{PYTHON} -q", ">>> ")
    for typed, printed in (("print('  pad  ')", "  pad  \n"), ("6 * 7", "42\n"), ("print()", "\n")):
        result = case.run_in(session, typed, interactive=True, expect=[">>> "])
        case.check(result, printed, None, "matched")
    case.gives(session, "raise SystemExit(3)", "", 3, params={"interactive": True})


@row(64, "a_python_prompt_driven_by_its_reading", BASH)
def _(case, session):
    case.asks(session, f"{PYTHON} -q", ">>> ")
    case.assertEqual(case.asks(session, "print('  pad  ')", ">>> ", interactive=True)["output"], "  pad  \n>>> ")
    case.gives(session, "raise SystemExit(3)", "", 3, params={"interactive": True})


@row(64, "a_gdb_prompt_driven_by_expect", BASH, program="gdb")
def _(case, session):
    case.starts(session, "gdb -q -nx -nh", "(gdb) ")
    result = case.run_in(session, "print 6 * 7", interactive=True, expect=[r"\(gdb\) "])
    case.check(result, "$1 = 42\n", None, "matched")
    case.gives(session, "quit", "", params={"interactive": True})


@row(65, "a_time_out_of_range_is_refused", BOTH)
def _(case, session):
    for member, value in (("waitMs", -1), ("timeoutMs", -1), ("timeoutMs", 0), ("quietMs", -1), ("waitMs", 0.5)):
        error = case.refused("InvalidParams", session.run, "touch made", **{member: value})
        case.assertEqual(error.data["member"], member)
    case.assertEqual(os.listdir(case.dir), [])
    case.gives(session, "echo null", "null\n", params={"waitMs": None, "timeoutMs": None})


@row(66, "closing_ends_everything_that_was_started", BOTH)
def _(case, session):
    report = "sh -c 'echo $$ >{}; exec sleep 300'"  # a pipe each: the second reader could find the first one's writer
    pids = case.run_in(
        session,
        f"mkfifo a b; setsid {report.format('a')} & read a <a; ({report.format('b')} &); read b <b; "
        "sleep 300 & echo $a $b $!",
    )["output"]
    pids = re.search(r"^(\d+) (\d+) (\d+)$", pids, re.MULTILINE).groups()
    case.assertEqual([is_alive(pid) for pid in pids], [True] * 3)
    case.assertEqual(session.call("close", graceMs=500)["survivors"], [])
    case.assertEqual([is_alive(pid) for pid in pids], [False] * 3)
    return session


@row(67, "a_closed_name_is_free", BOTH)
def _(case, session):
    session.call("close")
    case.assertRaisesRegex(Exception, "1101|1103", session.run, "true")
    again = case.rex.session(session.name, shell=session.info["shell"])
    case.gives(again, "echo again", "again\n", restarted=None)


def create_slowly(case, name, shell):
    source = case.path("slow", "echo warming up\nsleep 300\n")
    options = {"shell": shell, "startupSource": [source], "startupTimeoutMs": 200}
    return case.refused("StartFailed", case.rex.session, name, **options)


@row(68, "a_start_that_failed_leaves_its_name_free", BOTH)
def _(case, session):
    session.call("close")
    create_slowly(case, session.name, session.info["shell"])
    again = case.rex.session(session.name, shell=session.info["shell"])
    case.gives(again, "echo first", "first\n")


@row(68, "a_start_that_failed_says_how_far_it_came", BOTH)
def _(case, session):
    error = create_slowly(case, session.name + "slow", session.info["shell"])
    case.assertIn("warming up", error.data.get("output", ""))


@row(69, "a_missing_startup_file_is_a_warning", BOTH)
def _(case, session):
    other = case.shell(session.info["shell"], startupSource=[case.path("missing"), case.path("there", "V=7\n")])
    case.assertIn(case.path("missing"), "".join(other.info["startup"]["warnings"]))
    case.gives(other, "echo $V", "7\n")


@row(70, "a_terminal_is_as_wide_as_asked_and_isolate_is_none", BOTH)
def _(case, _session):
    session = case.shell(_session.info["shell"], cols=30)
    for name in ("alpha", "bravo", "charlie", "delta", "echo"):
        case.path(name, "")
    columns = case.run_in(session, "ls -C -w 30", isolate=True)["output"]
    case.assertEqual(columns.count("\n"), 2)
    case.gives(session, "ls", columns)
    case.gives(session, "ls", "alpha\nbravo\ncharlie\ndelta\necho\n", params={"isolate": True})


@row(71, "a_server_that_ignores_interrupts_starts_shells_that_do_not", BOTH)
def _(case, session):
    deaf = ["sh", "-c", "trap '' INT; exec \"$0\"", binary()]
    with Rex(deaf, env=clean_environment(case.home), cwd=case.dir) as rex:
        inner = rex.session(shell=session.info["shell"])
        case.starts(inner, "sh -c 'echo up; exec sleep 300'", "up\n")
        end_with(case, inner, False, "INT", 130)
        case.is_fine(inner)


if __name__ == "__main__":
    unittest.main()

"""Every shell that is managed, fish and zsh among them, whatever its own configuration does. By id where there is one.

The texts of the other files are for shells that read `sh`; here are those that are fish's own, those that are the same
in all, and hooks, prompts and traps as people have them.
"""

import os
import sys
import unittest

from rig import RexCase, amount, in_shells, long_only, needs, subprocess, until

ALL = tuple(shell for shell in ("bash", "dash", "zsh", "fish", "busybox") if subprocess.run(
    ["sh", "-c", f"command -v {shell}"], stdout=subprocess.DEVNULL).returncode == 0)


class Fish(RexCase):
    """What A to E ask of every shell, in fish's words."""

    @needs("fish")
    @in_shells("fish")
    def test_A9_A10_A13_fish_tells_codes_pipelines_and_bytes(self, session):
        for command, code, pipe, output in [
            ("true", 0, [0], ""), ("false", 1, [1], ""), ("sh -c 'exit 44'", 44, [44], ""),
            ("sh -c 'kill -TERM $fish_pid' 2>/dev/null; sh -c 'kill -TERM $$'", 143, [143], ""),
            ("false | true | sh -c 'exit 3'", 3, [1, 0, 3], ""), ("echo a|cat;false|true", 0, [1, 0], "a\n"),
            ("printf x", 0, [0], "x"), ("printf '\\n\\n'", 0, [0], "\n\n"), ("printf '\\e[2K'", 0, [0], "\x1b[2K"),
            ("printf 'a\\r\\nb\\r'", 0, [0], "a\r\nb\r"), ("printf '\\xc3\\xa9 \\x01'", 0, [0], "é \x01"),
            ("nosuchprogram", 127, [127], "fish: Unknown command: nosuchprogram\n"), ("return 4", 4, [4], ""),
            ("", 0, [0], ""), ("# comment", 0, [0], ""), ("echo a \\", 0, [0], "a\n"), ("echo a\r\necho b", 0, [0], "a\nb\n"),
        ]:
            with self.subTest(command=command):
                if command == "":
                    session.run("true")
                self.ended(session.run(command, view="raw"), code, pipeStatus=pipe, output=output)
        self.ended(session.run("sh -c 'exit 9'"), 9)
        self.ended(session.run("echo $status"), output="9\n")

    @needs("fish")
    @in_shells("fish")
    def test_A1_A2_fish_background_processes_hold_nothing_and_are_named(self, session):
        result = self.ended(session.run("sleep 300 & echo $last_pid"))
        self.assertEqual(result["survivors"], [{"pid": int(result["output"]), "command": "sleep"}])
        writer = self.ended(session.run("sh -c 'while :; do echo x; sleep 0.1; done' & true"))
        met = session.call("wait", any=[{"match": "x\n"}], **{"from": writer["next"], "waitMs": 5000})
        self.assertEqual(met["met"], 0)
        self.ended(session.run("sleep 0.3; echo mine", isolate=True), output="mine\n")
        left = self.ended(session.run("kill $last_pid; sleep 0.1; jobs -p | count"))
        self.assertRegex(left["output"], r"\A(x\n)*1\n\Z")  # the writer may come first
        self.usable_fish(session)

    @needs("fish")
    @in_shells("fish")
    def test_A14_A16_S10_fish_texts_without_an_end_and_ends_of_the_shell(self, session):
        for command in ("echo 'x", 'echo "x', "echo (x", "begin; echo", "end", "switch x", "while true", "echo x |",
                        "echo x &&", "function a", "}", "cat <<E"):
            with self.subTest(command=command):
                result = self.ended(session.run(command, timeoutMs=5000), 123)
                self.assertTrue(result["syntaxError"]["text"], result)
                self.assertFalse(result["syntaxError"]["ranBefore"])
        late = session.run("echo one\nif true")
        self.ended(late, 123)
        self.assertEqual((late["syntaxError"]["line"], "one" in late["output"].split("\n")), (2, False))
        self.usable_fish(session)
        self.result(session.run("exit 3"), state="shellExited", exitCode=3, signal=None)
        self.assertEqual(session.run("echo new")["restarted"]["exitCode"], 3)
        self.result(session.run("kill -9 $fish_pid"), state="shellExited", exitCode=None, signal="KILL")
        self.result(session.run("exec true"), state="shellExited", exitCode=0)
        self.ended(session.run("exec nosuchprogram"), 127)
        self.result(session.run("exec sleep 60", waitMs=500), state="running")
        self.assertTrue(until(lambda: session.call("info")["state"] == "unmanaged"))
        self.assertEqual(session.call("interrupt", escalate=True, graceMs=5000)["result"]["state"], "shellExited")
        self.usable_fish(session)

    @needs("fish")
    @in_shells("fish")
    def test_D1_D2_D3_D15_fish_keeps_what_a_command_sets(self, session):
        session.run("cd /tmp; set -x A 1; set B 2; function f; echo f:$argv; end; umask 077")
        self.ended(session.run("pwd; echo $A$B; f x; umask; sh -c 'echo $A$B'"), output="/tmp\n12\nf:x\n0077\n1\n")
        self.ended(session.run(f"cd {self.folder}; false"), 1, cwd=str(self.folder))
        self.ended(session.run("mkdir d; cd d; rm -r ../d"))
        self.ended(session.run("cd /"), cwd="/")
        self.ended(session.run("set -q __rex_c; and echo theirs; env | grep -c __rex"), 1, output="theirs\n0\n")
        odd = self.fresh("fish", env={"ODD": "a\nb ä😀", "EMPTY": "", "GONE": None})
        self.ended(odd.run('echo "$ODD"; set -q EMPTY; and echo empty; set -q GONE; or echo unset'),
                   output="a\nb ä😀\nempty\nunset\n")

    @needs("fish")
    @in_shells("fish")
    def test_D11_names_taken_by_the_user_do_not_reach_fishs_loop(self, session):
        for name in ("printf", "cd", "set", "test", "echo", "return", "commandline", "fish_prompt", "fish_title"):
            session.run(f"function {name}; command echo TAKEN; end")
        self.ended(session.run("set -g IFS /; command true"))
        self.ended(session.run("command sh -c 'exit 6'"), 6, output="")
        self.assertEqual(self.interrupt(session, "while true; end")["exitCode"], 130)
        self.ended(session.run("command printf y; command sh -c 'exit 7'"), 7, output="y")

    @needs("fish")
    @in_shells("fish")
    def test_E1_E5_S08_fish_interrupts_and_stops(self, session):
        for command in ("sleep 50", "while true; end", "sleep 50; echo never", "cat"):
            with self.subTest(command=command):
                self.assertEqual(self.interrupt(session, command)["exitCode"], 130)
                self.ended(session.run("echo on"), output="on\n")
        call = session.start("run", command="sleep 60")
        self.assertTrue(until(lambda: (session.call("info")["foreground"] or {}).get("command") == "sleep"))
        session.call("write", data="\x1a")
        self.result(call.result(), state="stopped")
        self.ended(session.run("jobs -p"))
        self.assertEqual(self.interrupt(session, "fg", "sleep")["state"], "exited")
        self.usable_fish(session)

    @needs("fish")
    @in_shells("fish")
    def test_B7_P07_what_is_typed_ahead_is_read_by_programs_and_never_run_by_fish(self, session):
        mark = self.folder / "mark"
        call = session.start("run", command="while true; end")
        self.assertTrue(until(lambda: session.call("info")["state"] == "running"))
        session.call("write", data=f"touch {mark}\n")
        self.assertEqual(session.call("interrupt", graceMs=5000)["result"]["exitCode"], 130)
        call.result()
        self.usable_fish(session)
        self.assertFalse(mark.exists())
        call = session.start("run", command="read answer; echo got $answer", view="raw")
        session.call("write", data="yes", submit=True)
        self.assertTrue(self.ended(call.result())["output"].endswith("got yes\n"))
        call = session.start("run", command="head -n 1")
        self.assertTrue(until(lambda: (session.call("info")["foreground"] or {}).get("command") == "head"))
        session.call("write", data="line", submit=True)
        self.assertTrue(self.ended(call.result())["output"].endswith("line\n"))
        self.ended(session.run("cat; echo over", stdin="empty"), output="over\n")

    @needs("fish")
    @in_shells("fish")
    def test_D19_D21_texts_of_any_length_and_bytes_arrive_whole_in_fish(self, session):
        self.ended(session.run(f"string length -- '{'x' * 300_000}'"), output="300000\n")
        every = "".join(chr(code) for code in range(1, 128) if chr(code) not in "'\\") + "ä😀\u2028"
        self.ended(session.run(f"printf %s '{every}' | od -An -tx1 | tr -d ' \\n'"), output=every.encode().hex())

    def interrupt(self, session, command, program=None):
        call = session.start("run", command=command)
        self.assertTrue(until(lambda: session.call("info")["state"] == "running"))
        if program:
            self.assertTrue(until(lambda: (session.call("info")["foreground"] or {}).get("command") == program))
        session.call("interrupt", graceMs=5000)
        return call.result()

    def usable_fish(self, session):
        self.ended(session.run("echo usable; sh -c 'exit 21'"), 21, output="usable\n")
        self.assertEqual(session.call("info")["state"], "ready")


class Zsh(RexCase):
    @needs("zsh")
    @in_shells("zsh")
    def test_D4_D5_hooks_of_zsh_neither_print_nor_run_around_a_command(self, session):
        session.run("precmd() { echo PRE }; preexec() { echo PX }; zshaddhistory() { echo ZH }; periodic() { echo PER }")
        session.run("precmd_functions=(precmd) preexec_functions=(preexec) PERIOD=1 PS1='XX ' RPROMPT=YY")
        for _ in range(3):
            self.ended(session.run("echo one; (exit 3)"), 3, output="one\n")
        self.ended(session.run("chpwd() { echo CH }; cd /"), output="CH\n", cwd="/")

    @needs("zsh")
    @in_shells("zsh")
    def test_D4_traps_of_zsh_are_kept_and_debug_fires_once_more(self, session):
        self.ended(session.run("trap 'echo D' DEBUG"))
        self.ended(session.run("echo a"), output="D\na\nD\n")
        self.ended(session.run("echo b; false"), 1, output="D\nb\nD\nD\n")
        self.ended(session.run("trap - DEBUG; trap 'echo ERR' ZERR"))
        self.ended(session.run("false"), 1, output="ERR\n")
        self.ended(session.run("true"), output="")

    @needs("zsh")
    @in_shells("zsh")
    def test_A15_options_of_zsh_do_not_reach_our_words(self, session):
        for option in ("setopt shwordsplit ksharrays", "setopt nounset", "setopt warncreateglobal", "setopt noclobber",
                       "setopt errreturn", "emulate sh", "emulate ksh", "emulate zsh", "IFS=/0123456789", "unset PATH",
                       "setopt posixbuiltins", "setopt cshjunkiequotes", "setopt errexit"):
            with self.subTest(option=option):
                self.ended(session.run(option))
                self.ended(session.run("echo a"), output="a\n")
                self.ended(session.run("(exit 5) | (exit 0)"), 0, pipeStatus=[5, 0])

    @needs("zsh")
    @in_shells("zsh")
    def test_E12_an_interrupt_of_an_idle_zsh_swallows_no_command(self, session):
        met = 0
        for _ in range(20):
            before = session.call("info")["next"]
            session.call("write", data="\x03")
            self.assertTrue(until(lambda: session.call("info")["next"] > before))  # its echo: the signal is on its way
            result = session.run("echo here")
            met += result["exitCode"] == 130  # zsh came to it late, with the command begun, and that is told
            if result["exitCode"] != 130:
                self.assertTrue(self.ended(result)["output"].endswith("here\n"))
        self.assertLess(met, 5)


class AllAlike(RexCase):
    """What no shell may tell differently."""

    @needs("fish")
    def test_S08_a_stopped_job_is_told_beside_a_shell_that_goes_on_working(self):
        session = self.fresh("fish")
        call = session.start("run", command="sleep 60 | while true; end")
        self.assertTrue(until(lambda: (session.call("info")["foreground"] or {}).get("command") == "sleep"))
        session.call("write", data="\x1a")
        self.result(call.result(), state="stopped")
        session.call("interrupt", escalate=True, graceMs=200)

    @needs("fish", "zsh")
    @long_only  # what else is being tested beside it wants that processor too
    @unittest.skipIf(os.geteuid() != 0 or len(os.sched_getaffinity(0)) < 2,
                     "cannot run here: one processor is kept from the shell, by root")
    def test_S08_a_stopped_job_is_told_when_its_shell_has_come_to_it(self):
        """The kernel knows of the stop first; who were told by then would find a session that takes nothing yet."""
        one, *others = os.sched_getaffinity(0)
        hog = f"import os\nos.sched_setaffinity(0, {{{one}}})\nos.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))"
        busy = subprocess.Popen([sys.executable, "-c", f"{hog}\nprint(flush=True)\nwhile True: pass"],
                                stdout=subprocess.PIPE)
        self.addCleanup(busy.wait)
        self.addCleanup(busy.kill)
        if not busy.stdout.readline():
            self.skipTest("cannot run here: root may not have a real-time priority")
        rex = self.spawn()
        for thread in os.listdir(f"/proc/{rex.pid}/task"):
            os.sched_setaffinity(int(thread), others)
        for shell in ("bash", "zsh", "fish"):
            with self.subTest(shell=shell):
                session = self.fresh(shell, rex)
                call = session.start("run", command="sleep 60")
                self.assertTrue(until(lambda: (session.call("info")["foreground"] or {}).get("command") == "sleep"))
                os.sched_setaffinity(session.info["pid"], {one})
                os.sched_setscheduler(session.info["pid"], os.SCHED_IDLE, os.sched_param(0))
                session.call("write", data="\x1a")
                self.result(call.result(), state="stopped")
                self.ended(session.run("echo on"), output="on\n")


class TenThousand(RexCase):
    """A12 and A13 in bulk: every code right, every output exact."""

    def count(self, session):
        self.ended(session.run("true"), output="")
        for _ in range(amount(300, 10_000)):
            self.assertEqual(session.run("true")["exitCode"], 0)
        wrong = [result for result in (session.run("printf x") for _ in range(amount(300, 10_000)))
                 if (result["exitCode"], result["output"], result["completion"]) != (0, "x", "exact")]
        self.assertEqual(wrong, [])

    @in_shells(*ALL)
    def test_A12_A13_ten_thousand_times_true_and_printf_x(self, session):
        self.count(session)

    def test_A12_A13_D5_D6_the_same_with_prompts_and_hooks_of_people(self):
        for shell, name, text in HOOKS:
            with self.subTest(shell=shell, hooks=name):
                if shell not in ALL:
                    self.skipTest(f"no {shell}")
                home = self.own_folder / f"{shell}-{name}"
                rc = home / (".config/fish/config.fish" if shell == "fish" else f".{shell}rc")
                rc.parent.mkdir(parents=True)
                rc.write_text(text)
                session = self.fresh(shell, startup="interactive", env={"HOME": str(home), "XDG_CONFIG_HOME": None})
                self.assertIn(str(rc), session.info["startup"]["sourced"])
                self.count_few(session)
                late = self.fresh(shell, env={"HOME": str(home)})
                late.run(text)
                self.count_few(late)

    def count_few(self, session):
        for number in range(amount(40, 10_000)):
            self.ended(session.run("printf x" if number % 2 else "true"), output="x" if number % 2 else "")
        self.ended(session.run("cd /; sh -c 'exit 3'"), 3, output="", cwd="/")


# As bash-preexec goes about it: it installs itself at the first prompt, around whatever was there, with a DEBUG trap that
# asks the history for the command, calls functions of others, and puts `$?` and `$_` back behind them.
PREEXEC = r"""
preexec_functions=() precmd_functions=() HISTCONTROL=ignorespace:ignoredups
tell_exec() { [[ -n $1 ]] || echo "no command"; }
tell_prompt() { (exit 9); }
preexec_functions+=(tell_exec); precmd_functions+=(tell_prompt)
trap 'theirs=1' DEBUG
__pre_give_back() { return "${1:-0}"; }
__pre_prompt() {
  __pre_code="$?" __pre_pipe=("${PIPESTATUS[@]}")
  ((__pre_inside > 0)) && return; local __pre_inside=1 f
  for f in "${precmd_functions[@]}"; do
    if type -t "$f" 1>/dev/null; then __pre_give_back "$__pre_code" "$__pre_arg"; "$f"; fi
  done
  __pre_give_back "$__pre_code"
}
__pre_ready() { __pre_on="on"; }
__pre_command() {
  __pre_arg="${1:-}"
  ((__pre_inside > 0)) && return; local __pre_inside=1
  if [[ ! -t 1 && -z ${__pre_delay:-} ]]; then return; fi
  if [[ -n ${COMP_POINT:-} || -n ${READLINE_POINT:-} ]]; then return; fi
  if [[ -z ${__pre_on:-} ]]; then return; elif [[ 0 -eq ${BASH_SUBSHELL:-} ]]; then __pre_on=""; fi
  local line f code=0
  line=$(export LC_ALL=C; HISTTIMEFORMAT='' builtin history 1 | sed '1 s/^ *[0-9][0-9]*[* ] //')
  [[ -n $line ]] || return
  for f in "${preexec_functions[@]}"; do
    if type -t "$f" 1>/dev/null; then __pre_give_back "$__pre_code" "$__pre_arg"; "$f" "$line" || code=$?; fi
  done
  __pre_give_back "$code" "$__pre_arg"
}
__pre_install() {
  [[ ${PROMPT_COMMAND[*]:-} == *__pre_prompt* ]] && return 1
  local before; before=$(sed "s/[^']*'\(.*\)'[^']*/\1/" <<<"${__pre_before:-}")
  trap '__pre_command "$_"' DEBUG
  if [[ -n $before ]]; then eval '__pre_others() { '"$before"'; }'; preexec_functions+=(__pre_others); fi
  set -o functrace >/dev/null 2>&1; shopt -s extdebug >/dev/null 2>&1
  local old="${PROMPT_COMMAND:-}"; old="${old//__pre_install/:}"
  PROMPT_COMMAND='__pre_prompt'$'\n'"${old:-:}"$'\n''__pre_ready'
  __pre_prompt; __pre_ready
}
PROMPT_COMMAND=$'__pre_before="$(trap -p DEBUG)"\ntrap - DEBUG\n__pre_install'
"""

# Written as those programs write them into a shell's start: the hook, what it keeps, and a prompt that runs programs.
HOOKS = [
    ("bash", "starship", r"""
starship_preexec() { PREEXEC_READY=false; STARSHIP_START=$SECONDS; }
starship_precmd() { local s=$? p=("${PIPESTATUS[@]}"); PS1="$(printf '\n%s ❯ ' "$s")"; }
trap 'starship_preexec "$_"' DEBUG
PROMPT_COMMAND=starship_precmd
"""),
    ("bash", "conda", r"""
PS1='(base) \u@\h:\w\$ '
conda() { \local cmd="${1-__missing__}"; case "$cmd" in activate) PS1="($2) ${PS1#(*) }";; esac; }
conda activate work
"""),
    ("bash", "direnv", r"""
_direnv_hook() { local previous=$?; trap -- '' SIGINT; eval "$(echo 'export SEEN=1')"; trap - SIGINT; return $previous; }
if [[ ";${PROMPT_COMMAND[*]:-};" != *";_direnv_hook;"* ]]; then
  PROMPT_COMMAND="_direnv_hook${PROMPT_COMMAND:+;$PROMPT_COMMAND}"
fi
"""),
    ("bash", "preexec", r"""
preexec_functions=() precmd_functions=() __inside=
preexec_functions+=(show_exec); precmd_functions+=(show_cmd)
show_exec() { : "$1"; }
show_cmd() { :; }
__precmd() { local code=$?; __inside=1; local f; for f in "${precmd_functions[@]}"; do "$f"; done; __inside=; return $code; }
__interactive() { __on=1; }
__preexec() {
  [[ -n ${__inside:-} || -z ${__on:-} || -n ${COMP_LINE:-} ]] && return
  local this; this=$(HISTTIMEFORMAT= history 1); local f
  for f in "${preexec_functions[@]}"; do "$f" "$this"; done
}
trap '__preexec "$_"' DEBUG
PROMPT_COMMAND=(__precmd __interactive)
"""),
    ("bash", "preexec to come", PREEXEC),
    ("bash", "preexec installed", PREEXEC + '__pre_before="$(trap -p DEBUG)"\ntrap - DEBUG\n__pre_install\n'),
    ("bash", "array", "PROMPT_COMMAND=('echo one' 'echo two'); PS1='$(echo sub)\\n$ ' PS0='[run]'\n"),
    ("bash", "nounset", "set -u; PS1='$ '\n"),
    ("bash", "debug", "set -o functrace; trap ': \"$BASH_COMMAND\"' DEBUG\n"),
    ("zsh", "starship", r"""
autoload -Uz add-zsh-hook
starship_precmd() { STATUS=$? PIPE=(${pipestatus[@]}) }
starship_preexec() { STARSHIP_START=$SECONDS }
add-zsh-hook precmd starship_precmd; add-zsh-hook preexec starship_preexec
setopt promptsubst; PROMPT='$(printf "%s\n> " $STATUS)'; RPROMPT='$(echo right)'
"""),
    ("zsh", "direnv", r"""
_direnv_hook() { trap -- '' SIGINT; eval "$(echo 'export SEEN=1')"; trap - SIGINT }
typeset -ag precmd_functions; precmd_functions=(_direnv_hook $precmd_functions)
typeset -ag chpwd_functions; chpwd_functions=(_direnv_hook $chpwd_functions)
"""),
    ("zsh", "instant", "print -P '%F{1}instant%f'; PROMPT=$'%n\\n> '; setopt nounset notify correct\n"),
    ("zsh", "debug", "TRAPDEBUG() { : $ZSH_DEBUG_CMD }\n"),
    ("fish", "starship", r"""
function fish_prompt; set -l s $status; printf '%s\n> ' $s; end
function fish_right_prompt; echo right; end
function transient --on-event fish_postexec; echo POST; end
function before --on-event fish_preexec; echo PRE; end
"""),
    ("fish", "direnv", r"""
function __direnv_export_eval --on-event fish_prompt; echo 'set -gx SEEN 1' | source; end
function __direnv_cd_hook --on-variable PWD; set -g MOVED 1; end
"""),
    ("fish", "conda", r"""
function __conda_add_prompt; set_color -o green; echo -n '(base) '; set_color normal; end
functions -q fish_prompt; and functions -c fish_prompt __fish_prompt_orig
function fish_prompt; __conda_add_prompt; echo '> '; end
function fish_greeting; echo WELCOME; end
"""),
]


if __name__ == "__main__":
    unittest.main()

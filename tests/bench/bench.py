"""`./dev bench`: this program beside the least that a terminal costs, and beside what people use today.

Usage: bench.py BUILD_DIR [--quick]. Everything is measured in one run, in turns, so that a busy machine slows all
sides alike; ratios are what to look at. Exits with 0 unless something is broken: a miss is shown, never a failure,
because time on a shared machine proves nothing. --quick takes about 20 s instead of a minute and a half.

The floor of a round trip is a real bash on a bare raw pty that is typed `true;echo` and read until the line feed
comes (rounds.cc): no exit code, directory, journal or JSON. CPU of the floor is that bash and its caller; CPU of
rex-rpc is server, shell and guardian, without the client.
"""

import glob
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time

from clients import clients
from far import far
from lasting import lasting
from searching import searching

try:
    import pexpect
except ImportError:
    pexpect = None

SESSIONS = 30
SEQ = 6_700_000  # 52,488,896 bytes


class Server:
    """A rex-rpc and the least Python that can speak to it."""

    def __init__(self, program, env=None):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env)

    def call(self, method, **params):
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()
        while "id" not in (answer := json.loads(self.process.stdout.readline())):
            pass  # a notification
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def close(self):
        self.process.stdin.close()
        self.process.wait()

    def own_processes(self):
        """The server, the nursery and the guardians: whatever below it runs the same program."""
        parents = {}
        for path in glob.glob("/proc/[0-9]*/stat"):
            try:
                with open(path) as file:
                    pid, rest = path.split("/")[2], file.read().rpartition(")")[2]
                parents.setdefault(rest.split()[1], []).append(pid)
            except OSError:
                pass  # it has ended meanwhile
        found = [str(self.process.pid)]
        for pid in found:
            found += parents.get(pid, [])
        program = os.readlink(f"/proc/{found[0]}/exe")
        return [pid for pid in found if os.readlink(f"/proc/{pid}/exe") == program]


def memory_of(pids):
    """Sums in MB: (resident, proportional). Forked processes share most pages, which resident counts each time."""
    sums = {"Rss:": 0, "Pss:": 0}
    for pid in pids:
        with open(f"/proc/{pid}/smaps_rollup") as file:
            for line in file:
                name, *value = line.split()
                if name in sums:
                    sums[name] += int(value[0])
    return sums["Rss:"] * 1024 / 1e6, sums["Pss:"] * 1024 / 1e6  # the kernel's kB are KiB


def switches_of(pids):
    """How often each was put to sleep or pushed aside so far; a process that sleeps on adds nothing."""
    total = 0
    for pid in pids:
        for path in glob.glob(f"/proc/{pid}/task/*/status"):
            with open(path) as file:
                total += sum(int(line.split()[1]) for line in file if "ctxt_switches" in line)
    return total


def cpu_of(pids):
    """Seconds on a CPU so far, by the scheduler's own count."""
    total = 0
    for pid in pids:
        with open(f"/proc/{pid}/schedstat") as file:
            total += int(file.read().split()[0])
    return total / 1e9


class Table:
    def __init__(self):
        self.missed = 0

    def title(self, text):
        print(f"\n{text}", flush=True)

    def row(self, name, value, note=""):
        print(f"  {name:<52}{value:>22}  {note}".rstrip(), flush=True)

    def target(self, name, value, limit, unit, at_least=False):
        kept = value >= limit if at_least else value <= limit
        self.missed += not kept
        bound = f"target {'>=' if at_least else '<='} {limit:g}{unit}"
        self.row(name, f"{value:.2f}{unit}", f"{'PASS' if kept else 'MISS'}  {bound}")


def run_tool(build, name, *arguments, cpus=None):
    """Lines of a measuring program, split into words; `cpus` are what it and all it starts may run on."""
    command = [f"{build}/tests/bench_{name}", f"{build}/rex-rpc", *map(str, arguments)]
    everywhere = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus or everywhere)
    try:
        output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    finally:
        os.sched_setaffinity(0, everywhere)
    return [line.split() for line in output.splitlines()]


def round_trips(table, build, rounds, title, cpus=None):
    """Twice in a run: left alone, where half of the floor is one CPU waking another, and on one CPU, where it is not
    and every microsecond of work shows."""
    measured = {}
    for name, *numbers in run_tool(build, "rounds", rounds, cpus=cpus):
        measured[name] = [float(number) for number in numbers]
    floor = measured["pty-bash"]
    names = {
        "pty-byte": "a byte to a child on a raw pty and back",
        "pty-bash": "bash on a raw pty, `true;echo` (the floor)",
        "driver-bash": "bash told by file, reporting on a pipe",
        "run-bash": "session/run `true`, bash",
        "pty-dash": "dash on a raw pty, `true;echo`",
        "run-dash": "session/run `true`, dash",
        "run-zsh": "session/run `true`, zsh",
        "run-fish": "session/run `true`, fish",
        "ping": "ping",
        "spawn-true": "posix_spawn `true`, wait",
        "process-run": "process/run [\"true\"]",
        "spawn-bash-c": "posix_spawn `bash -c true`, wait",
    }
    table.title(f"Round trips over stdio, µs, {title} (in turns)")
    print(f"  {'':<46}{'N':>6}{'median':>9}{'×floor':>8}{'p99':>9}{'×floor':>8}{'CPU':>8}  caller + called (shell)")
    for name, text in names.items():
        count, median, p99, caller, called, shell = measured[name]
        cpu = f"{caller + called:>8.0f}  {caller:.0f} + {called:.0f} ({shell:.0f})" if called else ""
        print(f"  {text:<46}{count:>6.0f}{median:>9.1f}{median / floor[1]:>8.1f}{p99:>9.1f}{p99 / floor[2]:>8.1f}{cpu}")
    run = measured["run-bash"]
    table.target("session/run `true`: median / floor", run[1] / floor[1], 5, "×")
    table.target("session/run `true`: p99 / floor's p99", run[2] / floor[2], 4, "×")
    # Bash alone spends twice the floor's CPU on what an exact answer asks of it, so that is what ours is held to.
    driver = measured["driver-bash"]
    table.target("session/run `true`: CPU / that of bash so told", run[4] / (driver[3] + driver[4]), 2, "×")
    table.row("session/run `true`: CPU / floor's CPU", f"{run[4] / (floor[3] + floor[4]):.2f}×")
    table.row("process/run / posix_spawn", f"{measured['process-run'][1] / measured['spawn-true'][1]:.2f}×")


def hops(table, build, rounds):
    """Each hop reads a request, sends it on, and does the same with its answer."""
    measured = {name: [float(number) for number in numbers] for name, *numbers in run_tool(build, "hops", rounds)}
    table.title("Hops, by programs of programs, µs (in turns)")
    print(f"  {'':<46}{'0':>9}{'1':>9}{'2':>9}{'3':>9}  hops, median")
    rows = {"pipe": "256 bytes through relays of bytes and back", "ping": "ping", "run": "session/run `true`"}
    for name, text in rows.items():
        print(f"  {text:<46}" + "".join(f"{measured[f'{name}-{count}'][1]:>9.1f}" for count in range(4)))
    for count in (1, 2, 3):
        costs = {name: measured[f"{name}-{count}"][1] - measured[f"{name}-0"][1] for name in rows}
        table.target(f"a hop of {count}: session/run / relay of bytes", costs["run"] / costs["pipe"], 3, "×")


def timed(times, action):
    """Median and 99th percentile in µs, after a tenth of it for warming up."""
    for _ in range(times // 10 + 1):
        action()
    samples = []
    for _ in range(times):
        begin = time.perf_counter()
        action()
        samples.append((time.perf_counter() - begin) * 1e6)
    return statistics.median(samples), sorted(samples)[int(times * 0.99)]


def pexpect_session(delay):
    """What SWE-ReX does for a command, less its fork of `bash -n`: two lines typed, three patterns awaited."""
    prompt = "SHELLPS1PREFIX"
    environment = {**os.environ, "PS1": prompt, "PS2": "", "PS0": ""}
    bash = pexpect.spawn("bash --norc", encoding="utf-8", echo=False, env=environment)
    bash.delaybeforesend = delay
    bash.expect(prompt)

    def run():
        bash.sendline("true")
        bash.expect([prompt])
        bash.sendline("\necho EXITCODESTART$?EXITCODEEND")
        bash.expect("EXITCODESTART([0-9]+)EXITCODEEND")
        bash.expect(prompt)

    return bash, run


def from_python(table, program, times):
    table.title("The same from Python, µs")

    def show(name, count, action):
        median, p99 = timed(count, action)
        table.row(f"{name} ({count})", f"{median:.0f}  p99 {p99:.0f}")
        return median

    server = Server(program)
    server.call("session/create", session="bench", shell="bash")
    ours = show("session/run `true`", times, lambda: server.call("session/run", session="bench", command="true"))
    show("process/run [\"true\"]", times // 5, lambda: server.call("process/run", command=["true"]))
    server.close()
    for command in (["true"], ["bash", "-c", "true"]):
        show(f"subprocess.run({json.dumps(command)})", times // 5, lambda: subprocess.run(command, check=True))
    if pexpect is None:
        table.row("pexpect", "not installed")
        return
    for delay, count in ((0.05, max(times // 50, 10)), (None, times // 5)):
        bash, run = pexpect_session(delay)
        theirs = show(f"pexpect as SWE-ReX uses it, delaybeforesend={delay}", count, run)
        bash.close(force=True)
        table.row("  / session/run from Python", f"{theirs / ours:.1f}×")


def bulk(table, build, times):
    table.title(f"52 MB: `seq 1 {SEQ}` (best of {times}, in turns)")
    rates = {"pty": 0.0, "rex": 0.0, "read": 0.0}
    exact = True
    for name, size, milliseconds, *rest in run_tool(build, "bulk", SEQ, times):
        rates[name] = max(rates[name], float(size) / float(milliseconds) / 1e3)
        if name == "rex":
            exact = exact and rest[0] == "1"
            rates["read"] = max(rates["read"], float(size) / float(rest[1]) / 1e3)
    table.row("bash on a raw pty, read and dropped", f"{rates['pty']:.0f} MB/s")
    table.row("session/run until its answer, all in the journal", f"{rates['rex']:.0f} MB/s")
    table.row("session/read of all of it, JSON decoded", f"{rates['read']:.0f} MB/s")
    table.row("every byte is right", "yes" if exact else "NO")
    table.target("session/run / raw pty", rates["rex"] / rates["pty"], 0.5, "×", at_least=True)
    if not exact:
        sys.exit("bench: session/read gave back other bytes than seq wrote")


def fleet(table, build, starts, creates, times):
    table.title("Starting, and many at once (medians)")
    median = {name: float(value) / 1e3 for name, _, value, _ in run_tool(build, "fleet", starts, creates, times)}
    table.row(f"posix_spawn `true`, wait ({starts})", f"{median['spawn-true']:.2f} ms")
    table.target(f"spawn rex-rpc to its first answer ({starts})", median["first-answer"], 10, " ms")
    table.row(f"bash on a raw pty to its first byte ({creates})", f"{median['bare-bash']:.2f} ms")
    table.target(f"session/create, startup clean ({creates})", median["create"], 5, " ms")
    table.target(f"{SESSIONS} sessions × 20 `echo hi` at once ({times})", median["fleet"] / 1e3, 0.5, " s")


def at_rest(table, program):
    table.title("At rest: server, nursery, guardians; shells not counted")
    server = Server(program)
    server.call("ping")
    rss, pss = memory_of(server.own_processes())
    table.row("idle, no session, proportional (Pss)", f"{pss:.2f} MB")
    table.target("idle, no session, resident (Rss)", rss, 10, " MB")
    for i in range(SESSIONS):
        server.call("session/create", session=f"s{i}", shell="bash")
        server.call("session/run", session=f"s{i}", command="true")
    processes = server.own_processes()
    more_rss, more_pss = memory_of(processes)
    table.row("each further session, resident (Rss, shared pages too)", f"{(more_rss - rss) / SESSIONS:.2f} MB")
    table.target("each further session, proportional (Pss)", (more_pss - pss) / SESSIONS, 0.3, " MB")
    before, now = None, switches_of(processes)
    while now != before:  # after a job somebody may look once more, but then it must be quiet
        time.sleep(0.5)
        before, now = now, switches_of(processes)
    time.sleep(2)
    table.target(f"wake-ups of all {len(processes)} in 2 s", switches_of(processes) - before, 0, "")
    server.close()


class Deaf:
    """A client that attaches to a session of an instance and never reads; found by the socket in its own directory."""

    def __init__(self, folder, session):
        self.socket = socket.socket(socket.AF_UNIX)
        while not (found := glob.glob(f"{folder}/rex-rpc/*.sock")):
            time.sleep(0.01)
        self.socket.connect(found[0])
        params = {"session": session, "window": 64 << 20}
        message = {"jsonrpc": "2.0", "id": 1, "method": "session/attach", "params": params}
        self.socket.sendall(json.dumps(message).encode() + b"\n")


def deaf_reader(table, program, seconds):
    """With nobody attached and with the client, in many short turns: what else the machine does slows both alike."""
    table.title(f"`session/run true` while `yes` floods another session, for {seconds} s in all, from Python")
    with tempfile.TemporaryDirectory() as folder:
        server = Server(program, {**os.environ, "XDG_RUNTIME_DIR": folder})
        for name in ("other", "flood"):
            server.call("session/create", session=name, shell="bash")
        samples = {"alone": [], "read by nobody": [], "attached, never read": []}
        interrupts = []
        for turn in range(30):
            flooded, deaf = turn % 3 != 0, turn % 3 == 2
            name = list(samples)[turn % 3]
            if flooded:
                server.call("session/run", session="flood", command="yes", waitMs=0)
            client = Deaf(folder, "flood") if deaf else None
            end = time.monotonic() + seconds / 30
            while time.monotonic() < end:
                begin = time.perf_counter()
                server.call("session/run", session="other", command="true")
                samples[name].append((time.perf_counter() - begin) * 1e6)
            if flooded:
                begin = time.perf_counter()
                server.call("session/interrupt", session="flood")
                interrupts.append((time.perf_counter() - begin) * 1e3)
            if client:
                client.socket.close()
        figures = {}
        for name, all_of_it in samples.items():
            figures[name] = statistics.median(all_of_it), sorted(all_of_it)[int(len(all_of_it) * 0.99)]
            table.row(f"{name} ({len(all_of_it)})", f"{figures[name][0]:.0f}  p99 {figures[name][1]:.0f}")
        for i, what in enumerate(("median", "p99")):
            ratio = figures["attached, never read"][i] / figures["read by nobody"][i]
            table.target(f"{what}: attached, never read / read by nobody", ratio, 1.5, "×")
        table.target("session/interrupt of the flood, worst", max(interrupts), 1000, " ms")
        table.row("memory of the server afterwards, resident", f"{memory_of([str(server.process.pid)])[0]:.1f} MB")
        server.close()


def told(table, program, times):
    """The program writes down when it asked; the answer's arrival is compared with that."""
    table.title("From a prompt to the answer that it waits, ms")
    server = Server(program)
    server.call("session/create", session="bench", shell="bash")
    ask = "import time\nwhile True: input(repr(time.time()))"
    answer = server.call("session/run", session="bench", command=f"python3 -c '{ask}'")
    samples = []
    for _ in range(times):
        answer = server.call("session/run", session="bench", command="", interactive=True)
        samples.append((time.time() - float(answer["waiting"]["text"])) * 1e3)
    p99 = sorted(samples)[int(times * 0.99)]
    table.target(f"python input() ({times}), median", statistics.median(samples), 100, " ms")
    table.row("  p99", f"{p99:.1f} ms")
    server.call("session/interrupt", session="bench", escalate=True)
    silent = []
    for _ in range(max(times // 20, 3)):
        begin = time.time()
        server.call("session/run", session="bench", command="sleep 1; read x")
        silent.append((time.time() - begin) * 1e3 - 1000)
        server.call("session/interrupt", session="bench")
    table.row("`sleep 1; read x`, less the second", f"{statistics.median(silent):.0f} ms")
    server.close()


def watching(table, program, count, seconds):
    """What it costs to know of many sessions whether they wait."""
    table.title(f"CPU of server and guardians for {count} sessions, each, over {seconds} s")
    server = Server(program)
    for i in range(count):
        server.call("session/create", session=f"s{i}", shell="dash")
    for name, command in (("at their prompts", None), ("in `sleep 1000`", "sleep 1000"), ("waiting in `read x`", "read x")):
        for i in range(count if command else 0):
            server.call("session/interrupt", session=f"s{i}")
            server.call("session/run", session=f"s{i}", command=command, waitMs=0)
        time.sleep(6)  # looks become rarer for five seconds
        processes = server.own_processes()
        cpu, wakes = cpu_of(processes), switches_of(processes)
        time.sleep(seconds)
        share = (cpu_of(processes) - cpu) / seconds * 100
        wakes = (switches_of(processes) - wakes) / seconds / count
        table.row(name, f"{share:.2f} % of a CPU", f"{wakes:.2f} wake-ups/s a session")
    server.close()


def main():
    build, quick = sys.argv[1], "--quick" in sys.argv[2:]
    program = f"{build}/rex-rpc"
    table = Table()
    begin = time.monotonic()
    mode = ", quick" if quick else ""
    print(f"{os.cpu_count()} CPUs, load {os.getloadavg()[0]:.2f}, Linux {os.uname().release}{mode}")
    rounds = 2000 if quick else 10000
    round_trips(table, build, rounds, "on all CPUs")
    round_trips(table, build, rounds, "on one CPU", {max(os.sched_getaffinity(0))})
    hops(table, build, 2000 if quick else 10000)
    from_python(table, program, 500 if quick else 2000)
    bulk(table, build, 1 if quick else 4)
    fleet(table, build, *((10, 20, 3) if quick else (30, 50, 9)))
    at_rest(table, program)
    deaf_reader(table, program, 4 if quick else 30)
    told(table, program, 40 if quick else 200)
    watching(table, program, 100 if quick else 1000, 3 if quick else 10)
    server = Server(program)
    clients(table, server, program, 5 if quick else 30)
    searching(table, server, 500 if quick else 4000, 3 if quick else 9)
    server.close()
    lasting(table, lambda environment: Server(program, environment), memory_of, switches_of, *((20, 5) if quick else (1000, 20)))
    far(table, lambda environment: Server(program, environment), program, 5 if quick else 15, 100 if quick else 1000)
    seconds = time.monotonic() - begin
    print(f"\n{table.missed} targets missed; {seconds:.0f} s, load {os.getloadavg()[0]:.2f} at the end")


if __name__ == "__main__":
    main()

"""The package as a whole: its types, its wheel, its README and its examples, run as a user would."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

from world import DEADLINE, PROGRAM, ROOT, folder_of

HERE = ROOT / "clients/python"
SYSTEM_PYTHON = "/usr/bin/python3"  # whose setuptools and wheel are Debian's


def output_of(*argv, **environment):
    done = subprocess.run(
        argv, capture_output=True, text=True, timeout=DEADLINE * 3, cwd="/",
        env={**os.environ, "REX_RPC": PROGRAM, "PYTHONPATH": str(HERE), "PYTHONDONTWRITEBYTECODE": "1", **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def can_build_wheels():
    return os.path.exists(SYSTEM_PYTHON) and not subprocess.run(
        [SYSTEM_PYTHON, "-c", "import setuptools, wheel"], capture_output=True, check=False
    ).returncode


# A program of somebody who has their types checked, too.
TYPED = """
from rex_rpc import AsyncRex, Chunk, ConnectionLost, Feed, Keys, Rex, RexError, Session, SessionBusy, data_of, wire
def use(session: Session) -> wire.RunResult:
    feed: Feed[Chunk] = session.output(offset=0)
    return session.run(next(feed).text, key=Keys().new())
async def read(rex: AsyncRex) -> bytes:
    return data_of(await rex.file_read("/etc/hostname"))
try:
    with Rex() as rex, rex.session() as session:
        print(use(session)["exitCode"])
except (SessionBusy, ConnectionLost, RexError) as error:
    print(error.executed)
"""


class Package(unittest.TestCase):
    @unittest.skipUnless(shutil.which("mypy"), "cannot run here: there is no mypy")
    def test_the_types_are_strict(self):
        said = output_of(
            "mypy", "--strict", "--cache-dir", str(folder_of(self)), str(HERE / "rex_rpc"), PYTHONPATH="",
            MYPYPATH=f"{HERE}:{HERE}/tests/standin",
        )  # fmt: skip
        self.assertIn("no issues", said)
        said = output_of("mypy", "--strict", "--cache-dir", str(folder_of(self)), "-c", TYPED, PYTHONPATH="", MYPYPATH=str(HERE))
        self.assertIn("no issues", said)

    @unittest.skipUnless(can_build_wheels(), "cannot run here: no setuptools with wheel")
    def test_a_wheel_is_built_without_a_network_and_its_program_is_found(self):
        folder = folder_of(self)
        source = shutil.copytree(HERE, folder / "source", ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info"))
        build = f"import os; os.chdir({str(source)!r}); from setuptools import build_meta; build_meta.build_wheel({str(folder)!r})"
        small = folder / "small"  # stands for the static file, which a build of this stage's own would take minutes for
        small.write_text(f'#!/bin/sh\nexec {PROGRAM} "$@"\n')
        for binary in ("", str(small)):
            output_of(SYSTEM_PYTHON, "-c", build, REX_RPC_BINARY=binary, PYTHONPATH="")
        plain, carrying = sorted(folder.glob("*.whl"))
        self.assertTrue(plain.name.endswith("-py3-none-any.whl"), plain.name)
        self.assertRegex(carrying.name, "-py3-none-linux_.*.whl")
        output_of(SYSTEM_PYTHON, "-m", "wheel", "unpack", "-d", str(folder / "unpacked"), str(carrying), PYTHONPATH="")
        library = next((folder / "unpacked").glob("*/*.data/purelib"))
        program = library / "rex_rpc/bin/rex-rpc"
        program.chmod(0o755)  # an installer keeps the mode, `wheel unpack` does not
        ask = "import rex_rpc.opening as o, rex_rpc; print(o.find_program()); rex = rex_rpc.Rex().open(); rex.ping(); rex.close()"
        self.assertEqual(output_of(sys.executable, "-c", ask, PYTHONPATH=str(library), REX_RPC=""), f"{program}\n")
        self.assertTrue((library / "rex_rpc/py.typed").exists())

    def test_the_readme_runs_as_it_stands(self):
        block = re.findall(r"^```python\n(.*?)^```$", (HERE / "README.md").read_text(), re.M | re.S)[0]
        self.assertEqual(output_of(sys.executable, "-c", block), "3\nhello\n\n")


class Examples(unittest.TestCase):
    def run_example(self, name, **environment):
        return output_of(sys.executable, str(HERE / "examples" / name), **environment)

    def test_every_example_is_run_here(self):
        source = pathlib.Path(__file__).read_text()
        for example in (HERE / "examples").glob("*.py"):
            self.assertIn(f'"{example.name}"', source)

    def test_an_agent_answers_a_repl_and_outlives_a_command_that_hangs(self):
        said = self.run_example("agent_loop.py")
        self.assertIn("$ 6 * 7\n42\n>>> [waitingInput, code None]\n", said)
        self.assertIn("$ sleep 60\n", said)
        self.assertIn("the answer is 42\n[exited, code 0]\n", said)
        self.assertLessEqual(len((HERE / "examples/agent_loop.py").read_text().split('"""\n', 1)[1].strip().splitlines()), 30)

    def test_thirty_sessions_at_once(self):
        self.assertIn("add up to 8700\n", self.run_example("parallel.py"))

    def test_a_repl_without_patterns(self):
        lines = self.run_example("repl.py").splitlines()
        self.assertIn("2**64  ->  18446744073709551616", lines)
        self.assertIn("ZeroDivisionError: division by zero", lines)
        self.assertEqual(lines[-1], "exited")

    def test_a_remote_host(self):
        said = self.run_example("remote.py").splitlines()
        self.assertEqual(said[1:], ["Linux", "/", "carried over", "OsError at far, executed: no"])

    def test_a_job_that_outlives_its_client(self):
        runtime = folder_of(self)  # where its session is found, and no other
        runtime.chmod(0o700)
        said = self.run_example("outlive.py", XDG_RUNTIME_DIR=str(runtime))
        self.assertEqual(said, "the first client leaves job 1 running\nstep 1\nstep 2\nstep 3\nit ended with 7\n")


if __name__ == "__main__":
    unittest.main()

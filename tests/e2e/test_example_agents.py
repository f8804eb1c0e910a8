"""The agents of examples/ in languages that need nothing of ours: each does what the others do.

The TypeScript one is run by the tests of its client.
"""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from rig import binary

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"
TRANSCRIPT = """\
> cd /usr && pwd
/usr
[exited 0]
> read -p 'Who is there? ' who && echo hello $who
Who is there? 
[waitingInput null]
> an agent
hello an agent
[exited 0]
> ls /no/such 2>&1 | wc -l; exit 3
1
[shellExited 3]
"""


class ExampleAgents(unittest.TestCase):
    maxDiff = None

    def says_the_same(self, *argv, **environment):
        env = {**os.environ, "REX_RPC": os.path.abspath(binary()), **environment}
        done = subprocess.run(argv, capture_output=True, text=True, env=env, timeout=60, check=False)
        self.assertEqual((done.stdout, done.returncode), (TRANSCRIPT, 0), done.stderr)

    @unittest.skipUnless(shutil.which("jq"), "cannot run here: no jq")
    def test_bash_and_jq_are_enough_for_an_agent(self):
        self.says_the_same("bash", EXAMPLES / "agent.sh")

    @unittest.skipUnless(shutil.which("lua5.4"), "cannot run here: no lua5.4")
    def test_an_agent_in_lua(self):
        self.says_the_same("lua5.4", EXAMPLES / "agent.lua")

    @unittest.skipUnless(shutil.which("go"), "cannot run here: no go")
    def test_an_agent_in_go(self):
        with tempfile.TemporaryDirectory(prefix="rex-go-", dir="/tmp") as cache:
            self.says_the_same("go", "run", EXAMPLES / "agent.go", GOCACHE=cache)


if __name__ == "__main__":
    unittest.main()

"""rex_rpc.swerex: what SWE-ReX promises, and what it does not. Each call has an event loop of its own, as SWE-agent's have.

SWE-ReX is not on these machines; tests/standin has its public interface.
"""

import asyncio
import os
import pathlib
import re
import subprocess
import sys
import unittest
import unittest.mock

from world import PROGRAM, ROOT, Listening, folder_of

os.environ["REX_RPC"] = PROGRAM
sys.path.append(str(pathlib.Path(__file__).parent / "standin"))
sys.path.insert(0, str(ROOT / "tests/support"))
import rex_rpc  # noqa: E402
from rex_rpc import swerex as ours  # noqa: E402
from ssh_server import SshServer  # noqa: E402
from swerex import exceptions as errors  # noqa: E402
from swerex.deployment import config  # noqa: E402
from swerex.deployment.hooks.abstract import DeploymentHook  # noqa: E402
from swerex.runtime import abstract as models  # noqa: E402

# `podman` that has no image before it was pulled, and whose containers are shells of this machine.
TOOL = """#!/bin/sh
echo "$*" >> "$0.log"
case "$1 $2" in
"image inspect") exit 1 ;;
"pull "*) case "$*" in *missing*) echo no such image >&2; exit 125 ;; esac ;;
"run "*) exec sh ;;
esac
"""


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 60))


class RuntimeCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.runtime = ours.RexRuntime()
        cls.addClassCleanup(lambda: run(cls.runtime.close()))

    def setUp(self):
        run(self.runtime.create_session(models.CreateBashSessionRequest()))
        self.addCleanup(lambda: run(self.runtime.close_session(models.CloseBashSessionRequest())))

    def act(self, command, **options):
        return run(self.runtime.run_in_session(models.BashAction(command, **options)))


class Sessions(RuntimeCase):
    def test_a_command_tells_its_output_and_code_as_check_asks(self):
        for command, output, code in (("printf '\\n  x'", "\n  x", 0), ("", "", 0), ("# word", "", 0), ("A=(); false", "", 1),
                                      ("cat <<EOF\nhello\nEOF\necho second", "hello\nsecond\n", 0), ("(exit 7)", "", 7),
                                      ("sleep 1000 &\necho started", "started\n", 0)):  # fmt: skip
            with self.subTest(command):
                seen = self.act(command, check="silent")
                self.assertEqual((seen.output, seen.exit_code), (output, code))
        self.assertIsNone(self.act("true", check="ignore").exit_code)
        with self.assertRaisesRegex(errors.NonZeroExitCodeError, "it broke: .*exit code 3.*\nwhy"):
            self.act("echo why; (exit 3)", error_msg="it broke")

    def test_a_command_that_is_no_bash_says_what_bash_said(self):
        with self.assertRaises(errors.BashIncorrectSyntaxError) as raised:
            self.act("(a")
        self.assertIn("syntax error", raised.exception.extra_info["bash_stderr"])
        self.assertIn("bash_stdout", raised.exception.extra_info)

    def test_what_a_command_printed_can_neither_fake_nor_hide_its_end(self):
        said = "echo SHELLPS1PREFIX; echo EXITCODESTART7EXITCODEEND; echo UNIQUESTRING29234; (exit 2)"
        seen = self.act(said, check="silent")
        self.assertEqual((seen.output.split(), seen.exit_code), (["SHELLPS1PREFIX", "EXITCODESTART7EXITCODEEND", "UNIQUESTRING29234"], 2))

    def test_a_shell_that_ends_is_a_result_and_the_next_command_has_a_new_one(self):
        self.assertEqual(self.act("exit 3", check="silent").exit_code, 3)
        self.assertEqual(self.act("echo on").output, "on\n")

    def test_a_command_out_of_time_runs_on_and_an_interrupt_ends_it(self):
        with self.assertRaises(errors.CommandTimeoutError) as raised:
            self.act("echo begun; sleep 1000", timeout=0.5)
        self.assertEqual(raised.exception.result["state"], "running")
        with self.assertRaises(errors.CommandTimeoutError) as raised:
            self.act("echo not yet", timeout=0.01)
        self.assertIsNone(raised.exception.result)
        run(self.runtime.run_in_session(models.BashInterruptAction(timeout=5)))
        self.assertEqual(self.act("echo free").output, "free\n")

    def test_a_command_behind_a_slow_one_waits_for_its_end(self):
        gate = folder_of(self) / "gate"
        with self.assertRaises(errors.CommandTimeoutError):
            self.act(f"until [ -e {gate} ]; do sleep 0.01; done; x=42", timeout=0.01)

        async def both():
            behind = asyncio.ensure_future(self.runtime.run_in_session(models.BashAction("echo $x")))
            await self.runtime.is_alive()
            gate.touch()
            return await behind

        self.assertEqual(run(both()).output, "42\n")

    def test_an_interrupt_ends_what_ignores_it_and_nothing_else(self):
        self.act("sleep 1000 & bystander=$!")
        with self.assertRaises(errors.CommandTimeoutError):
            self.act("sh -c 'trap \"\" INT TSTP; while :; do sleep 1000; done'", timeout=0.5)
        run(self.runtime.run_in_session(models.BashInterruptAction(timeout=1)))
        self.assertEqual(self.act("kill -0 $bystander && echo lives").output, "lives\n")

    def test_expected_text_ends_the_call_and_is_named(self):
        with unittest.mock.patch("rex_rpc.swerex.runtime.CODE_MS", 60_000):  # however slow the machine is
            seen = self.act("echo one; echo two; echo three; (exit 4)", expect=["two", "never"], check="silent")
        self.assertEqual((seen.output, seen.exit_code, seen.expect_string), ("one\n\nthree\n", 4, "two"))
        seen = self.act("echo ready; sleep 1000", expect=["read[y]"], check="ignore")
        self.assertEqual((seen.expect_string, seen.exit_code), ("read[y]", None))
        run(self.runtime.run_in_session(models.BashInterruptAction(timeout=5)))

    def test_a_repl_is_driven_with_and_without_expect_and_left(self):
        for expect in ([">>> "], []):
            self.act("python3 -q", is_interactive_command=True, expect=expect)
            seen = self.act("print('hello')", is_interactive_command=True, expect=expect)
            self.assertEqual((seen.output.removesuffix(">>> "), seen.exit_code), ("hello\n", 0))
            self.act("quit()\n", is_interactive_quit=True)
            self.assertEqual(self.act("echo back").output, "back\n")
        with self.assertRaises(errors.CommandTimeoutError):
            self.act("python3 -q", is_interactive_command=True, expect=["NEVER"], timeout=0.5)

    def test_an_interrupt_with_expect_leaves_the_repl_alive(self):
        self.act("python3 -q", is_interactive_command=True, expect=[">>> "])
        with self.assertRaises(errors.CommandTimeoutError):
            self.act("import time; time.sleep(1000)", is_interactive_command=True, expect=[">>> "], timeout=0.5)
        seen = run(self.runtime.run_in_session(models.BashInterruptAction(expect=[">>> "], timeout=20)))
        self.assertEqual(seen.expect_string, ">>> ")
        self.assertEqual(self.act("6*7", is_interactive_command=True, expect=[">>> "]).output, "42\n")

    def test_output_is_whole_however_long(self):
        self.assertEqual(self.act("seq 1500000").output, "".join(f"{number}\n" for number in range(1, 1500001)))

    def test_a_session_has_one_life_under_its_name(self):
        with self.assertRaises(errors.SessionExistsError):
            run(self.runtime.create_session(models.CreateBashSessionRequest()))
        for request in (models.BashAction("true", session="none"), models.BashInterruptAction(session="none")):
            with self.assertRaises(errors.SessionDoesNotExistError):
                run(self.runtime.run_in_session(request))
        source = folder_of(self) / "source.sh"
        source.write_text("echo sourced; HERE=42\n")
        for _ in range(2):
            made = run(self.runtime.create_session(models.CreateBashSessionRequest([str(source)], "second")))
            self.assertIn("sourced", made.output)
            self.assertEqual(self.act("echo $HERE", session="second").output, "42\n")
            run(self.runtime.close_session(models.CloseBashSessionRequest("second")))
            with self.assertRaises(errors.SessionDoesNotExistError):
                run(self.runtime.close_session(models.CloseBashSessionRequest("second")))

    def test_sessions_are_worked_in_at_a_time(self):
        run(self.runtime.create_session(models.CreateBashSessionRequest(session="other")))
        gate = folder_of(self) / "gate"

        async def both():
            return await asyncio.gather(
                self.runtime.run_in_session(models.BashAction(f"until [ -e {gate} ]; do sleep 0.01; done; echo seen")),
                self.runtime.run_in_session(models.BashAction(f"touch {gate}", session="other")),
            )

        self.assertEqual(run(both())[0].output, "seen\n")
        run(self.runtime.close_session(models.CloseBashSessionRequest("other")))


class Commands(RuntimeCase):
    def execute(self, command, **options):
        return run(self.runtime.execute(models.Command(command, **options)))

    def test_a_program_is_run_as_subprocess_does(self):
        self.assertEqual(self.execute(["echo", "-n", "a b"]), models.CommandResponse("a b", "", 0))
        self.assertEqual(self.execute("echo out; echo err >&2; exit 3", shell=True), models.CommandResponse("out\n", "err\n", 3))
        self.assertEqual(self.execute(["echo $0", "word"], shell=True).stdout, "word\n")
        self.assertEqual(self.execute("echo out; echo err >&2", shell=True, merge_output_streams=True).stdout, "out\nerr\n")
        self.assertEqual(self.execute(["env"], env={"ONLY": "this"}).stdout, "ONLY=this\n")
        self.assertEqual(self.execute(["pwd"], cwd="/usr").stdout, "/usr\n")
        self.assertEqual(self.execute("kill -9 $$", shell=True).exit_code, -9)
        self.assertEqual(self.execute("printf 'caf\\351'", shell=True).stdout, "caf\\xe9")
        self.assertEqual(self.execute("sleep 1000 & echo at once", shell=True).stdout, "at once\n")
        with self.assertRaisesRegex(errors.NonZeroExitCodeError, "it broke: .*exit code 1"):
            self.execute(["false"], check=True, error_msg="it broke")
        with self.assertRaises(errors.CommandTimeoutError):
            self.execute(["sleep", "1000"], timeout=0.1)
        with self.assertRaises(FileNotFoundError):
            self.execute(["/none"])

    def test_what_is_too_long_for_an_answer_says_what_it_left_out(self):
        output = self.execute("seq 2000000", shell=True).stdout
        left_out = int(re.search(r"\n\[(\d+) bytes left out\]\n", output)[1])
        self.assertEqual(len(output) - len(f"\n[{left_out} bytes left out]\n") + left_out, 14888896)
        self.assertTrue(output.startswith("1\n2\n") and output.endswith("\n2000000\n"))

    def test_files_are_what_they_are(self):
        folder = folder_of(self)
        path = str(folder / "new" / "file")
        run(self.runtime.write_file(models.WriteFileRequest("a\r\né\n", path)))
        self.assertEqual(run(self.runtime.read_file(models.ReadFileRequest(path))).content, "a\r\né\n")
        (folder / "latin").write_bytes(b"\xe9" * 9000000)
        self.assertEqual(run(self.runtime.read_file(models.ReadFileRequest(str(folder / "latin"), "latin-1"))).content, "é" * 9000000)
        with self.assertRaises(UnicodeDecodeError):
            run(self.runtime.read_file(models.ReadFileRequest(str(folder / "latin"))))
        with self.assertRaises(FileNotFoundError):
            run(self.runtime.read_file(models.ReadFileRequest("/none")))
        with self.assertRaises(IsADirectoryError):
            run(self.runtime.write_file(models.WriteFileRequest("x", str(folder))))

    def test_uploads_keep_modes_and_go_into_what_is_there(self):
        folder = folder_of(self)
        (folder / "tree" / "sub").mkdir(parents=True)
        (folder / "tree" / "sub" / "tool").write_text("x")
        (folder / "tree" / "sub" / "tool").chmod(0o755)
        for target in ("there/a", "there/a", "b"):
            run(self.runtime.upload(models.UploadRequest(str(folder / "tree"), str(folder / target))))
            self.assertEqual((folder / target / "sub" / "tool").stat().st_mode & 0o777, 0o755)
        run(self.runtime.upload(models.UploadRequest(str(folder / "tree/sub/tool"), str(folder / "far/tool"))))
        self.assertEqual((folder / "far/tool").read_text(), "x")
        with self.assertRaises(FileNotFoundError):
            run(self.runtime.upload(models.UploadRequest("/none", str(folder / "x"))))

    def test_it_is_alive_while_sessions_work_and_again_after_a_close(self):
        runtime = ours.RexRuntime()
        for _ in range(2):
            self.assertTrue(run(runtime.is_alive(timeout=20)))
            run(runtime.close())
        self.assertFalse(run(ours.RexRuntime(make=lambda: rex_rpc.AsyncRex(connect="unix:/none")).is_alive()))


class Deployments(unittest.TestCase):
    def goes_through_its_life(self, deployment):
        steps = []
        hook = DeploymentHook()
        hook.on_custom_step = steps.append
        deployment.add_hook(hook)
        with self.assertRaises(errors.DeploymentNotStartedError):
            deployment.runtime  # pylint: disable=pointless-statement
        run(deployment.start())
        self.assertTrue(run(deployment.is_alive()))
        run(deployment.runtime.create_session(models.CreateBashSessionRequest()))
        self.assertEqual(run(deployment.runtime.run_in_session(models.BashAction("echo hello"))).output, "hello\n")
        folder = folder_of(self)
        (folder / "a").write_text("carried")
        run(deployment.runtime.upload(models.UploadRequest(str(folder / "a"), str(folder / "b"))))
        self.assertEqual(run(deployment.runtime.read_file(models.ReadFileRequest(str(folder / "b")))).content, "carried")
        run(deployment.stop())
        run(deployment.stop())
        self.assertEqual(steps, ["Starting runtime"])
        return deployment

    def test_here(self):
        deployment = self.goes_through_its_life(ours.LocalDeployment())
        self.assertFalse(run(deployment.is_alive()))

    def test_behind_a_program(self):
        deployment = self.goes_through_its_life(ours.HostDeployment(argv=[PROGRAM]))
        with self.assertRaises(errors.DeploymentNotStartedError):
            run(deployment.is_alive())
        with self.assertRaisesRegex(errors.DeploymentStartupError, "HostUnreachable"):
            run(ours.HostDeployment(argv=["false"]).start())

    @unittest.skipUnless(os.getuid() == 0 and os.path.exists("/usr/sbin/sshd"), "cannot run here: sshd as root")
    def test_behind_ssh(self):
        folder = folder_of(self)
        (folder / "rex-rpc").symlink_to(PROGRAM)
        login = folder / "login"
        login.write_text(f'#!/bin/sh\nexport PATH="{folder}:$PATH"\nexec /bin/sh -c "$SSH_ORIGINAL_COMMAND"\n')
        login.chmod(0o755)
        environment = SshServer.of(self, login=login).client("box")
        self.goes_through_its_life(ours.HostDeployment(url="ssh://box", install=False, env=environment))

    def test_on_tcp(self):
        token = folder_of(self) / "token"
        said = Listening(self, "--listen", "tcp:127.0.0.1:0", "--token-file", str(token)).said
        port = int(re.search(r"tcp:127.0.0.1:(\d+)", said)[1])
        self.goes_through_its_life(ours.RemoteDeployment(auth_token=token.read_text().strip(), port=port))
        with self.assertRaisesRegex(errors.DeploymentStartupError, "Unauthenticated"):
            run(ours.RemoteDeployment(auth_token="wrong", port=port).start())

    def test_in_a_container(self):
        folder = folder_of(self)
        tool = folder / "podman"
        tool.write_text(TOOL)
        tool.chmod(0o755)
        (folder / "rex-rpc").symlink_to(PROGRAM)
        self.addCleanup(os.environ.update, PATH=os.environ["PATH"])
        os.environ["PATH"] = f"{folder}:{os.environ['PATH']}"
        wanted = {"container_runtime": "podman", "platform": "linux/amd64", "docker_args": ["--init"], "remove_images": True}
        self.goes_through_its_life(ours.DockerDeployment(image="i", port=8000, **wanted))
        asked = (folder / "podman.log").read_text()
        self.assertRegex(asked, "(?s)pull --quiet --platform linux/amd64 i\n.*run .*--rm --platform linux/amd64 --init .*i\n.*rmi i\n")
        with self.assertRaisesRegex(errors.DockerPullError, "no such image"):
            run(ours.DockerDeployment(image="missing", container_runtime="podman").start())

    def test_installed_it_is_what_configurations_give(self):
        ours.install()
        for made, kind in ((config.LocalDeploymentConfig(), ours.LocalDeployment),
                           (config.DockerDeploymentConfig(image="i", container_runtime="podman"), ours.DockerDeployment),
                           (config.RemoteDeploymentConfig(auth_token="t"), ours.RemoteDeployment)):  # fmt: skip
            self.assertIsInstance(made.get_deployment(), kind)

    def test_a_program_is_run_with_it_installed_by_its_command_line_alone(self):
        folder = folder_of(self)
        (folder / "agent.py").write_text(
            "import sys\nfrom swerex.deployment.config import LocalDeploymentConfig\n"
            "if __name__ == '__main__': print(type(LocalDeploymentConfig().get_deployment()).__module__, sys.argv[1:])\n"
        )
        places = [folder, ROOT / "clients/python", pathlib.Path(__file__).parent / "standin"]
        environment = {**os.environ, "PYTHONPATH": ":".join(map(str, places))}
        run_module = [sys.executable, "-m", "rex_rpc.swerex"]
        done = subprocess.run([*run_module, "agent", "run", "-x"], env=environment, capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout, "rex_rpc.swerex.deployment ['run', '-x']\n")
        self.assertIn("usage", subprocess.run(run_module, env=environment, capture_output=True, text=True, check=False).stderr)


if __name__ == "__main__":
    unittest.main()

"""Machines that a deployment makes: what is asked of its program, and what is left when the link ends.

Where no container can run, the program is one of the tests' own that tells what it was asked and becomes a shell here.
"""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from far import AGENTS, BARE, needs_agent
from rig import alive, needs, until
from test_hosts_file import FileCase

# Has no image before it was pulled; a container of it is a shell of this machine.
TOOL = """#!/bin/sh
printf '%s\\n' "$*" >> "$LOG"
case "$1 $2" in
"image inspect") test -e "$LOG.pulled" ;;
"pull "*) case "$*" in *missing-image*) echo no such image >&2; exit 125 ;; esac; : > "$LOG.pulled" ;;
"run "*) exec sh ;;
esac
"""


class FakeCase(FileCase):
    def setUp(self):
        super().setUp()
        self.log = self.folder / "log"
        tools = self.folder / "bin"
        tools.mkdir()
        for name in ("docker", "podman", "mine"):
            (tools / name).write_text(TOOL)
            (tools / name).chmod(0o755)
        # What the shell becomes: a rex-rpc that lies where one that was put there would.
        self.env |= {"PATH": f"{tools}:{os.environ['PATH']}", "LOG": str(self.log)}

    def asked(self):
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        self.log.unlink(missing_ok=True)
        return lines

    def connect(self, rex, name="box", deployment="docker", **options):
        return rex.call("host/connect", name=name, deployment=deployment, options=options, install=False)


class Words(FakeCase):
    def test_the_options_become_the_words_that_the_program_takes(self):
        for tool in ("docker", "podman"):
            for number, (options, prepared, run) in enumerate((
                    ({"image": "debian:12"},
                     ["image inspect debian:12", "pull --quiet debian:12"], "--rm debian:12"),
                    ({"image": "debian:12"}, ["image inspect debian:12"], "--rm debian:12"),
                    ({"image": "i", "pull": "always", "platform": "linux/arm64"},
                     ["pull --quiet --platform linux/arm64 i"], "--rm --platform linux/arm64 i"),
                    ({"image": "i", "pull": "never", "keep": True, "network": "none"},
                     [], "--pull never --network none i"),
                    ({"image": "i", "mounts": ["/a:/b", "/c d:/e:ro"], "args": ["--cap-drop", "ALL"]},
                     ["image inspect i"], "--rm --volume /a:/b --volume /c d:/e:ro --cap-drop ALL i"))):
                with self.subTest(tool=tool, **options):
                    rex = self.rex()
                    if number == 0:
                        (self.folder / "log.pulled").unlink(missing_ok=True)
                    # No rex-rpc may lie where such a shell finds one.
                    self.refused("HostUnreachable", self.connect, rex, deployment=tool, **options)
                    asked = self.asked()
                    self.assertEqual(asked[:len(prepared)], prepared)
                    self.assertEqual(asked[len(prepared)], f"run --interactive --entrypoint sh {run}")

    def test_what_a_deployment_cannot_be_asked_is_refused_before_anything_is_started(self):
        rex = self.rex()
        for deployment, options, said in (
                ("docker", {}, "options.image"), ("docker", {"image": "--privileged"}, "options.image"),
                ("docker", {"image": "i", "network": "-x"}, "options.network"), ("lxc", {"image": "i"}, "docker, podman"),
                ("docker", {"image": "i", "tokenFile": "/t"}, "options.tokenFile")):
            with self.subTest(deployment, **options):
                failed = self.refused("InvalidParams", self.connect, rex, deployment=deployment, **options)
                self.assertIn(said, failed.message)
        self.refused("InvalidParams", rex.call, "host/connect", name="x", url="ssh://x", options={"image": "i"})
        self.assertEqual(self.asked(), [])

    def test_what_makes_the_machine_ready_and_fails_is_told_in_its_words(self):
        failed = self.refused("HostUnreachable", self.connect, self.rex(), image="missing-image")
        self.assertEqual(failed.data["phase"], "prepare")
        self.assertIn("no such image", failed.message)
        self.assertNotIn("run", " ".join(self.asked()))

    def test_a_deployment_of_the_users_own_is_words_in_the_file(self):
        own = {"connect": [{"words": ["mine", "run"]}, {"if": "keep", "words": ["kept"]}, {"words": ["{image}{x}"]}]}
        self.write(json.dumps({"deployments": {"mine": own},
                               "hosts": {"a": {"deployment": "mine", "options": {"image": "i"}, "install": False}}}))
        rex = self.rex()
        self.assertEqual(rex.call("host/info", name="a")["argv"], ["mine", "run", "i{x}"])
        failed = self.refused("InvalidParams", self.connect, rex, deployment="mine", image="i", network="none")
        self.assertIn("options.network", failed.message)
        self.write(json.dumps({"hosts": {"a": {"deployment": "mine", "options": {"image": "i"}}}}))
        self.assertIn("hosts.a.deployment: no deployment mine", rex.call("host/list")["detail"])


CONTAINERS = """[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
netns = "none"
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
"""


@needs_agent()
@needs("podman", "runc", "busybox")
class Podman(FileCase):
    """Containers of an image that the test makes itself, busybox and nothing else, in a store of the test's own."""

    tool = command = "podman"  # what a deployment asks, and what the test asks
    removes_after_a_kill = False  # what would remove it is killed with us, as all that we have started

    @classmethod
    def setUpClass(cls):
        cls.store = pathlib.Path(tempfile.mkdtemp(prefix="rex-store-"))
        cls.addClassCleanup(shutil.rmtree, cls.store, ignore_errors=True)
        (cls.store / "containers.conf").write_text(CONTAINERS)
        (cls.store / "storage.conf").write_text(
            f'[storage]\ndriver = "vfs"\ngraphroot = "{cls.store}/store"\nrunroot = "{cls.store}/state"\n')
        cls.places = {"CONTAINERS_CONF": str(cls.store / "containers.conf"), "REX_RPC_AGENTS": str(AGENTS),
                      "CONTAINERS_STORAGE_CONF": str(cls.store / "storage.conf")}
        root = cls.store / "root"
        (root / "bin").mkdir(parents=True)
        (root / "tmp").mkdir()
        shutil.copy(shutil.which("busybox"), root / "bin" / "sh")
        for name in [*BARE.split(), "echo"]:
            (root / "bin" / name).symlink_to("sh")
        subprocess.run(["tar", "-C", str(root), "-cf", str(cls.store / "image.tar"), "."], check=True)
        cls.serve()
        cls.client("import", "--change", 'CMD ["never"]', cls.store / "image.tar", "rex-test:1")
        tried = cls.client("run", "--rm", "--network", "none", "--entrypoint", "sh", "rex-test:1", "-c", ":")
        if tried.returncode != 0:
            raise unittest.SkipTest(f"cannot run here: {cls.command}: {tried.stderr.strip().splitlines()[-1:]}")

    @classmethod
    def serve(cls):
        """Starts what the command asks, where that is another process."""

    def setUp(self):
        super().setUp()
        self.env |= self.places
        self.addCleanup(lambda: [self.client("rm", "--force", each) for each in self.left()])

    @classmethod
    def client(cls, *words):
        return subprocess.run([cls.command, *words], env={**os.environ, **cls.places}, capture_output=True, text=True,
                              timeout=120, check=False)

    def left(self):
        return self.client("ps", "--all", "--quiet").stdout.split()

    def connect(self, rex, **options):
        return rex.call("host/connect", name="box", deployment=self.tool,
                        options={"image": "rex-test:1", "pull": "never", "network": "none", **options})

    def test_a_container_is_made_used_and_gone_with_its_link(self):
        (self.folder / "given").mkdir()
        (self.folder / "given" / "data").write_bytes(bytes(range(256)) * 1000)
        rex = self.rex()
        info = self.connect(rex, mounts=[f"{self.folder}/given:/given:ro"], args=["--env", "WHERE=box"])
        self.assertNotEqual(info["machine"]["hostname"], os.uname().nodename)
        self.says(rex, "box")
        done = rex.call("process/run", host="box", command="echo $WHERE; echo x > /given/x")
        self.assertEqual((done["stdout"], done["exitCode"]), ("box\n", 1))
        session = rex.call("session/create", host="box", shell="sh")["session"]
        self.assertEqual(rex.call("session/run", host="box", session=session, command="echo here")["output"], "here\n")
        rex.call("file/copy", **{"from": {"host": "box", "path": "/given/data"}, "to": {"path": f"{self.folder}/back"}})
        self.assertEqual((self.folder / "back").read_bytes(), (self.folder / "given" / "data").read_bytes())
        self.assertEqual(len(self.left()), 1)
        rex.call("host/disconnect", name="box")
        self.assertTrue(until(lambda: not self.left()), "the container is left")

    def test_a_container_is_gone_when_its_instance_has_ended(self):
        for disconnected in (False, True):
            with self.subTest(disconnected=disconnected):
                rex = self.rex()
                self.connect(rex)
                self.assertEqual(len(self.left()), 1)
                if disconnected:
                    rex.call("host/disconnect", name="box")
                rex.close()
                self.assertTrue(until(lambda: not self.left()), "the container is left")

    def test_a_container_is_kept_where_that_is_wanted_and_ends_all_the_same(self):
        rex = self.rex()
        self.connect(rex, keep=True)
        rex.call("host/disconnect", name="box")
        self.assertTrue(until(lambda: not self.client("ps", "--quiet").stdout), "it runs on")
        self.assertEqual(len(self.left()), 1)

    def test_a_container_ends_when_we_were_killed(self):
        rex = self.rex()
        self.connect(rex)
        pid = int(self.client("inspect", "--format", "{{.State.Pid}}", *self.left()).stdout)
        rex.kill()
        self.assertTrue(until(lambda: not alive(pid)), "it runs on")
        self.assertTrue(not self.removes_after_a_kill or until(lambda: not self.left()), "it is left")

    def test_H13_a_container_that_runs_is_a_host_through_its_exec(self):
        started = self.client("run", "--detach", "--interactive", "--network", "none", "--entrypoint", "sh", "rex-test:1")
        rex = self.rex()
        rex.call("host/connect", name="box", argv=[self.tool, "exec", "-i", started.stdout.strip(), "sh"])
        self.says(rex, "box")
        session = rex.call("session/create", host="box", shell="sh")["session"]
        self.assertEqual(rex.call("session/run", host="box", session=session, command="echo here")["output"], "here\n")

    def test_an_image_that_is_not_there_is_told_in_the_words_of_the_command(self):
        failed = self.refused("HostUnreachable", self.connect, self.rex(), image="localhost/no-such-image:1")
        self.assertIn("no-such-image", failed.message)
        self.assertEqual(self.left(), [])


@needs("docker")
class Docker(Podman):
    """The same through the docker command, which is served by podman."""

    tool = "docker"

    removes_after_a_kill = True

    @classmethod
    def serve(cls):
        place = cls.store / "docker.sock"
        service = subprocess.Popen(["podman", "system", "service", "--time=0", f"unix://{place}"],
                                   env={**os.environ, **cls.places}, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        cls.addClassCleanup(service.wait)
        cls.addClassCleanup(service.terminate)
        cls.places = {**cls.places, "DOCKER_HOST": f"unix://{place}"}
        if not until(place.exists):
            raise AssertionError("podman serves no docker")


@needs("docker", "dockerd")
@unittest.skipUnless(os.getuid() == 0, "cannot run here: dockerd runs as root")
class Dockerd(Podman):
    """The same with Docker's own daemon, whose containers have no network and lie in a folder of the test's own."""

    tool = command = "docker"
    removes_after_a_kill = True  # by the daemon

    @classmethod
    def serve(cls):
        (cls.store / "no-containers.json").write_text("{}")  # the machine's own configuration is no part of a test
        place, log = cls.store / "docker.sock", open(cls.store / "log", "w+", encoding="utf-8")
        cls.addClassCleanup(log.close)
        daemon = subprocess.Popen(
            ["dockerd", f"--host=unix://{place}", f"--config-file={cls.store}/no-containers.json",
             f"--data-root={cls.store}/data", f"--exec-root={cls.store}/exec", f"--pidfile={cls.store}/pid",
             "--storage-driver=vfs", "--bridge=none", "--iptables=false", "--ip6tables=false"],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        cls.addClassCleanup(daemon.wait)
        cls.addClassCleanup(daemon.terminate)
        cls.places = {**cls.places, "DOCKER_HOST": f"unix://{place}"}
        if not until(lambda: daemon.poll() is not None or cls.client("version").returncode == 0):
            raise AssertionError("dockerd answers nobody")
        if daemon.returncode is not None:
            log.seek(0)
            raise unittest.SkipTest(f"cannot run here: dockerd: {log.read().strip().splitlines()[-1:]}")


if __name__ == "__main__":
    unittest.main()

"""Getting ourselves onto a host (group H): what may be missing, full, forbidden or hostile there, and what is left.

Must not know the script that does it. Facts are files on the far side, and what `took` and errors say.
"""

import os
import pathlib
import shutil
import time
import unittest

from far import BARE, FarCase, agent, needs_agent, needs_mounts, needs_roots, works
from rig import binary, long_only, needs, subprocess, until
from test_trees import marked

# What is tried where the home will not do: writable, or not.
VAR_TMP = {"/var/tmp": "mode=1777"}
OPEN = {place: "mode=1777" for place in ("/var/tmp", "/tmp", "/dev/shm")}
CLOSED = {place: "ro,mode=1777" for place in OPEN}


def digest(path):
    return subprocess.run(["sha256sum", path], capture_output=True, check=True).stdout.split()[0].decode()


@needs_agent()
class Install(FarCase):
    def place(self, cache=None):
        """The one agent below a cache directory."""
        place = pathlib.Path(cache or self.home / ".cache") / "rex-rpc"
        (version,) = [path for path in place.iterdir() if path.is_dir()]
        self.assertEqual(sorted(place.iterdir()), [version], "only the agent's directory")
        self.assertEqual([path.name for path in version.iterdir()], ["rex-rpc"])
        self.assertEqual(place.stat().st_mode & 0o777, 0o700)
        return version / "rex-rpc"

    def test_H1_a_host_is_given_the_very_file_and_the_next_connect_finds_it(self):
        first = self.connect(self.at_home("sh"))
        self.assertEqual(first["took"], f"exec env, installed {self.place()}")
        self.assertEqual(digest(self.place()), digest(agent()))
        self.assertEqual(self.served(first, "umask; pwd"), f"0022\n{os.getcwd()}\n")
        moment = self.place().stat().st_ctime_ns
        again = self.connect(self.at_home("sh"))
        self.assertEqual(again["took"], f"exec env, {self.place()}")
        self.assertEqual(self.place().stat().st_ctime_ns, moment)

    @needs_roots
    def test_H1_H3_H10_a_root_with_nothing_but_a_shell_and_six_programs_is_enough(self):
        info = self.connect([*self.root(BARE), "sh"])
        self.assertTrue(info["took"].startswith("exec env, installed /root/.cache/rex-rpc/"), info["took"])
        self.assertEqual(self.served(info), "here\n")
        self.assertEqual(digest(self.place(self.folder / "root/root/.cache")), digest(agent()))

    @long_only
    @needs_roots
    @needs("debootstrap", "apt-get")
    def test_an_old_release_of_debian_serves_its_own_shell(self):
        """As a mirror has it; those that it no longer has are skipped by name."""
        mirrors = subprocess.run(["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"],
                                 capture_output=True, text=True, check=True).stdout.split()
        for release, number in (("stretch", "9"), ("buster", "10"), ("bullseye", "11")):
            with self.subTest(release=release):
                root = self.folder / release
                made = subprocess.run(["debootstrap", "--variant=minbase", release, root, mirrors[0]],
                                      capture_output=True, text=True, timeout=600, check=False)
                if made.returncode != 0:
                    self.skipTest(f"cannot run here: {made.stdout.strip().splitlines()[-1:]}")
                begun = time.monotonic()
                info = self.connect([*self.in_root(root, "/usr/bin:/bin"), "sh"])
                self.assertLess(time.monotonic() - begun, 15)
                self.assertTrue(self.served(info, "cat /etc/debian_version").startswith(number + "."))
                host = info["name"]
                session = self.rex.call("session/create", host=host)
                self.assertEqual((session["shell"], session["state"]), ("bash", "ready"))
                run = {"host": host, "session": session["session"]}
                done = self.rex.call("session/run", command="read -p 'Name? ' name; echo $name; (exit 3)", **run)
                self.assertEqual((done["state"], done["waiting"]["text"]), ("waitingInput", "Name? "))
                self.rex.call("session/write", data="you", submit=True, **run)
                done = self.rex.call("session/wait", any=[{"exit": True}], **run)["result"]
                self.assertEqual((done["exitCode"], done["completion"]), (3, "exact"))
                sleeping = self.rex.start("session/run", command="sleep 60", **run)
                until(lambda: self.rex.call("session/info", **run)["state"] == "running")
                self.rex.call("session/interrupt", **run)
                self.assertEqual(sleeping.result()["exitCode"], 130)
                self.rex.call("file/copy", **{"from": {"host": host, "path": "/usr/share/perl5"}, "recursive": True,
                                              "to": {"path": str(self.folder / f"copy of {release}")}})

    def test_H2_H10_a_machine_that_we_have_nothing_for_is_named_before_anything_is_sent(self):
        uname = self.folder / "uname"
        path = f"{self.folder}:{os.environ['PATH']}"
        for system, machine, sentence in (
            ("Linux", "riscv64", "none for Linux on riscv64 was found in"),
            ("Linux", "armv7l", "none for Linux on armv7l was found in"),
            ("Darwin", "arm64", "the host runs Darwin on aarch64, and a rex-rpc needs Linux"),
            ("FreeBSD", "amd64", "the host runs FreeBSD on x86_64, and a rex-rpc needs Linux"),
        ):
            with self.subTest(system=system, machine=machine):
                uname.write_text(f'#!/bin/sh\n[ "$1" = -s ] && echo {system} || echo {machine}\n')
                uname.chmod(0o755)
                self.unreachable(self.at_home("sh", PATH=path), "install", sentence)
        self.assertEqual(list(self.home.iterdir()), [])

    @needs_mounts
    def test_H4_a_home_that_runs_no_programs_is_passed_over_and_a_host_without_any_place_lists_them(self):
        noexec = self.mounted(VAR_TMP, home="noexec,mode=700")
        info = self.connect(self.at_home(*noexec))
        self.assertRegex(info["took"], "installed /var/tmp/rex-rpc-agent-0/")
        self.assertEqual(self.served(info), "here\n")
        nowhere = self.mounted({**CLOSED, "/var/tmp": "noexec,mode=1777"}, home="noexec,mode=700")
        self.unreachable(
            self.at_home(*nowhere), "install", "no place on the host",
            f"{self.home}/.cache/rex-rpc: programs may not run there", "/.rex-rpc: programs may not run there",
            "/var/tmp/rex-rpc-agent-0: programs may not run there", "/tmp/rex-rpc-agent-0: mkdir: ", "Read-only file system",
            "/dev/shm/rex-rpc-agent-0: ")

    @needs_mounts
    def test_H5_a_full_disk_is_told_with_its_numbers_and_nothing_half_written_stays(self):
        full = self.mounted(CLOSED, home="size=64k,mode=700")
        error = self.unreachable(self.at_home(*full), "install", "No space left on device")
        self.assertRegex(error.message, r"\.cache/rex-rpc: [^;]*No space left on device \(df -k: tmpfs +64 +64 +0 ")
        then = self.mounted(VAR_TMP, home="size=64k,mode=700")
        info = self.connect(self.at_home(*then))
        self.assertRegex(info["took"], "installed /var/tmp/rex-rpc-agent-0/")
        self.assertEqual(self.served(info, f"find {self.home} -type f"), "")
        without_inodes = self.mounted(VAR_TMP, home="nr_inodes=3,mode=700")
        self.assertRegex(self.connect(self.at_home(*without_inodes))["took"], "installed /var/tmp/rex-rpc-agent-0/")

    @needs_mounts
    def test_H6_a_home_that_is_none_is_passed_over(self):
        long = self.home / ("x" * 200)
        long.mkdir()
        for home, place in (("/nonexistent", "/var/tmp"), ("/", "/var/tmp"), ("", "/var/tmp"), ("relative", "/var/tmp"),
                            (str(long), str(long))):
            with self.subTest(home=home[:20]):
                info = self.connect(self.at_home(*self.mounted(VAR_TMP), home=home or " "))
                self.assertIn(f"installed {place}/", info["took"])
        info = self.connect(["env", "-u", "HOME", *self.mounted(VAR_TMP)])
        self.assertIn("installed /var/tmp/", info["took"])
        self.assertFalse(pathlib.Path("/nonexistent").exists())

    @needs_mounts
    def test_H7_a_directory_that_somebody_else_could_have_filled_is_not_used_and_not_followed(self):
        trap = self.folder / "trap"
        trap.mkdir()
        arrange = (f"ln -s {trap} /var/tmp/rex-rpc-agent-0; mkdir -m 777 /tmp/rex-rpc-agent-0; "
                   "chmod 777 /tmp/rex-rpc-agent-0; chmod 777 /dev/shm")
        error = self.unreachable(
            self.at_home(*self.mounted(OPEN, then=arrange), home="/nonexistent"), "install",
            "/var/tmp/rex-rpc-agent-0: it is not a directory that is ours",
            "/tmp/rex-rpc-agent-0: it is not a directory that is ours",
            "/dev/shm/rex-rpc-agent-0: others may rename what is in /dev/shm")
        self.assertNotIn("installed", error.message)
        self.assertEqual(list(trap.iterdir()), [])
        safe = self.mounted(OPEN, then=arrange + "; chmod 1777 /dev/shm")
        self.assertIn("installed /dev/shm/rex-rpc-agent-0/", self.connect(self.at_home(*safe, home="/nonexistent"))["took"])

    @unittest.skipUnless(os.getuid() == 0, "cannot run here: only root can make another user's directory")
    @needs_mounts
    def test_H7_what_belongs_to_another_user_is_not_run_though_it_looks_like_ours(self):
        self.connect(self.at_home("sh"))
        theirs = self.folder / "theirs"
        shutil.copytree(self.home / ".cache/rex-rpc", theirs / "rex-rpc")
        for path in (theirs / "rex-rpc", *(theirs / "rex-rpc").rglob("*")):
            os.chown(path, 65531, 65531)
        shell = ["unshare", "-m", "sh", "-c", "mount -t tmpfs -o mode=1777 tmpfs /var/tmp && exec sh"]
        info = self.connect(self.at_home(*shell, home="/nonexistent", XDG_CACHE_HOME=str(theirs)))
        self.assertIn("installed /var/tmp/rex-rpc-agent-0/", info["took"])

    def test_H8_T11_noise_before_the_shell_is_told_and_harms_nothing(self):
        self.connect(self.at_home("sh"))
        noise = r"printf 'Last login\033[2J\nContent-Length: 2\r\n\r\n{}'; head -c 1000000 /dev/zero | tr '\0' n; exec sh"
        info = self.connect(self.at_home("sh", "-c", noise))
        self.assertEqual(self.served(info), "here\n")
        self.assertTrue(info["noise"].startswith("Last login\\x1b[2J"), info["noise"][:100])

    def test_H11_two_clients_at_once_both_arrive_and_leave_one_file(self):
        others = [self.spawn() for _ in range(3)]
        started = [rex.start("host/connect", name="far", argv=self.at_home("sh")) for rex in others]
        for rex, pending in zip(others, started):
            self.assertEqual(self.served(pending.result(), rex=rex), "here\n")
        self.assertEqual(digest(self.place()), digest(agent()))

    def test_H11_a_push_that_breaks_off_half_way_leaves_nothing_and_the_next_one_arrives(self):
        broken = self.at_home("sh", "-c", "dd bs=1 count=500000 2>/dev/null | sh")
        self.unreachable(broken, "install")
        self.assertTrue(until(lambda: self.installed_in(self.home / ".cache/rex-rpc") == []))
        self.assertEqual(self.served(self.connect(self.at_home("sh"))), "here\n")

    @needs_mounts
    def test_H12_a_byte_that_changed_on_the_way_is_noticed_and_the_file_removed(self):
        flips = "import os, sys\nn = 0\nwhile piece := os.read(0, 65536):\n" \
                "  hit = n // 900000 != (n + len(piece)) // 900000 and n < int(sys.argv[1])\n" \
                "  n += len(piece)\n  os.write(1, piece[:-1] + bytes([piece[-1] ^ 1]) if hit else piece)"
        through = ["sh", "-c", 'python3 -c "$0" "$1" | { shift; exec "$@"; }', flips]
        cache = self.folder / "cache"
        cache.mkdir()
        once = self.connect(self.at_home(*through, "1000000", "sh", XDG_CACHE_HOME=str(cache)))
        self.assertIn(f"installed {self.place()}", once["took"])
        self.assertEqual(self.installed_in(cache / "rex-rpc"), [])
        shutil.rmtree(self.home / ".cache")
        refused = self.unreachable(self.at_home(*through, "1000000000", *self.mounted(CLOSED, home="mode=700")), "install")
        # It looks at itself, and may break over the very byte in whatever way.
        self.assertRegex(refused.message, r"\.cache/rex-rpc: \S")

    def test_H12_a_file_that_is_not_what_it_is_named_for_is_pushed_anew(self):
        self.connect(self.at_home("sh"))
        path = self.place()
        whole = path.read_bytes()
        for content, mode in ((whole[:1000], 0o700), (b"#!/bin/sh\nexit 0\n", 0o700), (b"", 0o700), (whole, 0o600),
                              (whole[:-1] + b"x", 0o700), (None, 0)):
            path.unlink()  # the old one may still run
            if content is not None:
                path.write_bytes(content)
                path.chmod(mode)
            self.assertIn("installed", self.connect(self.at_home("sh"))["took"])
            self.assertEqual(digest(path), digest(agent()))

    def test_H12_only_a_rex_rpc_of_this_version_is_taken_from_the_path_and_only_without_an_install(self):
        programs = self.folder / "bin"
        programs.mkdir()
        (programs / "rex-rpc").write_text("#!/bin/sh\necho rex-rpc 0.0.1\n")
        (programs / "rex-rpc").chmod(0o755)
        path = f"{programs}:{os.environ['PATH']}"
        self.unreachable(self.at_home("sh", PATH=path), "install", "none may be installed", install=False)
        (programs / "rex-rpc").unlink()
        (programs / "rex-rpc").symlink_to(agent())
        info = self.connect(self.at_home("sh", PATH=path), install=False)
        self.assertEqual(info["took"], f"exec env, its own {programs}/rex-rpc")
        self.assertEqual(self.served(info), "here\n")
        self.assertEqual(list(self.home.iterdir()), [])

    def test_H17_it_removes_itself_on_request_and_leaves_nothing(self):
        info = self.connect(self.at_home("sh"))
        removed = self.rex.call("process/run", host=info["name"], command="/proc/$PPID/exe agent remove")
        self.assertEqual((removed["exitCode"], removed["stderr"]), (0, ""))
        self.assertEqual(list((self.home / ".cache").iterdir()), [])
        self.assertEqual(self.served(info), "here\n")
        refused = subprocess.run([agent(), "agent", "remove"], capture_output=True, text=True, check=False)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("was not put there by a rex-rpc; nothing is removed", refused.stderr)

    @needs("setpriv")
    @unittest.skipUnless(os.getuid() == 0, "cannot run here: only root can become another user")
    def test_H6_a_home_that_cannot_be_written_is_passed_over(self):
        shell = ["unshare", "-m", "sh", "-c", "mount -t tmpfs -o mode=1777 tmpfs /var/tmp && exec setpriv --reuid=65531 "
                 "--regid=65531 --clear-groups sh"]
        info = self.connect(self.at_home(*shell, home="/root"))
        self.assertIn("installed /var/tmp/rex-rpc-agent-65531/", info["took"])
        self.assertEqual(self.served(info, "id -u"), "65531\n")


QEMU = shutil.which("qemu-aarch64-static") or ""
ELF_AARCH64 = r"\x7fELF\x02\x01\x01" + r"\x00" * 9 + r"\x02\x00\xb7\x00"
MASK = r"\xff" * 7 + r"\x00" * 9 + r"\xfe\xff\xff\xff"  # whatever its system is called
FOREIGN = (f"mount -t binfmt_misc none /proc/sys/fs/binfmt_misc && "
           f"printf '%s' ':far:M::{ELF_AARCH64}:{MASK}:{QEMU}:F' >/proc/sys/fs/binfmt_misc/register")


@needs_agent("aarch64")
@needs("qemu-aarch64-static")
@unittest.skipUnless(works("unshare", "-Urm", "sh", "-c", FOREIGN), "cannot run here: no binfmt_misc of one's own")
class OtherMachine(FarCase):
    def test_H2_an_aarch64_is_given_its_own_file_and_serves_a_session(self):
        programs = self.folder / "bin"
        programs.mkdir()
        (programs / "uname").write_text('#!/bin/sh\n[ "$1" = -s ] && echo Linux || echo aarch64\n')
        (programs / "uname").chmod(0o755)
        shell = ["unshare", "-Urm", "sh", "-c", f"{FOREIGN} && exec sh"]
        argv = self.at_home(*shell, PATH=f"{programs}:{os.environ['PATH']}")
        info = self.connect(argv)
        self.assertRegex(info["took"], "installed .*-aarch64-")
        self.assertEqual(info["machine"]["arch"], "aarch64")
        self.assertEqual(self.served(info), "here\n")
        self.assertRegex(self.connect(argv)["took"], "^exec env, /.*-aarch64-")


class Started(FarCase):
    def test_a_rex_rpc_behind_any_program_is_spoken_to_directly(self):
        for argv in ([binary()], ["env", "X=1", binary(), "--private"], ["sh", "-c", f"exec {binary()} --private"]):
            with self.subTest(argv=argv[0]):
                self.assertEqual(self.served(self.connect(argv)), "here\n")

    def test_H14_what_is_behind_a_terminal_is_refused_with_the_way_out(self):
        self.unreachable(["script", "-qc", "sh", "/dev/null"], "shell", "connect without one (no -t)")

    def test_the_tree_of_a_program_ends_with_its_host_and_with_a_killed_rex_rpc(self):
        for end in ("disconnect", "kill"):
            with self.subTest(end=end):
                seconds = f"{os.getpid()}{len(end)}"
                rex = self.spawn()
                tree = f"(sleep {seconds}1 & setsid sh -c 'sleep {seconds}2 & sleep {seconds}3' &) >/dev/null; exec {binary()} --private"
                info = self.connect(["sh", "-c", tree], rex=rex)
                self.assertTrue(until(lambda: len(marked(seconds)) >= 3))
                if end == "kill":
                    rex.process.kill()
                else:
                    rex.call("host/disconnect", name=info["name"])
                self.assertTrue(until(lambda: marked(seconds) == []), marked(seconds))

    def test_a_program_has_three_descriptors_and_ignores_no_signal(self):
        listed = self.unreachable(["ls", "/proc/self/fd"], "shell")
        self.assertIn(r"it had printed 8 bytes: 0\x0a1\x0a2\x0a3", listed.message)  # 3 is the directory that it lists
        self.unreachable(["grep", "SigIgn", "/proc/self/status"], "shell", "SigIgn:\\x09" + "0" * 16)

    def test_the_last_words_of_a_program_tell_why_there_is_no_host(self):
        self.unreachable(["sh", "-c", "echo 'no such container: web' >&2; exit 4"], "shell",
                         "sh exited with 4: no such container: web")
        self.unreachable(["/no/such/program"], "channel", "No such file or directory")


if __name__ == "__main__":
    unittest.main()

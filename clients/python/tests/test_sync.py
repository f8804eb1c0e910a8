"""The face that blocks: the same answers, from any thread, and every wait can be left."""

import os
import signal
import threading
import unittest

import rex_rpc
from world import DEADLINE, PROGRAM, folder_of, pid_of


class Sync(unittest.TestCase):
    def setUp(self):
        self.rex = rex_rpc.Rex(PROGRAM).open()
        self.addCleanup(self.rex.close)

    def test_sessions_files_and_programs_answer_as_to_who_awaits(self):
        with self.rex.session("main") as session:
            session.run("cd /tmp")
            self.assertEqual(session.run("pwd; (exit 3)")["output"], "/tmp\n")
            self.assertEqual((session.name, session.created["state"]), ("main", "ready"))
            asked = session.run("read -rp 'Go? ' x")
            self.assertEqual(asked["waiting"]["text"], "Go? ")
            session.write("on", submit=True)
            self.assertEqual(session.wait([{"exit": True}])["result"]["exitCode"], 0)
            self.assertEqual(self.rex.use_session("main").info()["state"], "ready")
        path = str(folder_of(self) / "file")
        self.rex.file_write(path, b"\xff")
        self.assertEqual(rex_rpc.data_of(self.rex.file_read(path)), b"\xff")
        with self.assertRaises(rex_rpc.OsError):
            self.rex.file_read("/none")

    def test_output_and_events_are_iterators(self):
        with self.rex.session(argv=["sh", "-c", "read x; seq 1000"]) as session:
            with session.output(offset=0) as output, session.events() as events:
                session.write("go", submit=True)
                self.assertTrue(b"".join(chunk.data for chunk in output).endswith(b"1000\n"))
                self.assertEqual(next(events)["session"], session.name)
        with self.rex.watch(str(folder_of(self))) as changes:
            self.assertEqual(changes.lost, 0)

    def test_many_threads_use_one_client_at_a_time(self):
        results = {}

        def work(number):
            with self.rex.session() as session:
                results[number] = session.run(f"echo {number}")["output"]

        threads = [threading.Thread(target=work, args=(number,)) for number in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(DEADLINE)
        self.assertEqual(results, {number: f"{number}\n" for number in range(10)})

    def test_ctrl_c_stops_what_the_call_started(self):
        # Where the tests run in the background of a shell, the signal is ignored from the start.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, before)
        with self.rex.session() as session:
            press = lambda _: signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)  # noqa: E731
            with self.assertRaises(KeyboardInterrupt):
                session.run("echo begun; exec 2>&1; sleep 1000", progress=Once(press))
            session.wait([{"exit": True}])
            self.assertEqual(session.run("echo free")["output"], "free\n")

    def test_a_callback_that_calls_back_is_told_that_it_cannot(self):
        said = []

        def back(_):
            try:
                self.rex.ping()
            except RuntimeError as error:
                said.append(str(error))

        with self.rex.session() as session:
            session.run("echo x", progress=back)
        self.assertIn("cannot call back", said[0])

    def test_a_server_that_dies_fails_the_call_that_waits(self):
        with self.rex.session() as session:
            killer = threading.Thread(target=self.kill_when_running, args=(session,))
            killer.start()
            with self.assertRaises(rex_rpc.ConnectionLost) as lost:
                session.run("sleep 1000")
            killer.join(DEADLINE)
        self.assertEqual(lost.exception.executed, "unknown")

    def kill_when_running(self, session):
        while session.info()["state"] != "running":
            pass
        os.kill(pid_of(self.rex), signal.SIGKILL)

    def test_closing_ends_the_calls_of_other_threads(self):
        ended = []

        def wait():
            try:
                ended.append(session.run("sleep 1000")["state"])
            except rex_rpc.RexError as error:
                ended.append(error.type)

        session = self.rex.session().open()
        thread = threading.Thread(target=wait)
        thread.start()
        while session.info()["state"] != "running":
            pass
        self.rex.close()
        thread.join(DEADLINE)
        self.assertIn(ended, (["cancelled"], ["ConnectionLost"], ["RequestCancelled"]))
        with self.assertRaises(rex_rpc.ConnectionLost):
            self.rex.ping()
        self.rex.close()

    def test_what_cannot_be_opened_leaves_no_thread(self):
        before = threading.active_count()
        with self.assertRaises(FileNotFoundError):
            rex_rpc.Rex("/none/rex-rpc").open()
        self.assertEqual(threading.active_count(), before)


class Once:
    def __init__(self, function):
        self.function = function

    def __call__(self, value):
        function, self.function = self.function, lambda _: None
        function(value)


if __name__ == "__main__":
    unittest.main()

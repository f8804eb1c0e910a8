"""`rex-rpc mcp` by the byte: the Model Context Protocol's revisions 2026-07-28, 2025-11-25 and 2025-06-18 on stdio.

What the official clients make of it is in tests/mcp.
"""

import json
import os
import pathlib
import queue
import re
import shutil
import subprocess
import tempfile
import threading
import unittest

from rig import alive, binary, family, until

from rex import DEADLINE  # which rig has put on the path

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
LEGACY = "2025-11-25"
TOOLS = [
    "run", "wait", "write", "read_output", "interrupt", "screen", "sessions", "close_session", "read_file",
    "edit_file", "write_file", "list_files", "search", "hosts", "connect_host",
]  # fmt: skip


class Agent:
    """An MCP client that keeps every line as it came. `modern`: each request names its revision itself."""

    def __init__(self, *arguments, modern=True, cwd=None, env=None):
        self.modern = modern
        self.process = subprocess.Popen(
            [binary(), "--private", "mcp", *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=cwd,
            env={**os.environ, **(env or {})},
        )  # fmt: skip
        self.lines = queue.Queue()
        self.answers = {}
        self.told = []  # notifications, in order
        self.ids = 0
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(b"")

    def write(self, text):
        self.process.stdin.write(text.encode() if isinstance(text, str) else text)
        self.process.stdin.flush()

    def line(self):
        return self.lines.get(timeout=DEADLINE)

    def message(self):
        line = self.line()
        if not line:
            raise EOFError("the server has closed its output")
        assert line.endswith(b"\n") and line.count(b"\n") == 1, line
        return json.loads(line)

    def start(self, method, params=None, **meta):
        """Sends a request; its id."""
        self.ids += 1
        params = dict(params or {})
        if self.modern or meta:
            params["_meta"] = {**(META if self.modern else {}), **meta}
        self.write(json.dumps({"jsonrpc": "2.0", "id": self.ids, "method": method, "params": params}) + "\n")
        return self.ids

    def notify(self, method, params):
        self.write(json.dumps({"jsonrpc": "2.0", "method": method, "params": params}) + "\n")

    def until(self, fact):
        """Takes messages in until fact() holds."""
        while not fact():
            message = self.message()
            if "id" in message:
                assert message["id"] not in self.answers, message
                self.answers[message["id"]] = message
            else:
                self.told.append(message)

    def finish(self, request):
        self.until(lambda: request in self.answers)
        return self.answers[request]

    def ask(self, method, params=None, **meta):
        answer = self.finish(self.start(method, params, **meta))
        assert "result" in answer, answer
        return answer["result"]

    def error(self, method, params=None, **meta):
        return self.finish(self.start(method, params, **meta))["error"]

    def greet(self, revision=LEGACY):
        result = self.ask(
            "initialize",
            {"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
        )
        self.notify("notifications/initialized", {})
        return result

    def start_tool(self, name, /, **arguments):
        return self.start("tools/call", {"name": name, "arguments": arguments})

    def tool(self, name, /, **arguments):
        """The text and the structured content of a call that is no error."""
        result = self.ask("tools/call", {"name": name, "arguments": arguments})
        assert result["isError"] is False, result
        assert [part["type"] for part in result["content"]] == ["text"], result
        return result["content"][0]["text"], result["structuredContent"]

    def failure(self, name, /, **arguments):
        result = self.ask("tools/call", {"name": name, "arguments": arguments})
        assert result["isError"] is True, result
        return result["content"][0]["text"]

    def close(self):
        self.process.stdin.close()
        code = self.process.wait(timeout=DEADLINE)
        self.process.stdout.close()
        return code


class McpCase(unittest.TestCase):
    maxDiff = 4000

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="rex-mcp-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def agent(self, *arguments, **options):
        agent = Agent(*arguments, **{"cwd": self.folder, **options})
        self.addCleanup(lambda: agent.process.poll() is None and agent.close())
        return agent


class Revisions(McpCase):
    def test_initialize_agrees_on_the_revision_asked_for_or_offers_the_newest_that_has_it(self):
        for asked, given in [
            ("2025-11-25", "2025-11-25"),
            ("2025-06-18", "2025-06-18"),
            ("2024-11-05", "2025-11-25"),
            ("2026-07-28", "2025-11-25"),
        ]:
            with self.subTest(asked=asked):
                result = self.agent(modern=False).greet(asked)
                self.assertEqual(result["protocolVersion"], given)
                self.assertEqual(result["capabilities"], {"tools": {}, "resources": {}})
                self.assertEqual(set(result["serverInfo"]), {"name", "title", "version"})
                self.assertTrue(result["instructions"])

    def test_answers_are_one_line_each_and_echo_the_id_as_it_was_written(self):
        agent = self.agent(modern=False)
        agent.write('{"jsonrpc":"2.0","id":"\\u0061/1","method":"ping"}\n')
        self.assertEqual(agent.line(), b'{"jsonrpc":"2.0","id":"\\u0061/1","result":{}}\n')
        agent.write('{"jsonrpc":"2.0","id":7,"method":"ping","params":{}}\r\n')
        self.assertEqual(agent.line(), b'{"jsonrpc":"2.0","id":7,"result":{}}\n')

    def test_initialize_comes_first_and_once(self):
        agent = self.agent(modern=False)
        self.assertEqual(agent.error("tools/list")["code"], -32602)
        agent.greet()
        self.assertEqual(agent.error("initialize", {"protocolVersion": LEGACY})["code"], -32600)
        self.assertEqual([tool["name"] for tool in agent.ask("tools/list")["tools"]], TOOLS)

    def test_initialize_without_a_version_is_invalid_and_may_be_said_again(self):
        agent = self.agent(modern=False)
        self.assertEqual(agent.error("initialize", {"capabilities": {}})["code"], -32602)
        agent.greet()

    def test_discover_tells_what_there_is_before_any_other_request(self):
        result = self.agent().ask("server/discover")
        info = result.pop("_meta")["io.modelcontextprotocol/serverInfo"]
        self.assertEqual(info["name"], "rex-rpc")
        self.assertTrue(result.pop("instructions"))
        self.assertEqual(
            result,
            {
                "resultType": "complete",
                "supportedVersions": ["2026-07-28"],
                "capabilities": {"tools": {}, "resources": {}},
                "ttlMs": 3600000,
                "cacheScope": "public",
            },
        )

    def test_each_request_is_judged_by_the_revision_it_names(self):
        agent = self.agent(modern=False)
        wrong = {**META, "io.modelcontextprotocol/protocolVersion": "1900-01-01"}
        error = agent.error("tools/list", **wrong)
        self.assertEqual((error["code"], error["message"]), (-32022, "Unsupported protocol version"))
        self.assertEqual(error["data"]["supported"], ["2026-07-28"])
        self.assertEqual(error["data"]["requested"], "1900-01-01")
        for gone in META:
            with self.subTest(gone=gone):
                error = agent.error("server/discover", **{key: META[key] for key in META if key != gone})
                self.assertEqual(error["code"], -32602)
                self.assertIn(gone, error["message"])
        agent.greet()  # both ways of speaking at once
        self.assertNotIn("resultType", agent.ask("tools/list"))
        self.assertEqual(agent.ask("tools/list", **META)["resultType"], "complete")

    def test_results_say_what_their_revision_wants_and_nothing_of_the_other(self):
        agent = self.agent()
        for method, ttl, scope in [
            ("tools/list", 3600000, "public"),
            ("resources/list", 0, "private"),
            ("resources/templates/list", 3600000, "public"),
        ]:
            with self.subTest(method=method):
                result = agent.ask(method)
                self.assertEqual((result["resultType"], result["ttlMs"], result["cacheScope"]), ("complete", ttl, scope))
                self.assertIn("io.modelcontextprotocol/serverInfo", result["_meta"])
        called = agent.ask("tools/call", {"name": "sessions"})
        self.assertEqual(set(called), {"resultType", "_meta", "content", "structuredContent", "isError"})
        legacy = self.agent(modern=False)
        legacy.greet()
        self.assertEqual(set(legacy.ask("tools/call", {"name": "sessions"})), {"content", "structuredContent", "isError"})
        self.assertEqual(set(legacy.ask("tools/list")), {"tools"})

    def test_methods_of_the_other_revision_and_unknown_ones_are_not_found(self):
        legacy = self.agent(modern=False)
        legacy.greet()
        for agent, methods in [
            (self.agent(), ["ping", "initialize", "logging/setLevel", "prompts/list", "session/run"]),
            (legacy, ["server/discover", "subscriptions/listen", "logging/setLevel", "prompts/list", "session/run"]),
        ]:
            for method in methods:
                with self.subTest(modern=agent.modern, method=method):
                    self.assertEqual(agent.error(method)["code"], -32601)

    def test_a_subscription_is_acknowledged_and_ends_without_an_answer_when_it_is_cancelled(self):
        agent = self.agent()
        request = agent.start("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        agent.until(lambda: agent.told)
        self.assertEqual(
            agent.told,
            [
                {
                    "jsonrpc": "2.0",
                    "method": "notifications/subscriptions/acknowledged",
                    "params": {"_meta": {"io.modelcontextprotocol/subscriptionId": request}, "notifications": {}},
                }
            ],
        )
        agent.notify("notifications/cancelled", {"requestId": request})
        again = agent.start("subscriptions/listen", {"notifications": {}})
        agent.until(lambda: len(agent.told) == 2)
        agent.process.stdin.close()  # now it is the server that ends it
        result = agent.finish(again)["result"]
        self.assertEqual(result["resultType"], "complete")
        self.assertEqual(result["_meta"]["io.modelcontextprotocol/subscriptionId"], again)
        self.assertNotIn(request, agent.answers)


class Errors(McpCase):
    def test_what_is_no_call_of_a_tool_is_a_protocol_error(self):
        agent = self.agent()
        for params in [
            {"name": "no_such_tool", "arguments": {}},
            {"arguments": {}},
            {"name": 5},
            {"name": "run", "arguments": []},
            {"name": "sessions", "_meta": {**META, "progressToken": 1.5}},
        ]:
            with self.subTest(params=params):
                meta = params.get("_meta", {})
                self.assertEqual(agent.error("tools/call", params, **meta)["code"], -32602)
        self.assertEqual(agent.error("tools/list", {"cursor": "x"})["code"], -32602)
        self.assertEqual(agent.error("tools/list", {"cursor": ""})["code"], -32602)

    def test_arguments_that_do_not_fit_are_told_to_the_model_by_name(self):
        agent = self.agent()
        for name, arguments, says in [
            ("run", {}, "command is missing"),
            ("run", {"command": None}, "command is missing"),
            ("run", {"command": 5}, "command must be a string"),
            ("run", {"command": "true", "timeout": 3}, "timeout is not known here; there are: command, host,"),
            ("run", {"command": "true", "waitMs": "3"}, "waitMs must be an integer"),
            ("run", {"command": "true", "waitMs": 1.5}, "waitMs must be an integer"),
            ("run", {"command": "true", "waitMs": -1}, "waitMs must be at least 0"),
            ("run", {"command": "true", "waitMs": 600001}, "waitMs must be at most 600000"),
            ("run", {"command": "true", "session": ""}, "session must not be empty"),
            ("read_file", {"path": "a", "lines": [1]}, "lines must have exactly 2 elements"),
            ("read_file", {"path": "a", "lines": [0, 1]}, "lines[0] must be at least 1"),
            ("edit_file", {"path": "a", "edits": [{"old": "x", "now": "y"}]}, "edits[0].now is not known here"),
            ("edit_file", {"path": "a", "edits": []}, "edits must have at least 1 element"),
        ]:
            with self.subTest(arguments=arguments):
                self.assertIn(says, agent.failure(name, **arguments))

    def test_what_could_not_be_done_says_what_to_do_instead(self):
        agent = self.agent()
        agent.tool("run", command="read x", session="busy", waitMs=20)
        for name, arguments, says in [
            ("screen", {"session": "none"}, "`sessions` lists those there are; run makes one"),
            ("run", {"command": "true", "host": "nowhere"}, "connect_host reaches one"),
            ("run", {"command": "true", "session": "busy"}, "Or use another session"),
            ("read_file", {"path": "none"}, "none"),
            ("edit_file", {"path": "none", "edits": [{"old": "x", "new": "y"}]}, "none"),
            ("search", {"path": ".", "pattern": "("}, "pattern"),
            ("connect_host", {"name": "a", "argv": ["sh"], "url": "ssh://b"}, "url"),
        ]:
            with self.subTest(name=name, arguments=arguments):
                self.assertIn(says, agent.failure(name, **arguments))

    def test_after_bad_bytes_the_next_request_is_answered(self):
        agent = self.agent(modern=False)
        agent.write("{nonsense}\n")
        self.assertEqual(agent.message()["error"]["code"], -32700)
        agent.write('{"jsonrpc":"2.0","id":1}\n')
        self.assertEqual(agent.message()["error"]["code"], -32600)
        agent.write('{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}\n')
        self.assertEqual(agent.message()["error"]["code"], -32602)
        agent.write('{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}\n')
        agent.write('{"jsonrpc":"2.0","method":"notifications/cancelled"}\n')
        self.assertEqual(agent.ask("ping"), {})


class Tools(McpCase):
    def test_the_list_is_small_strict_and_always_the_same(self):
        agent = self.agent()
        first, second = (agent.ask("tools/list")["tools"] for _ in range(2))
        self.assertEqual(json.dumps(first), json.dumps(second))
        self.assertEqual([tool["name"] for tool in first], TOOLS)
        self.assertLess(len(json.dumps(first)), 16_000)
        for tool in first:
            with self.subTest(tool=tool["name"]):
                schema = tool["inputSchema"]
                self.assertEqual(schema["type"], "object")
                self.assertIs(schema["additionalProperties"], False)
                self.assertIn("readOnlyHint" if "destructiveHint" not in tool["annotations"] else "destructiveHint",
                              tool["annotations"])  # fmt: skip
                self.assertLess(len(tool["description"]), 300)
                if "host" not in schema["properties"] or "host" in schema.get("required", []):
                    self.fail("every tool takes host, and none needs it")

    def test_a_session_keeps_its_directory_and_variables_and_others_do_not_see_them(self):
        agent = self.agent()
        agent.tool("run", command="cd / && x=1")
        text, data = agent.tool("run", command="echo $x in $PWD; (exit 3)")
        self.assertRegex(text, r"\A1 in /\n\[exit 3 after \d+ ms; in /\]\Z")
        self.assertEqual((data["state"], data["exitCode"], data["output"]), ("exited", 3, "1 in /\n"))
        text, _ = agent.tool("run", command="echo ${x-none}", session="other")
        self.assertRegex(text, r"\Anone\n\[exit 0 ")
        listed, data = agent.tool("sessions")
        self.assertRegex(listed, r"(?m)^main  ready  in /$")
        self.assertEqual([info["session"] for info in data["sessions"]], ["main", "other"])
        self.assertEqual(agent.tool("close_session", session="other")[0], "[closed, with all it started]")

    def test_long_output_is_head_and_tail_with_what_is_left_out_one_call_away(self):
        agent = self.agent()
        whole = "".join(f"{n}\n" for n in range(1, 20001))
        text, data = agent.tool("run", command="seq 20000", maxOutputBytes=1000)
        gap = re.search(r"(?m)^\[(\d+) bytes left out here: read_output (\{.*\}) reads them, to (\d+)\]$", text)
        head, tail = text[: gap.start()], text[gap.end() + 1 :].rpartition("[exit 0")[0]
        left_out, offset, end = int(gap[1]), json.loads(gap[2])["offset"], int(gap[3])
        self.assertLessEqual(len(data["output"]), 1000)
        self.assertEqual(left_out, len(whole) - len(data["output"]))
        middle = ""
        while offset < end:
            piece, read = agent.tool("read_output", offset=offset, maxBytes=min(16384, end - offset))
            middle += read["data"]
            self.assertIn(f"[bytes {offset} to {read['next']} of ", piece)
            offset = read["next"]
        at = data["omitted"]["at"]
        self.assertEqual(data["output"][:at] + middle + data["output"][at:], whole)
        self.assertTrue(whole.startswith(head.rstrip("\n")) and whole.endswith(tail), text)

    def test_without_an_offset_the_newest_output_is_read(self):
        agent = self.agent()
        agent.tool("run", command="seq 1000")
        text, data = agent.tool("read_output", maxBytes=9)
        self.assertTrue(text.startswith("999\n1000\n[bytes "), text)
        self.assertEqual(data["next"], data["end"])

    def test_a_command_that_outlives_the_call_goes_on_and_is_waited_for(self):
        agent = self.agent()
        os.mkfifo(self.folder / "fifo")
        text, data = agent.tool("run", command="echo begun; read -r line < fifo; echo got $line", waitMs=0)
        self.assertEqual(data["state"], "running")
        self.assertIn("still running", text)
        text, data = agent.tool("wait", match="begun")
        self.assertIn('[met: {"match":"begun","stripAnsi":true}; the command goes on]', text)
        waiting = agent.start_tool("wait")
        (self.folder / "fifo").write_text("it\n")
        result = agent.finish(waiting)["result"]
        self.assertRegex(result["content"][0]["text"], r"got it\n\[exit 0 after ")

    def test_wait_shows_each_byte_of_output_once(self):
        agent = self.agent()
        for match in ("one", "two"):  # one each: a second reader could find the first writer not yet gone
            os.mkfifo(self.folder / match)
        first = agent.tool("run", command="echo one; read -r x < one; echo two; read -r x < two; echo three", waitMs=0)[1]
        shown = first["output"]
        for match in ("one", "two"):
            shown += agent.tool("wait", match=match)[1]["output"]
            (self.folder / match).write_text("\n")
        shown += agent.tool("wait")[1]["output"]
        self.assertEqual(shown, "one\ntwo\nthree\n")

    def test_a_command_that_waits_for_input_says_so_and_is_answered(self):
        agent = self.agent()
        text, data = agent.tool("run", command="read -rp 'Deploy? ' yes; echo you said $yes")
        self.assertEqual(data["state"], "waitingInput")
        self.assertRegex(text, r'waits for a line of input, after "Deploy\? ": answer with run and interactive')
        text, data = agent.tool("run", command="no", interactive=True)
        self.assertIn("you said no\n", text)

    def test_interrupt_ends_what_runs_and_says_when_nothing_does(self):
        agent = self.agent()
        agent.tool("run", command="echo up; sleep 1000", waitMs=0)
        text, data = agent.tool("interrupt")
        self.assertIn(data["state"], ("exited", "signaled"))
        self.assertRegex(text, r"\[exit 130 after ")
        self.assertEqual(agent.tool("interrupt")[0], "[nothing was running]")

    def test_keys_and_the_screen_drive_a_full_screen_program(self):
        agent = self.agent()
        agent.tool("run", command="stty -echo -icanon; printf 'a menu'; head -c 3 | od -An -c; stty sane", waitMs=0)
        agent.tool("wait", match="a menu")
        self.assertTrue(agent.tool("screen")[0].startswith("a menu\n[50 rows, 200 columns; cursor in row 1, column 7"))
        self.assertEqual(agent.tool("write", data="x", keys=["Up"])[1]["accepted"], 4)
        agent.tool("write", keys=["C-c"])
        agent.tool("interrupt")
        agent.tool("run", command="cat", session="cat")
        agent.tool("write", data="line", submit=True, session="cat")
        agent.tool("write", eof=True, session="cat")
        self.assertIn("line\n", agent.tool("wait", session="cat", **{"from": 0})[0])

    def test_files_are_written_read_edited_listed_and_found(self):
        agent = self.agent()
        self.assertEqual(agent.tool("write_file", path="d/a.txt", data="one\ntwo\nthree\n")[0], "[created, 14 bytes]")
        self.assertEqual(agent.tool("read_file", path="d/a.txt")[0], "one\ntwo\nthree\n")
        self.assertEqual(agent.tool("read_file", path="d/a.txt", lines=[2, 2])[1]["data"], "two\n")
        text, _ = agent.tool("edit_file", path="d/a.txt", edits=[{"old": "two", "new": "2"}], dryRun=True)
        self.assertTrue(text.endswith("\n[not written: dryRun]"), text)
        text, _ = agent.tool("edit_file", path="d/a.txt", edits=[{"old": "two", "new": "2"}, {"line": 1, "insert": "0\n"}])
        self.assertIn("-two\n", text)
        self.assertTrue(text.endswith("\n[written]"), text)
        self.assertEqual((self.folder / "d/a.txt").read_text(), "0\none\n2\nthree\n")
        self.assertIn("Conflict", agent.failure("write_file", path="d/a.txt", data="", ifAbsent=True))
        self.assertEqual(agent.tool("list_files", path="d")[0], "a.txt  14 bytes\n[1 entries]")
        text, _ = agent.tool("search", path=".", pattern="^t", context=1)
        self.assertEqual(text, "./d/a.txt-3-2\n./d/a.txt:4:three\n--\n[1 matches in 1 files]")
        self.assertEqual(agent.tool("search", path=".", glob="*.txt")[0], "./d/a.txt\n[1 matches in 1 files]")

    def test_a_long_file_is_read_in_pieces_of_whole_characters_and_a_binary_one_is_said_to_be(self):
        agent = self.agent()
        whole = "€uro\n" * 1000
        (self.folder / "long").write_text(whole)
        (self.folder / "binary").write_bytes(b"\xff\x00\xfe")
        read, offset = "", 0
        while offset < len(whole.encode()):
            text, data = agent.tool("read_file", path="long", offset=offset, maxBytes=1000)
            self.assertLessEqual(len(data["data"].encode()), 1000)
            read, offset = read + data["data"], data["next"]
        self.assertEqual(read, whole)
        self.assertTrue(agent.tool("read_file", path="binary")[0].startswith("[binary, no UTF-8: 3 bytes;"))
        self.assertEqual(agent.tool("read_file", path="long", lines=[9000, 9001])[0],
                         "[nothing there; the file has 7000 bytes]")  # fmt: skip

    def test_matches_that_are_not_shown_are_counted(self):
        agent = self.agent()
        (self.folder / "many").write_text("needle\n" * 50)
        text, data = agent.tool("search", path="many", pattern="needle", maxOutputBytes=100)
        shown = len(data["matches"])
        self.assertEqual(text.count(":needle\n"), shown)
        self.assertIn(f"[{shown} matches in 1 files; {50 - shown} more found and not shown: narrow", text)
        text, _ = agent.tool("search", path="many", pattern="needle", maxResults=5)
        self.assertIn("[5 matches in 1 files; the search ended at maxResults, there are more", text)

    def test_a_host_is_connected_and_every_tool_works_there(self):
        agent = self.agent()
        self.assertEqual(agent.tool("hosts")[0], "[no hosts but this machine; connect_host reaches one]")
        text, _ = agent.tool("connect_host", name="far", argv=[binary()])
        self.assertRegex(text, r"\A\[far is ready, reached by .*; name it as host\]\Z")
        self.assertTrue(agent.tool("hosts")[0].startswith("far  ready"))
        agent.tool("run", command="here=1")
        text, data = agent.tool("run", command="seq 5000; echo ${here-none}", host="far", maxOutputBytes=100)
        self.assertEqual(data["host"], "far")
        self.assertIn('"host":"far"', text)
        self.assertTrue(data["output"].endswith("\nnone\n"))
        agent.tool("write_file", path="there", data="x", host="far")
        self.assertIn("there  1 bytes", agent.tool("list_files", path=".", host="far")[0])
        uris = [resource["uri"] for resource in agent.ask("resources/list")["resources"]]
        self.assertEqual(uris, ["rex:///session/main", "rex://far/session/main"])
        contents = agent.ask("resources/read", {"uri": "rex://far/session/main"})["contents"]
        self.assertIn("\n5000\nnone\n", contents[0]["text"])


class Life(McpCase):
    def test_a_cancelled_call_is_interrupted_and_never_answered(self):
        for modern in (True, False):
            with self.subTest(modern=modern):
                agent = self.agent(modern=modern)
                if not modern:
                    agent.greet()
                agent.tool("run", command=":")
                request = agent.start_tool("run", command="touch begun; sleep 1000; touch never", waitMs=600000)
                self.assertTrue(until(lambda: (self.folder / "begun").exists(), DEADLINE))
                agent.notify("notifications/cancelled", {"requestId": request, "reason": "enough"})
                agent.tool("wait")
                text, _ = agent.tool("run", command="echo usable")
                self.assertRegex(text, r"\Ausable\n\[exit 0 ")
                self.assertNotIn(request, agent.answers)
                self.assertFalse((self.folder / "never").exists())
                self.assertEqual(agent.close(), 0)
                self.assertNotIn(request, agent.answers)
                (self.folder / "begun").unlink()

    def test_progress_goes_up_bears_the_clients_token_and_stops_with_the_answer(self):
        for token in ("a token", 0):
            with self.subTest(token=token):
                agent = self.agent()
                agent.tool("run", command=":")
                os.mkfifo(self.folder / "fifo")
                request = agent.start("tools/call", {
                    "name": "run", "arguments": {"command": "echo first line; read -r x < fifo; seq 3000"},
                }, progressToken=token)  # fmt: skip
                agent.until(lambda: agent.told)
                self.assertEqual(agent.told[0]["method"], "notifications/progress")
                self.assertEqual(agent.told[0]["params"],
                                 {"progressToken": token, "progress": 11, "message": "first line"})  # fmt: skip
                self.assertNotIn(request, agent.answers)
                (self.folder / "fifo").write_text("\n")
                agent.finish(request)
                told = [message["params"] for message in agent.told]
                self.assertEqual({params["progressToken"] for params in told}, {token})
                counts = [params["progress"] for params in told]
                self.assertEqual(counts, sorted(set(counts)))
                count = len(agent.told)
                agent.tool("run", command="echo without a token")
                self.assertEqual(len(agent.told), count)
                (self.folder / "fifo").unlink()

    def test_progress_of_a_dial_tells_its_phases(self):
        agent = self.agent()
        agent.ask("tools/call", {"name": "connect_host", "arguments": {"name": "far", "argv": [binary()]}}, progressToken=1)
        self.assertTrue(agent.told)
        self.assertTrue(all(message["params"]["message"] for message in agent.told), agent.told)

    def test_any_number_of_calls_are_answered_while_one_waits(self):
        agent = self.agent()
        agent.tool("run", command=":")
        waiting = agent.start_tool("run", command="read x", waitMs=600000)
        others = [agent.start_tool("run", command=f"echo {n}", session=f"s{n}") for n in range(5)]
        for n, request in enumerate(others):
            self.assertIn(f"{n}\n", agent.finish(request)["result"]["content"][0]["text"])
        agent.tool("interrupt")
        agent.finish(waiting)

    def test_logs_are_resources_with_names_of_any_kind(self):
        agent = self.agent()
        name = "a/b é?#%"
        agent.tool("run", command="seq 100000", session=name, maxOutputBytes=0)
        (resource,) = agent.ask("resources/list")["resources"]
        self.assertEqual(resource["uri"], "rex:///session/a%2Fb%20%C3%A9%3F%23%25")
        self.assertEqual(resource["mimeType"], "text/plain")
        (content,) = agent.ask("resources/read", {"uri": resource["uri"]})["contents"]
        self.assertEqual((content["uri"], content["mimeType"]), (resource["uri"], "text/plain"))
        first, _, rest = content["text"].partition("\n")
        whole = "".join(f"{n}\n" for n in range(1, 100001))
        left_out = len(whole) - 256 * 1024
        self.assertEqual(first, f"[{left_out} bytes before this: {resource['uri']}?offset=0]")
        self.assertEqual(rest, whole[left_out:])
        (content,) = agent.ask("resources/read", {"uri": resource["uri"] + "?offset=0"})["contents"]
        self.assertTrue(content["text"].startswith(whole[: 256 * 1024]))
        self.assertIn(f"[more: {resource['uri']}?offset=262144]", content["text"])
        (template,) = agent.ask("resources/templates/list")["resourceTemplates"]
        self.assertEqual(template["uriTemplate"], "rex://{host}/session/{session}{?offset}")

    def test_a_resource_that_is_not_there_is_an_error_with_the_code_of_the_revision(self):
        legacy = self.agent(modern=False)
        legacy.greet()
        for agent, code in [(self.agent(), -32602), (legacy, -32002)]:
            for uri in ["rex:///session/none", "rex://none/session/main", "file:///etc/passwd", "rex://", "rex:///session/",
                        "rex:///session/%zz", "rex:///session/main?offset=x"]:  # fmt: skip
                with self.subTest(code=code, uri=uri):
                    error = agent.error("resources/read", {"uri": uri})
                    self.assertEqual((error["code"], error["data"]["uri"]), (code, uri))
            self.assertEqual(agent.error("resources/read", {})["code"], -32602)

    def test_when_its_input_ends_it_ends_with_all_it_started(self):
        agent = self.agent()
        agent.tool("run", command=":")
        agent.start_tool("run", command="touch begun; sleep 1000", waitMs=600000)
        self.assertTrue(until(lambda: (self.folder / "begun").exists(), DEADLINE))
        children = list(family(agent.process.pid))
        self.assertEqual(agent.close(), 0)
        self.assertTrue(until(lambda: not any(map(alive, children)), DEADLINE))

    def test_what_was_asked_before_the_end_of_input_is_answered(self):
        request = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": META}}
        done = subprocess.run([binary(), "--private", "mcp"], input=json.dumps(request).encode(), stdout=subprocess.PIPE,
                              timeout=DEADLINE, check=True)  # fmt: skip
        self.assertEqual(len(json.loads(done.stdout)["result"]["tools"]), len(TOOLS))

    def test_with_connect_the_sessions_are_those_of_an_instance_that_runs(self):
        path = self.folder / "socket"
        server = subprocess.Popen([binary(), "--private", "serve", "--listen", f"unix:{path}"], stderr=subprocess.PIPE)
        self.addCleanup(server.wait)
        self.addCleanup(server.terminate)
        self.addCleanup(server.stderr.close)
        server.stderr.readline()  # it listens
        one, two = (self.agent("--connect", f"unix:{path}") for _ in range(2))
        one.tool("run", command="x=shared")
        self.assertIn("shared\n", two.tool("run", command="echo $x")[0])
        server.terminate()
        server.wait(timeout=DEADLINE)
        self.assertEqual(one.process.wait(timeout=DEADLINE), 1)

    def test_help_names_the_line_that_tells_each_agent(self):
        text = subprocess.run([binary(), "mcp", "--help"], stdout=subprocess.PIPE, check=True).stdout.decode()
        for line in ("claude mcp add ", "codex mcp add ", "gemini mcp add ", "code --add-mcp ", '"mcpServers"'):
            self.assertIn(line, text)


if __name__ == "__main__":
    unittest.main()

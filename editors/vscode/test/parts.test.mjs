// The extension's parts that need no editor, against a real instance: files, hosts, sessions, and the terminal by the
// calls that the editor makes. The editor itself is in ../workbench.
import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { test as anyTest } from "node:test";
import { fileURLToPath } from "node:url";
import { Rex } from "rex-rpc";
import { authorityOf, hostOf, prefixesOf, withoutQuestions } from "../dist/parts/address.mjs";
import { Link } from "../dist/parts/link.mjs";
import { Store } from "../dist/parts/store.mjs";
import { SessionTerminal } from "../dist/parts/terminal.mjs";
import { World } from "../dist/parts/world.mjs";

const program = process.env.REX_RPC ?? join(dirname(fileURLToPath(import.meta.url)), "../../../build/release/rex-rpc");
const test = (name, body) => anyTest(name, { timeout: 60_000 }, body);

/** A link to an instance of the test's own, in a folder and a runtime directory of its own; `agent` starts another there. */
function place(t) {
  const folder = mkdtempSync(join(tmpdir(), "rex-parts-"));
  mkdirSync(join(folder, "run"), { mode: 0o700 });
  const env = { ...process.env, HOME: folder, XDG_RUNTIME_DIR: join(folder, "run") };
  const saved = {};
  const calls = [];
  const start = async () => {
    const rex = await Rex.spawn({ command: program, env });
    const call = rex.call.bind(rex);
    rex.call = (method, ...rest) => (calls.push(method), call(method, ...rest));
    return rex;
  };
  const link = new Link(start, { load: () => saved, save: (all) => Object.assign(saved, all) });
  const agents = [];
  const agent = async () => {
    agents.push(await Rex.spawn({ command: program, env }));
    return agents.at(-1);
  };
  t.after(async () => {
    for (const each of agents) each.kill(); // one that is left keeps all tests from ending
    await link.close();
    rmSync(folder, { recursive: true, force: true });
  });
  return { folder, env, agent, link, calls, saved, store: new Store((host) => link.reach(host)) };
}

/** What the terminal has written, and a wait for a text in it. */
function screen(terminal) {
  let text = "";
  let look = () => {};
  terminal.onDidWrite((piece) => ((text += piece), look()));
  return (pattern) =>
    new Promise((resolve) => {
      look = () => pattern.test(text) && resolve(text);
      look();
    });
}

test("a host's path is an authority and back", () => {
  for (const host of ["", "gpu", "bastion/gpu@2/a-b.c"]) assert.equal(hostOf(authorityOf(host)), host);
  assert.deepEqual(prefixesOf("a/b/c"), ["a", "a/b", "a/b/c"]);
});

test("what was asked of a terminal of before is not asked of this one", () => {
  const asked = "\x1b[6n\x1b[c\x1b[>c\x1b[?2026$p\x1b[>q\x1b[18t\x1b]11;?\x07\x1b]4;1;?\x1b\\\x1bP+q544e\x1b\\";
  assert.equal(withoutQuestions(`a${asked}\x1b[31mb\x1b[2J\x1b]0;title\x07`), "a\x1b[31mb\x1b[2J\x1b]0;title\x07");
});

test("a file of 10 MB is two requests, a directory of 10,000 entries one, and a save one", async (t) => {
  const { folder, store, calls } = place(t);
  const data = Buffer.alloc(10 << 20, "0123456789abcde\n");
  writeFileSync(join(folder, "big"), data);
  mkdirSync(join(folder, "many"));
  for (let i = 0; i < 10_000; ++i) writeFileSync(join(folder, "many", `${i}`), "");
  assert.ok(Buffer.from(await store.read("", join(folder, "big"))).equals(data));
  assert.equal((await store.list("", join(folder, "many"))).length, 10_000);
  await store.write("", join(folder, "big"), Buffer.from("new"), false, true);
  assert.equal(readFileSync(join(folder, "big"), "utf8"), "new");
  assert.deepEqual(calls, ["file/read", "file/read", "file/list", "file/write"]);
});

for (const host of ["", "a/b"]) {
  test(`opening is a stat and a read, saving a write, listing one request, ${host ? "two hosts away" : "here"}`, async (t) => {
    const { folder, link, store, calls } = place(t);
    const path = join(folder, "note");
    writeFileSync(path, "one");
    if (host) await link.connect({ name: "a", argv: [program, "--private"] });
    if (host) await link.connect({ name: "b", host: "a", argv: [program, "--private"] });
    await link.rex();
    calls.length = 0;
    await store.stat(host, path); // as the editor does, which asks what it knows already
    await store.stat(host, path);
    await store.read(host, path);
    assert.deepEqual(calls.splice(0), ["file/stat", "file/read"]);
    await store.write(host, path, Buffer.from("two"), false, true);
    assert.equal((await store.stat(host, path)).size, 3);
    assert.deepEqual(calls.splice(0), ["file/write"]);
    assert.deepEqual((await store.list(host, folder)).map(({ name }) => name).sort(), ["note", "run"]);
    assert.deepEqual(calls.splice(0), ["file/list"]);
  });
}

test("what changes in a file that is watched is told, and asked anew", async (t) => {
  const { folder, store } = place(t);
  const path = join(folder, "note");
  writeFileSync(path, "one");
  let told = () => {};
  const change = new Promise((resolve) => (told = resolve));
  const stop = await store.watch("", path, false, told);
  assert.equal((await store.stat("", path)).size, 3);
  writeFileSync(path, "longer");
  assert.equal((await change).changes[0].path, path);
  assert.equal((await store.stat("", path)).size, 6);
  await stop();
});

test("a session that has ended is told with how", async (t) => {
  const { link, calls } = place(t);
  const rex = await link.rex();
  const all = new World(link);
  for (const [session, command] of [["seven", "exit 7"], ["killed", "kill -9 $$"]]) {
    await (await rex.createSession({ session, argv: ["/bin/sh", "-c", command] })).wait([{ exit: true }]);
  }
  const told = async () => Object.fromEntries((await all.sessions("")).map((info) => [info.session, info.ended]));
  assert.deepEqual(await told(), { killed: "ended by signal KILL", seven: "exited with 7" });
  const before = calls.length;
  await told();
  assert.deepEqual(calls.slice(before), ["session/list"]);
});

test("a save that would go over another's is refused, and the next one is meant", async (t) => {
  const { folder, store } = place(t);
  const path = join(folder, "note");
  writeFileSync(path, "one");
  await store.read("", path);
  writeFileSync(path, "another's");
  await assert.rejects(store.write("", path, Buffer.from("mine"), true, true), { type: "Conflict" });
  assert.equal(readFileSync(path, "utf8"), "another's");
  await store.write("", path, Buffer.from("mine"), true, true);
  assert.equal(readFileSync(path, "utf8"), "mine");
  await assert.rejects(store.write("", path, Buffer.from("new"), true, false), { type: "Conflict" });
});

test("hosts are remembered, and dialled again by who needs them", async (t) => {
  const { link, saved, folder, store } = place(t);
  await link.connect({ name: "a", argv: [program, "--private"] });
  await link.connect({ name: "b", host: "a", argv: [program, "--private"] });
  const rex = await link.rex();
  rex.kill();
  await rex.closed;
  writeFileSync(join(folder, "file"), "there");
  assert.equal(Buffer.from(await store.read("a/b", join(folder, "file"))).toString(), "there");
  assert.deepEqual(Object.keys(saved), ["a", "a/b"]);
});

test("others' instances are found with their sessions, whose changes are told without a question", async (t) => {
  const { link, calls, ...here } = place(t);
  const all = new World(link);
  assert.deepEqual(await all.instances(""), []);
  const come = new Promise((resolve) => all.onDidChange(resolve));
  const agent = await here.agent();
  await come;
  const session = await agent.createSession({ session: "build" });
  const [found] = await all.instances("");
  assert.equal(found.host, agent.info.machine.instance);
  assert.deepEqual((await all.sessions(found.host)).map((info) => info.session), ["build"]);
  const before = calls.length;
  const change = new Promise((resolve) => all.onDidChange(resolve));
  await session.run("true");
  await change;
  assert.equal(calls.length, before);
});

test("a terminal types, keeps its place over a loss, and ends with its exit code", async (t) => {
  const { link } = place(t);
  const name = `t-${process.pid}`;
  const terminal = new SessionTerminal(async (size) => {
    const rex = await link.reach("");
    const there = (await rex.call("session/list", {})).sessions.some((info) => info.session === name);
    const shell = { profile: "human", argv: ["/bin/sh", "-i"], env: { PS1: "> " } };
    const params = { session: name, lifetime: "daemon", ...shell, rows: size.rows, cols: size.columns };
    return { session: there ? rex.session(name) : await rex.createSession(params), rex, own: true };
  });
  const title = new Promise((resolve) => terminal.onDidChangeName(resolve));
  const shows = screen(terminal);
  const ended = new Promise((resolve) => terminal.onDidClose(resolve));
  terminal.open({ rows: 20, columns: 60 });
  terminal.handleInput("stty size\r"); // before there is a session
  await shows(/20 60/);
  terminal.setDimensions({ rows: 30, columns: 70 });
  terminal.handleInput("PLACE=kept; stty size\r");
  await shows(/30 70/);
  terminal.handleInput("printf '\\033]0;%s\\007' a-title\r");
  assert.equal(await title, "a-title");
  (await link.rex()).kill();
  await shows(/Press Enter to try again/);
  terminal.handleInput("\r");
  terminal.handleInput("echo it was $PLACE\r");
  const text = await shows(/it was kept\r?\n/);
  assert.equal(text.match(/20 60/g).length, 1); // nothing twice
  terminal.handleInput("exit 7\r");
  assert.equal(await ended, 7);
});

test("another's session is watched, not typed into, until it is taken over", async (t) => {
  const { link, ...here } = place(t);
  const agent = await here.agent();
  const session = await agent.createSession({ session: "deploy" });
  await session.run("echo first; read -p 'Go? ' answer; echo you said $answer");
  const all = new World(link);
  const host = agent.info.machine.instance;
  let hints = 0;
  const opening = async () => {
    const rex = await all.reach(host);
    return { session: rex.session("deploy", host), rex, own: false };
  };
  const terminal = new SessionTerminal(opening, () => {}, () => (hints += 1));
  const shows = screen(terminal);
  terminal.open({ rows: 20, columns: 60 });
  await shows(/first\r\nGo\? /); // with the carriage returns that its own terminal leaves out
  terminal.handleInput("x");
  assert.equal(hints, 1);
  await terminal.type(true);
  await assert.rejects(session.write("yes\n"), { type: "NotWriter" });
  terminal.handleInput("no\r");
  await shows(/you said no\r\n/);
  await terminal.type(false);
  assert.equal((await session.run("echo mine")).output, "mine\n");
  terminal.close();
  assert.equal((await session.info()).state, "ready"); // it goes on
});

// The client against a real instance: what a program that imports it may rely on.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test as anyTest } from "node:test";
import { Keys, Rex, RexError } from "rex-rpc";
import { after, folder, instance, pid, program, sshServer, started } from "./rig.js";

/** @param {string} name @param {(t: import("node:test").TestContext) => unknown} body */
const test = (name, body) => void anyTest(name, { timeout: 60_000 }, async (t) => void (await body(t)));

/** @param {Promise<unknown>} promise @returns {Promise<RexError>} */
async function refused(promise) {
  const error = await promise.then(
    () => assert.fail("it was not refused"),
    (/** @type {unknown} */ thrown) => thrown,
  );
  assert.ok(error instanceof RexError, String(error));
  return error;
}

test("a session keeps its state, and a failing command is a result", async (t) => {
  const rex = await instance(t);
  const session = await rex.createSession({ session: "main" });
  await session.run("cd /usr; export WORD=hello");
  const result = await session.run('echo "$WORD from $PWD"; (exit 3)');
  assert.deepEqual([result.output, result.exitCode, result.state], ["hello from /usr\n", 3, "exited"]);
  assert.equal((await session.info()).cwd, "/usr");
  await session.close();
  assert.equal(rex.info.protocolVersion.split(".")[0], "1");
});

test("an error has its code, type, facts, and whether it took place", async (t) => {
  const rex = await instance(t);
  const missing = await refused(rex.session("nobody").run("true"));
  assert.deepEqual([missing.code, missing.type, missing.executed], [1101, "SessionNotFound", "no"]);
  const os = await refused(rex.call("file/stat", { path: "/no/such" }));
  assert.deepEqual([os.type, os.data["name"], os.data["path"]], ["OsError", "ENOENT", "/no/such"]);
  assert.equal(os.retryable, false);
});

test("a request with a key takes place once, whoever is asked again", async (t) => {
  const env = { ...process.env, XDG_STATE_HOME: folder(t) };
  const [rex, other] = [await instance(t, { env }), await instance(t, { env })];
  const path = join(folder(t), "log");
  const keys = new Keys();
  const [first, second] = [keys.next(), keys.next()];
  const write = (/** @type {Rex} */ by) => by.call("file/write", { path, data: "one\n", append: true, key: first });
  assert.deepEqual(await write(other), await write(rex));
  const session = await rex.createSession();
  const run = () => session.run(`echo two >>${path}`, { key: second });
  assert.deepEqual(await run(), await run());
  assert.equal(readFileSync(path, "utf8"), "one\ntwo\n");
  assert.equal((await refused(session.run("true", { key: second }))).type, "KeyConflict");
  keys.done(first);
  keys.done(second);
  await session.run("true", { key: keys.next() });
  const unknown = await refused(run());
  assert.deepEqual([unknown.type, unknown.executed, unknown.data["reason"]], ["OutcomeUnknown", "unknown", "forgotten"]);
});

test("twenty requests go out at once and are answered each", async (t) => {
  const rex = await instance(t);
  const results = await Promise.all(
    Array.from({ length: 20 }, (_, i) => rex.call("process/run", { command: ["echo", `${i}`] })),
  );
  assert.deepEqual(results.map((result) => result.stdout), Array.from({ length: 20 }, (_, i) => `${i}\n`));
});

test("an abort stops the command, and the error has its partial result", async (t) => {
  const rex = await instance(t);
  const session = await rex.createSession();
  const abort = new AbortController();
  const onProgress = () => abort.abort(); // once it has said something, it runs
  const error = await refused(session.run("echo begun; sleep 1000", {}, { signal: abort.signal, onProgress }));
  assert.equal(error.type, "RequestCancelled");
  assert.match(error.result?.output ?? "", /^begun\n/);
  assert.equal((await session.info()).state, "ready");
  const early = await refused(session.run("touch never", {}, { signal: abort.signal }));
  assert.deepEqual([early.type, early.executed], ["RequestCancelled", "no"]);
});

test("the output of a run comes as progress, in order", async (t) => {
  const rex = await instance(t);
  const session = await rex.createSession();
  let seen = "";
  const result = await session.run("for i in 1 2 3; do echo $i; done", {}, {
    onProgress: (value) => void (seen += "data" in value ? value.data : ""),
  });
  assert.equal(seen, "1\n2\n3\n");
  assert.equal(result.output, seen);
});

test("a program that asks is answered, and a wait is met", async (t) => {
  const rex = await instance(t);
  const session = await rex.createSession();
  const asks = await session.run("read -p 'Deploy? ' answer; echo you said $answer");
  assert.deepEqual([asks.state, asks.waiting?.text], ["waitingInput", "Deploy? "]);
  await session.write("no", { submit: true });
  const met = await session.wait([{ match: "you said no" }, { exit: true }]);
  assert.equal(met.met, 0);
  assert.equal((await session.wait([{ exit: true }])).result?.exitCode, 0);
});

test("iteration gives every byte once, never further ahead than the window", async (t) => {
  const rex = await instance(t);
  const session = await rex.createSession();
  const window = 8192;
  const { next: from } = await session.info();
  const attachment = await session.attach({ offset: from, window });
  let taken = from;
  let ahead = 0;
  rex.on("session/output", (output) => void (ahead = Math.max(ahead, output.next - taken)));
  const command = `cd ${folder(t)}; head -c 300000 /dev/urandom | base64 | tee copy`;
  const { next: end } = await session.run(command, { maxOutputBytes: 0 });
  const hash = createHash("sha256");
  for await (const piece of attachment) {
    assert.deepEqual([piece.offset, piece.gap], [taken, undefined]);
    hash.update(piece.bytes);
    taken = piece.next;
    if (taken === end) break;
  }
  const { output } = await session.run("sha256sum < copy");
  assert.equal(output.split(" ")[0], hash.digest("hex"));
  assert.ok(ahead <= window, `${ahead} bytes ahead`);
});

test("a character cut in two is text once it is whole", async (t) => {
  const rex = await instance(t);
  const session = await rex.createSession({ argv: ["cat"], tty: false });
  const attachment = await session.attach({ offset: 0 });
  const euro = Buffer.from("€");
  await session.write(euro.subarray(0, 1).toString("base64"), { encoding: "base64" });
  const first = await attachment.next();
  await session.write(euro.subarray(1).toString("base64"), { encoding: "base64", eof: true });
  let text = first.value?.text;
  for await (const piece of attachment) text += piece.text;
  assert.equal(first.value?.bytes.length, 1);
  assert.equal(text, "€");
});

test("leaving the loop gives the lease on typing back", async (t) => {
  const path = join(folder(t), "s");
  await started(t, [program, "--private", "serve", "--listen", `unix:${path}`], /listening/i);
  const [one, other] = await Promise.all([Rex.connect(`unix:${path}`), Rex.connect(`unix:${path}`)]);
  after(t, () => [one, other].forEach((rex) => rex.kill()));
  const session = await one.createSession({ session: "shared" });
  await session.run("echo before");
  for await (const _ of await session.attach({ offset: 0, role: "writer" })) {
    const error = await refused(other.session("shared").write("x"));
    assert.equal(error.type, "NotWriter");
    break;
  }
  assert.equal((await other.session("shared").run("echo mine")).output, "mine\n");
  await one.close();
});

test("an instance that is killed leaves nobody waiting", async (t) => {
  const rex = await instance(t);
  const session = await rex.createSession();
  const attachment = await session.attach();
  const begun = new Promise((resolve) => {
    const onProgress = () => resolve(undefined);
    void session.run("echo begun; sleep 1000", {}, { onProgress }).catch(() => {});
  });
  const waiting = refused(session.wait([{ match: "never" }]));
  const iterated = refused((async () => { for await (const _ of attachment); })());
  await begun;
  process.kill(pid(rex), "SIGKILL");
  for (const error of [await waiting, await iterated]) {
    assert.deepEqual([error.type, error.executed], ["ConnectionClosed", "unknown"]);
  }
  assert.match(await rex.closed, /by SIGKILL/);
  assert.equal((await refused(rex.call("ping", {}))).executed, "no");
  await rex.close();
});

test("answers that came before the end are answers", async (t) => {
  const rex = await instance(t);
  const reads = Array.from({ length: 300 }, () => rex.call("file/read", { path: "/etc/passwd" }));
  await rex.notify("$/cancelRequest", { id: "none" }); // written behind all of them
  /** @type {any} */ (rex).link.output.end(); // an instance answers what it has read, and ends
  for (const answer of await Promise.all(reads)) assert.ok(answer.size > 0);
  assert.match(await rex.closed, /has ended with 0/);
});

test("a program that is not there is said at once, and so is one that is no rex-rpc", async () => {
  assert.match((await refused(Rex.spawn({ command: "/no/such/program" }))).message, /ENOENT/);
  assert.match((await refused(Rex.spawn({ command: "/bin/true" }))).message, /has ended with 0/);
  const shell = { command: "sh", args: ["-c", "echo Welcome; exec sleep 1000"] };
  assert.match((await refused(Rex.spawn(shell))).message, /no rex-rpc answers but "Welcome\\n"/);
  const signal = AbortSignal.timeout(100); // it says nothing, ever: there is no event to wait for
  await refused(Rex.spawn({ command: "sleep", args: ["1000"], signal }));
});

test("TCP takes the right token and no other", async (t) => {
  const token = join(folder(t), "token");
  const argv = [program, "--private", "serve", "--listen", "tcp:127.0.0.1:0", "--token-file", token];
  const { said } = await started(t, argv, /tcp:127\.0\.0\.1:[1-9]\d*/);
  const address = /** @type {string} */ (/tcp:127\.0\.0\.1:[1-9]\d*/.exec(said)?.[0]);
  assert.equal((await refused(Rex.connect(address, { token: "wrong" }))).type, "Unauthenticated");
  const rex = await Rex.connect(address, { token: readFileSync(token, "utf8").trim() });
  assert.ok((await rex.call("ping", {})).time);
  await rex.close();
});

test("a host is a path, and its loss is told to who reads there", async (t) => {
  const rex = await instance(t);
  const argv = [program, "--private"];
  await rex.call("host/connect", { name: "a", argv });
  const far = await rex.call("host/connect", { name: "b", host: "a", argv });
  const session = await rex.createSession({ host: "a/b" });
  assert.equal((await session.run("echo $PPID")).host, "a/b");
  const attachment = await session.attach();
  process.kill(Number(String(far.machine["instance"]).split("-")[0]), "SIGKILL");
  const lost = await refused((async () => { for await (const _ of attachment); })());
  assert.deepEqual([lost.type, lost.executed], ["HostLost", "unknown"]);
  assert.equal((await refused(session.run("true"))).data["host"], "a/b");
});

test("what a host asks while it is dialled is asked here", async (t) => {
  const env = await sshServer(t);
  /** @type {string[]} */
  const asked = [];
  const rex = await instance(t, {
    env,
    onPrompt: ({ host, kind, secret }) => {
      asked.push(`${host} ${kind} ${secret}`);
      return "open sesame";
    },
  });
  /** @type {string[]} */
  const phases = [];
  const onProgress = (/** @type {import("rex-rpc").ProgressValue} */ value) => "phase" in value && phases.push(value.phase);
  const info = await rex.call("host/connect", { name: "far", url: "ssh://far", install: false }, { onProgress }).catch(
    (error) => error, // without a rex-rpc on its PATH the host is refused, but behind the question
  );
  assert.deepEqual(asked, ["far passphrase true"], String(info));
  assert.ok(phases.includes("auth"), String(phases));
});

test("files are watched until they are not", async (t) => {
  const rex = await instance(t);
  const path = folder(t);
  /** @type {(path: string | undefined) => void} */
  let told = () => {};
  const stop = await rex.watch({ path }, ({ changes }) => told(changes[0]?.path));
  const first = new Promise((resolve) => (told = resolve));
  await rex.call("file/write", { path: `${path}/a`, data: "x" });
  assert.equal(await first, `${path}/a`);
  await stop();
});

test("require() gives the same", () => {
  const cjs = createRequire(import.meta.url)("rex-rpc");
  assert.equal(typeof cjs.Rex.spawn, "function");
});

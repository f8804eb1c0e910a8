// The packaged extension in VS Code's own workbench: what a person sees and does there, with nothing in between.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { Rex } from "rex-rpc";
import { patience, program, Workbench } from "./rig.js";

const limit = { timeout: 300_000 };
/** @type {Workbench} */
let code;
/** @type {import("node:child_process").ChildProcess} */
let sshd;
let log = "";
/** Tasks that are begun at once. */
const burst = 20;
/** How long nothing is to be asked: a time in which nothing is to happen has no event to wait for. */
const idleMs = process.env.REX_LONG ? 60_000 : 3000;

const isRoot = process.getuid() === 0;
const sshServers = `
import json, os, pathlib, signal, subprocess, sys, ssh_server
folder, program = map(pathlib.Path, sys.argv[1:])

def login(name):
    home, run = folder / name, folder.parent / "run" / name
    (home / "bin").mkdir(parents=True)
    run.mkdir(mode=0o700)
    (home / "bin" / "rex-rpc").symlink_to(program)
    login = home / "login"
    login.write_text(f'#!/bin/sh\\nexport HOME={home} XDG_RUNTIME_DIR={run} PATH={home}/bin:$PATH\\nexec /bin/sh -c "$SSH_ORIGINAL_COMMAND"\\n')
    login.chmod(0o755)
    return {"folder": home, "login": login}

locked = ssh_server.SshServer(**login("locked"))
subprocess.run(["ssh-keygen", "-p", "-P", "", "-N", "open sesame", "-f", locked.folder / "key"], check=True, stdout=sys.stderr)
servers, path = [locked], locked.client("locked")["PATH"]
if os.getuid() == 0:
    where = login("guarded")
    check = where["folder"] / "check"
    check.write_text("#!/bin/sh\\nPATH=/usr/bin:/bin; [ \\"$(tr -d '\\\\0')\\" = 'ala kazam' ]\\n")
    guarded = ssh_server.SshServer(**where, **ssh_server.asking(where["folder"], check))
    guarded.client("guarded")
    (guarded.folder / "known").write_text("")
    both = locked.folder / "config"
    ours = (guarded.folder / "config").read_text().replace("StrictHostKeyChecking yes", "StrictHostKeyChecking ask")
    both.write_text(both.read_text() + ours)
    servers.append(guarded)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
print(json.dumps(path), flush=True)
signal.sigwait({signal.SIGTERM})
for server in servers:
    server.close()`;

/**
 * Real sshds, by the PATH that this gives: `locked`, whose key has a passphrase, and `guarded`, whose own key nobody
 * knows and that asks for a password (as root only).
 */
async function sshHosts(folder) {
  const env = { ...process.env, PYTHONPATH: join(dirname(fileURLToPath(import.meta.url)), "../../../tests/support") };
  sshd = spawn("python3", ["-c", sshServers, join(folder, "ssh"), program], { env, stdio: ["ignore", "pipe", "inherit"] });
  let said = "";
  for await (const data of sshd.stdout) {
    said += data;
    if (said.includes("\n")) break;
  }
  return JSON.parse(said);
}

/** A host of this machine that looks like another one: with a home and a runtime directory of its own. */
function machine(folder, name, hosts = {}) {
  const home = join(folder, name);
  mkdirSync(join(home, ".config/rex-rpc"), { recursive: true });
  writeFileSync(join(home, ".config/rex-rpc/hosts.json"), JSON.stringify({ hosts }));
  const run = `XDG_RUNTIME_DIR=${folder}/run/${name}`;
  const begin = `mkdir -p -m 700 ${folder}/run/${name}; cd ${home}; export HOME=${home} ${run}`;
  return { argv: ["sh", "-c", `${begin}; echo $$ >>${home}.pids; exec ${program} --private`] };
}

/** A host that has no rex-rpc, at the end of a line so slow that VS Code, which tells ten times a second, tells of the installation. */
function bare(folder) {
  const [home, run] = [join(folder, "bare"), join(folder, "run/bare")];
  for (const path of [home, run]) mkdirSync(path, { mode: 0o700 });
  const slowly = "import os, time\nwhile piece := os.read(0, 65536): os.write(1, piece); time.sleep(0.02)";
  const begin = `env -i -C ${home} HOME=${home} XDG_RUNTIME_DIR=${run} PATH=/usr/bin:/bin sh`;
  return { argv: ["sh", "-c", `python3 -c "$0" | ${begin}`, slowly] };
}

/** The requests of a method so far. */
function requests(method) {
  return readFileSync(log, "utf8").split("\n").filter((line) => line.includes(`"method":"${method}"`));
}

before(async () => {
  code = await Workbench.open(async (folder) => {
    log = join(folder, "requests");
    writeFileSync(log, "");
    const spy = join(folder, "rex-rpc");
    writeFileSync(spy, `#!/bin/sh\nexport PATH=${await sshHosts(folder)}\ntee -a ${log} | exec ${program} "$@"\n`, { mode: 0o755 });
    const bastion = machine(folder, "bastion", { build7: machine(folder, "build7") });
    const ssh = (name) => ({ url: `ssh://${name}`, install: false });
    machine(folder, "home", { bare: bare(folder), bastion, guarded: ssh("guarded"), locked: ssh("locked") });
    mkdirSync(join(folder, "workspace/.vscode"));
    mkdirSync(join(folder, "burst"));
    mkdirSync(join(folder, "ended"));
    const task = (label, command) => ({ label, type: "rex", host: "bastion/build7", command, problemMatcher: [] });
    // Each ends when all have begun: sent one after the other, the first would wait for ever.
    const each = (n) => `touch burst/${n}; while [ $(ls burst | wc -l) -lt ${burst} ]; do sleep 0.1; done; touch ended/${n}`;
    const presentation = { reveal: "never", panel: "dedicated", close: true };
    const many = Array.from({ length: burst }, (_, n) => ({ ...task(`burst ${n}`, `cd ${folder}; ${each(n)}`), presentation }));
    const tasks = [task("a far task", "exit 4"), ...many, { label: "all at once", dependsOn: many.map(({ label }) => label), problemMatcher: [] }];
    writeFileSync(join(folder, "workspace/.vscode/tasks.json"), JSON.stringify({ version: "2.0.0", tasks }));
    return { "rex.command": spy };
  });
}, limit);
after(async () => {
  await code?.close();
  sshd?.kill();
}, limit);

/** A test that leaves a picture where it fails. */
function check(name, body) {
  test(name, limit, async (t) => {
    try {
      await body(t);
    } catch (error) {
      await code.picture(`failed-${name.replaceAll(/\W+/g, "-")}`);
      throw error;
    }
  });
}

check("a terminal shows what is typed and answered, and a reload brings it back to its session", async () => {
  await code.command("Rex: New Terminal…");
  await code.pick("A terminal on", "this machine");
  await code.terminalShows(/[#$] ?$/m);
  await code.typeIntoTerminal("echo it is $((6*7)); cd /usr\n");
  await code.terminalShows(/^it is 42$/m);
  await code.reload();
  await code.terminalShows(/^it is 42$/m);
  await code.typeIntoTerminal("pwd\n"); // the same shell, not another
  await code.terminalShows(/^\/usr$/m);
  await code.picture("terminal");
});

async function connectBoth() {
  for (const host of ["bastion", "bastion/build7"]) {
    await code.command("Rex: Connect to Host…");
    await code.pick("Connect to a host", host);
  }
}

check("a terminal two hosts away says with what it has ended", async () => {
  await connectBoth();
  await code.command("Rex: New Terminal…");
  await code.pick("A terminal on", "bastion/build7");
  await code.terminalShows(/^\S*[#$]\s*$/); // a prompt alone: the new one
  await code.typeIntoTerminal("echo two hops: $((40+2)); exit 3\n");
  await code.page.locator(".notification-toast").filter({ hasText: /exit code: 3/ }).waitFor();
});

check("a terminal goes on when the instance between it and its session is killed", async () => {
  await code.command("Rex: New Terminal…");
  await code.pick("A terminal on", "bastion/build7");
  await code.terminalShows(/^\S*[#$]\s*$/); // a prompt alone: the new one
  await code.typeIntoTerminal("PLACE=kept\n");
  await code.terminalShows(/PLACE=kept/);
  const pids = readFileSync(join(code.folder, "bastion.pids"), "utf8").trim().split("\n");
  process.kill(Number(pids.find((pid) => existsSync(`/proc/${pid}`))), "SIGKILL");
  await code.terminalShows(/host bastion is lost/);
  await code.terminalShows(/it goes on\]/); // nobody has done anything
  await code.until(async () => {
    await code.typeIntoTerminal("echo it was $PLACE\n"); // what is typed meanwhile may be refused
    await code.page.waitForTimeout(1000);
    return /^it was kept$/m.test(await code.terminalText());
  }, () => code.terminalText());
  await code.calm();
  await code.picture("lost-host");
  await code.typeIntoTerminal("exit\n");
});

check("a host that asks for a passphrase is answered in a masked box, and the progress is told", async () => {
  await code.calm();
  await code.command("Rex: Connect to Host…");
  await code.pick("Connect to a host", "locked");
  const question = code.question("locked: passphrase of a key");
  await question.waitFor();
  assert.equal(await question.locator("input").getAttribute("type"), "password");
  await code.picture("passphrase");
  await code.answer("locked: passphrase of a key", "open sesame");
  await code.wasSaid(/Connecting to locked.*auth/);
  await code.command("View: Show rex-rpc");
  await code.row(/^lockedready/).waitFor();
});

check("a host whose key nobody knows and that asks for a password is asked about, masked, and gives a terminal", async (t) => {
  if (!isRoot) return t.skip("an sshd with a PAM of its own needs root");
  await code.command("Rex: Connect to Host…");
  await code.pick("Connect to a host", "guarded");
  const key = code.question("guarded: is its key right?");
  await key.waitFor();
  assert.equal(await key.locator("input").getAttribute("type"), "text");
  await code.answer("guarded: is its key right?", "yes");
  const password = code.question("guarded: password");
  await password.waitFor();
  assert.equal(await password.locator("input").getAttribute("type"), "password");
  await code.picture("password");
  await code.answer("guarded: password", "ala kazam");
  await code.row(/^guardedready/).waitFor();
  await code.command("Rex: New Terminal…");
  await code.pick("A terminal on", "guarded");
  await code.terminalShows(/^\S*[#$]\s*$/); // a prompt alone: the new one
  await code.typeIntoTerminal("echo let in $((6*7))\n");
  await code.terminalShows(/^let in 42$/m);
  await code.typeIntoTerminal("exit\n");
});

check("a host without rex-rpc gets one, and that is told", async () => {
  await code.command("Rex: Connect to Host…");
  await code.pick("Connect to a host", "bare");
  await code.wasSaid(/Connecting to bare.*install/);
  await code.row(/^bareready/).waitFor();
});

for (const [where, host, name, uri] of [
  ["here", "this machine", "here.txt", "rex:/tmp/"],
  ["two hosts away", "bastion/build7", "note.txt", "rex://bastion~build7/"],
]) {
  check(`a file ${where} is opened by a stat and a read, and saved by one write`, async () => {
    const path = join(code.folder, name);
    writeFileSync(path, "first line\n");
    const asked = (method) => requests(method).filter((line) => line.includes(`"${path}"`)).length; // other files are watched
    await code.command("Rex: Open File on Host…");
    await code.pick("Open a file on", host);
    await code.answer("Open a file on", path);
    const editor = code.page.locator(`.monaco-editor[data-uri^='${uri}']`);
    await editor.locator(".view-line").filter({ hasText: "first" }).waitFor();
    assert.deepEqual(["file/stat", "file/read", "file/write"].map(asked), [1, 1, 0]);
    await editor.locator(".view-line").first().click();
    await code.page.keyboard.press("Control+Home");
    await code.page.keyboard.type("edited ");
    await code.picture("file");
    await code.page.keyboard.press("Control+s");
    await code.until(() => readFileSync(path, "utf8") === "edited first line\n", () => readFileSync(path, "utf8"));
    await editor.locator(".view-line").first().waitFor();
    assert.deepEqual(["file/read", "file/write"].map(asked), [1, 1]);
  });
}

check("a save does not go over another writer's", async () => {
  const path = join(code.folder, "note.txt");
  const editor = code.page.locator(".monaco-editor[data-uri^='rex://bastion~build7/']");
  await editor.locator(".view-line").first().click();
  await code.page.keyboard.type("mine ");
  writeFileSync(path, "theirs\n");
  await code.page.keyboard.press("Control+s");
  await code.page.locator(".notification-toast").filter({ hasText: /newer|changed by somebody else/ }).waitFor();
  assert.equal(readFileSync(path, "utf8"), "theirs\n");
  await code.picture("conflict");
  await code.command("File: Revert File");
  await editor.locator(".view-line").filter({ hasText: "theirs" }).waitFor();
  writeFileSync(path, "changed there\n"); // which is watched
  await editor.locator(".view-line").filter({ hasText: "changed" }).waitFor();
});

check("an agent's session is watched, taken over, and handed back", async (t) => {
  const agent = await Rex.spawn({ command: program, env: code.env });
  t.after(() => agent.close());
  const session = await agent.createSession({ session: "deploy" });
  const asks = await session.run("echo building; read -p 'Deploy to production? ' answer; echo you said $answer");
  assert.equal(asks.state, "waitingInput");
  const tests = await agent.createSession({ session: "tests", argv: ["/bin/sh", "-c", "exit 7"] });
  await tests.wait([{ exit: true }]);
  await agent.createSession({ session: "compile" }).then((busy) => busy.run("sleep 1000", { waitMs: 0 }));
  await code.command("View: Show rex-rpc");
  await code.row("deploywaits for input: Deploy to production?").waitFor();
  await code.row("compilerunning · sleep").waitFor();
  await code.row("testsexited with 7").waitFor();
  await code.page.locator(".statusbar-item").filter({ hasText: /rex: \d running, 1 waiting/ }).waitFor();
  await code.row("deploywaits").click();
  await code.terminalShows(/^building\nDeploy to production\? ?$/m);
  await code.calm();
  await code.picture("watch");
  await code.typeIntoTerminal("ignored");
  await code.command("Rex: Take Over Session");
  await code.until(async () => (await session.info()).writer !== null);
  await assert.rejects(session.write("yes\n"), { type: "NotWriter" });
  await code.typeIntoTerminal("no, by hand\n");
  await code.terminalShows(/^you said no, by hand$/m);
  await code.picture("take-over");
  await code.command("Rex: Hand Session Back");
  await code.until(async () => (await session.info()).writer === null);
  assert.equal((await session.run("echo mine again")).output, "mine again\n");
  await code.terminalShows(/^mine again$/m);
});

check("the list of terminals' profiles has one that attaches to an agent's session", async (t) => {
  const agent = await Rex.spawn({ command: program, env: code.env });
  t.after(() => agent.close());
  const session = await agent.createSession({ session: "review" });
  await session.run("echo to be reviewed");
  await code.command("Create New Terminal (With Profile)");
  await code.pick("", "Rex");
  await code.pick("A terminal on", "this machine");
  await code.pick("New, or attach to", "review");
  await code.terminalShows(/^to be reviewed$/m);
});

check("a search's results open at their lines", async () => {
  const folder = join(code.folder, "tree");
  mkdirSync(folder);
  for (const name of ["a.txt", "b.txt"]) writeFileSync(join(folder, name), "nothing\nthe needle is here\n");
  await code.command("Rex: Search on Host…");
  await code.pick("Search", "bastion/build7");
  await code.answer("Search bastion/build7", folder);
  await code.answer(`Search bastion/build7:${folder}`, "needle");
  const row = code.page.locator(".monaco-list-row").filter({ hasText: "the needle is here" });
  await row.first().waitFor();
  assert.equal(await row.count(), 2);
  await code.picture("search");
  await row.first().click();
  await code.page.locator(".monaco-editor .view-line").filter({ hasText: "needle" }).first().waitFor();
});

check("a window in which nothing happens asks nothing", async () => {
  const size = () => readFileSync(log).length;
  await code.until(async () => {
    const before = size();
    await code.page.waitForTimeout(idleMs);
    return size() === before;
  }, () => readFileSync(log, "utf8").slice(-1000));
});

check("a task runs on its host and says how it ended", async () => {
  await code.command("Tasks: Run Task");
  await code.pick("", "a far task");
  await code.terminalShows(/exit code: 4/);
});

check("twenty tasks are begun before the first has ended", async () => {
  await code.command("Tasks: Run Task");
  await code.pick("", "all at once");
  const ended = () => readdirSync(join(code.folder, "ended")).length;
  await code.until(() => ended() === burst, () => `${ended()} have ended`);
});

check("a file of 10 MB two hosts away opens by two reads, and the window goes on meanwhile", async () => {
  const path = join(code.folder, "large.txt");
  writeFileSync(path, "0123456789abcde\n".repeat(655_360));
  const before = requests("file/read").length;
  await code.command("Rex: Open File on Host…");
  await code.pick("Open a file on", "bastion/build7");
  const lively = await code.liveliness(async () => {
    await code.answer("Open a file on", path);
    await code.page.locator(".monaco-editor[data-uri$='large.txt'] .view-line").first().waitFor();
  });
  assert.equal(requests("file/read").length - before, 2);
  assert.ok(lively.ticks > 0 && lively.pause < patience / 3, JSON.stringify(lively));
});

check("a folder of 10,000 entries two hosts away opens by one request, and the window goes on meanwhile", async () => {
  const path = join(code.folder, "many");
  mkdirSync(path);
  for (let n = 0; n < 10_000; ++n) writeFileSync(join(path, `f${String(n).padStart(4, "0")}`), "");
  // The first folder beside one that was opened alone makes the editor load its window anew, and in a browser it may then
  // come without any: so it is a workspace from the beginning.
  const workspace = join(code.folder, "test.code-workspace");
  writeFileSync(workspace, JSON.stringify({ folders: [{ path: "workspace" }] }));
  await code.visit(`workspace=${workspace}`);
  await connectBoth();
  await code.command("Rex: Open Folder on Host…");
  await code.pick("Open a folder on", "bastion/build7");
  const lists = () => requests("file/list").filter((line) => line.includes(`"${path}"`)).length;
  const lively = await code.liveliness(async () => {
    await code.answer("Open a folder on", path);
    await code.row(/^many \(bastion\/build7\)/).waitFor();
    await code.row(/^f0000/).waitFor();
  });
  await code.picture("folder");
  assert.equal(lists(), 1);
  assert.ok(lively.ticks > 0 && lively.pause < patience / 3, JSON.stringify(lively));
});

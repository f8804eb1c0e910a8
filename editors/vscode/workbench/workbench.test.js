// The packaged extension in VS Code's own workbench: what a person sees and does there, with nothing in between.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { Rex } from "rex-rpc";
import { program, Workbench } from "./rig.js";

const limit = { timeout: 300_000 };
/** @type {Workbench} */
let code;
/** @type {import("node:child_process").ChildProcess} */
let sshd;
let log = "";

const sshServer = `
import json, pathlib, signal, subprocess, sys, ssh_server
folder, program = map(pathlib.Path, sys.argv[1:])
(folder / "bin").mkdir(parents=True)
(folder / "bin" / "rex-rpc").symlink_to(program)
login = folder / "login"
login.write_text(f'#!/bin/sh\\nexport HOME={folder} XDG_RUNTIME_DIR={folder.parent}/run PATH={folder}/bin:$PATH\\nexec /bin/sh -c "$SSH_ORIGINAL_COMMAND"\\n')
login.chmod(0o755)
server = ssh_server.SshServer(folder, login=login)
subprocess.run(["ssh-keygen", "-p", "-P", "", "-N", "open sesame", "-f", folder / "key"], check=True, stdout=sys.stderr)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
print(json.dumps(server.client("locked")["PATH"]), flush=True)
signal.sigwait({signal.SIGTERM})
server.close()`;

/** A real sshd, known as \`locked\` through the PATH that this gives; its key has a passphrase. */
async function lockedHost(folder) {
  const env = { ...process.env, PYTHONPATH: join(dirname(fileURLToPath(import.meta.url)), "../../../tests/support") };
  sshd = spawn("python3", ["-c", sshServer, join(folder, "ssh"), program], { env, stdio: ["ignore", "pipe", "ignore"] });
  let said = "";
  for await (const data of sshd.stdout) {
    said += data;
    if (said.includes("\n")) break;
  }
  return JSON.parse(said);
}

/** How often each method has been called by the extension so far. */
function counts() {
  const all = {};
  for (const [, method] of readFileSync(log, "utf8").matchAll(/"method":"([^"]+)"/g)) all[method] = (all[method] ?? 0) + 1;
  return all;
}

before(async () => {
  code = await Workbench.open(async (folder) => {
    log = join(folder, "requests");
    writeFileSync(log, "");
    const spy = join(folder, "rex-rpc");
    writeFileSync(spy, `#!/bin/sh\nexport PATH=${await lockedHost(folder)}\ntee -a ${log} | exec ${program} "$@"\n`, { mode: 0o755 });
    mkdirSync(join(folder, "home/.config/rex-rpc"), { recursive: true });
    // Each host finds the same file, so that far/far is two hops away.
    const far = { argv: ["sh", "-c", `echo $$ >>${folder}/far; exec ${program} --private`] };
    const locked = { url: "ssh://locked", install: false };
    writeFileSync(join(folder, "home/.config/rex-rpc/hosts.json"), JSON.stringify({ hosts: { far, locked } }));
    const task = { label: "far task", type: "rex", host: "far", command: `touch ${folder}/done; exit 4`, problemMatcher: [] };
    mkdirSync(join(folder, "workspace/.vscode"));
    writeFileSync(join(folder, "workspace/.vscode/tasks.json"), JSON.stringify({ version: "2.0.0", tasks: [task] }));
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

check("a terminal two hosts away says with what it has ended", async () => {
  await code.command("Rex: Connect to Host…");
  await code.pick("Connect to a host", "far");
  await code.command("Rex: Connect to Host…");
  await code.pick("Connect to a host", "far/far");
  await code.command("Rex: New Terminal…");
  await code.pick("A terminal on", "far/far");
  await code.pick("New, or attach to", "A new session");
  await code.terminalShows(/^\S*[#$]\s*$/); // a prompt alone: the new one
  await code.typeIntoTerminal("echo two hops: $((40+2)); exit 3\n");
  await code.page.locator(".notification-toast").filter({ hasText: /exit code: 3/ }).waitFor();
});

check("a terminal goes on when the instance between it and its session is killed", async () => {
  await code.command("Rex: New Terminal…");
  await code.pick("A terminal on", "far/far");
  await code.pick("New, or attach to", "A new session");
  await code.terminalShows(/^\S*[#$]\s*$/); // a prompt alone: the new one
  await code.typeIntoTerminal("PLACE=kept\n");
  await code.terminalShows(/PLACE=kept/);
  const far = readFileSync(join(code.folder, "far"), "utf8").trim().split("\n").find((pid) => existsSync(`/proc/${pid}`));
  process.kill(Number(far), "SIGKILL");
  await code.until(async () => {
    await code.typeIntoTerminal("echo it was $PLACE\n"); // what is typed meanwhile may be refused
    await code.page.waitForTimeout(1000);
    return /^it was kept$/m.test(await code.terminalText());
  }, () => code.terminalText());
  await code.picture("lost-host");
  await code.typeIntoTerminal("exit\n");
});

check("a host that asks for a passphrase is answered in a masked box", async () => {
  await code.command("Rex: Connect to Host…");
  await code.pick("Connect to a host", "locked");
  const question = code.question("locked: passphrase of a key");
  await question.waitFor();
  assert.equal(await question.locator("input").getAttribute("type"), "password");
  await code.picture("passphrase");
  await code.answer("locked: passphrase of a key", "open sesame");
  await code.command("View: Show rex-rpc");
  await code.page.locator(".monaco-list-row").filter({ hasText: /^lockedready/ }).waitFor();
});

check("a file two hosts away is opened by a stat and a read, and saved by one write", async () => {
  const path = join(code.folder, "note.txt");
  writeFileSync(path, "first line\n");
  const before = counts();
  await code.command("Rex: Open File on Host…");
  await code.pick("Open a file on", "far/far");
  await code.answer("Open a file on", path);
  const editor = code.page.locator(".monaco-editor[data-uri^='rex://far~far/']");
  await editor.locator(".view-line").filter({ hasText: "first" }).waitFor();
  const opened = counts();
  await editor.locator(".view-line").first().click();
  await code.page.keyboard.press("Control+Home");
  await code.page.keyboard.type("edited ");
  await code.picture("file");
  await code.page.keyboard.press("Control+s");
  await code.until(() => readFileSync(path, "utf8") === "edited first line\n", () => readFileSync(path, "utf8"));
  const saved = counts();
  const of = (method, from, to) => (to[method] ?? 0) - (from[method] ?? 0);
  assert.equal(of("file/read", before, opened), 1);
  assert.equal(of("file/write", opened, saved), 1);
  assert.equal(of("file/read", opened, saved), 0);
  console.log(`stats to open: ${of("file/stat", before, opened)}, to save: ${of("file/stat", opened, saved)}`);
});

check("a save does not go over another writer's", async () => {
  const path = join(code.folder, "note.txt");
  const editor = code.page.locator(".monaco-editor[data-uri^='rex://far~far/']");
  await editor.locator(".view-line").first().click();
  await code.page.keyboard.type("mine ");
  writeFileSync(path, "theirs\n");
  await code.page.keyboard.press("Control+s");
  await code.page.locator(".notification-toast").filter({ hasText: /newer|changed by somebody else/ }).waitFor();
  assert.equal(readFileSync(path, "utf8"), "theirs\n");
  await code.picture("conflict");
  await code.command("File: Revert File");
  await editor.locator(".view-line").filter({ hasText: "theirs" }).waitFor();
});

check("an agent's session is watched, taken over, and handed back", async (t) => {
  const agent = await Rex.spawn({ command: program, env: code.env });
  t.after(() => agent.close());
  const session = await agent.createSession({ session: "deploy" });
  const asks = await session.run("echo building; read -p 'Deploy to production? ' answer; echo you said $answer");
  assert.equal(asks.state, "waitingInput");
  await code.command("View: Show rex-rpc");
  const row = code.page.locator(".monaco-list-row").filter({ hasText: "waits for input: Deploy to production?" });
  await row.first().waitFor(); // the hosts of these tests are all this machine, and each shows it
  await row.first().click();
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

check("a search's results open at their lines", async () => {
  const folder = join(code.folder, "tree");
  mkdirSync(folder);
  for (const name of ["a.txt", "b.txt"]) writeFileSync(join(folder, name), "nothing\nthe needle is here\n");
  await code.command("Rex: Search on Host…");
  await code.pick("Search", "far/far");
  await code.answer("Search far/far", folder);
  await code.answer(`Search far/far:${folder}`, "needle");
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
    await code.page.waitForTimeout(3000); // a time in which nothing is to happen has no event to wait for
    return size() === before;
  }, () => readFileSync(log, "utf8").slice(-1000));
});

check("a task runs on its host and says how it ended", async () => {
  await code.command("Tasks: Run Task");
  await code.pick("", "far task");
  await code.until(() => existsSync(join(code.folder, "done")));
  await code.terminalShows(/exit code: 4/);
});

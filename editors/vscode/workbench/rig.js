// VS Code's workbench, as code-server serves it, in a real browser, with the packaged extension installed; and what a
// person does there. Knows nothing of what is tested.
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const here = dirname(fileURLToPath(import.meta.url));
const root = join(here, "../../..");
export const program = process.env.REX_RPC ?? join(root, "build/release/rex-rpc");
const entry = join(root, "build/code-server/node_modules/code-server/out/node/entry.js");
const pictures = join(root, "build/pictures");
/** The one patience, in ms: for the machine, not for us. */
export const patience = 1000 * Number(process.env.REX_TEST_DEADLINE ?? 60);

async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** One server, one browser and one window; `close` ends all of it. */
export class Workbench {
  /** `prepare` gets the folder and gives settings. */
  static async open(prepare = () => ({})) {
    const self = new Workbench();
    self.folder = mkdtempSync(join(tmpdir(), "rex-code-"));
    self.workspace = join(self.folder, "workspace");
    for (const name of ["workspace", "home", "run", "user/User", "extensions"]) mkdirSync(join(self.folder, name), { recursive: true });
    spawnSync("chmod", ["700", join(self.folder, "run")]);
    self.env = {
      ...process.env,
      HOME: join(self.folder, "home"),
      XDG_RUNTIME_DIR: join(self.folder, "run"),
      SHELL: "/bin/bash",
      EXTENSIONS_GALLERY: '{"serviceUrl":""}',
    };
    for (const name of Object.keys(self.env)) if (/^(VSCODE|XDG_(CONFIG|DATA|CACHE))_/.test(name)) delete self.env[name];
    const all = {
      "rex.command": program,
      "telemetry.telemetryLevel": "off",
      "workbench.startupEditor": "none",
      "workbench.tips.enabled": false,
      "chat.commandCenter.enabled": false,
      "security.workspace.trust.enabled": false,
      "terminal.integrated.gpuAcceleration": "off",
      "files.autoSave": "off",
      "workbench.editorLargeFileConfirmation": 1000,
      ...(await prepare(self.folder)),
    };
    writeFileSync(join(self.folder, "user/User/settings.json"), JSON.stringify(all));
    const common = ["--user-data-dir", join(self.folder, "user"), "--extensions-dir", join(self.folder, "extensions")];
    const vsix = join(here, "../dist/rex-rpc.vsix");
    const installed = spawnSync(process.execPath, [entry, ...common, "--install-extension", vsix], { env: self.env, encoding: "utf8" });
    if (installed.status !== 0) throw new Error(`the extension is not installed: ${installed.stdout}${installed.stderr}`);
    const port = await freePort();
    const argv = ["--auth", "none", "--bind-addr", `127.0.0.1:${port}`, "--disable-telemetry", "--disable-update-check", "--disable-workspace-trust", ...common, self.workspace];
    self.server = spawn(process.execPath, [entry, ...argv], { env: self.env, stdio: ["ignore", "pipe", "pipe"], detached: true });
    let said = "";
    await new Promise((resolve, reject) => {
      const hear = (data) => ((said += data), /HTTP server listening/.test(said) && resolve());
      self.server.stdout.on("data", hear);
      self.server.stderr.on("data", hear);
      self.server.once("exit", () => reject(new Error(`code-server has ended: ${said}`)));
    });
    const args = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
    self.browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", headless: true, args });
    const context = await self.browser.newContext({ viewport: { width: 1280, height: 800 } });
    self.page = await context.newPage();
    self.page.setDefaultTimeout(patience);
    await self.page.addInitScript(() => {
      window.said = new Set(); // by notifications, also those that have gone again
      const look = () => document.querySelectorAll(".notification-list-item-message").forEach((each) => window.said.add(each.textContent));
      new MutationObserver(look).observe(document, { subtree: true, childList: true, characterData: true });
      window.lively = { ticks: 0, pause: 0, last: performance.now() };
      setInterval(() => {
        const now = performance.now();
        window.lively.ticks += 1;
        window.lively.pause = Math.max(window.lively.pause, now - window.lively.last);
        window.lively.last = now;
      }, 20);
    });
    self.origin = `http://127.0.0.1:${port}`;
    await self.visit(`folder=${self.workspace}`);
    return self;
  }

  /** Loads the window with a folder or a workspace, as the editor's own address says it. */
  async visit(what) {
    await this.page.goto(`${this.origin}/?${what}`, { waitUntil: "domcontentloaded" });
    await this.ready();
  }

  /** The window is there, and the extension in it. */
  async ready() {
    await this.page.waitForSelector(".monaco-workbench");
    await this.page.waitForSelector('.statusbar-item:has-text("rex")');
  }

  async reload() {
    await this.page.reload({ waitUntil: "domcontentloaded" });
    await this.ready();
  }

  async picture(name) {
    mkdirSync(pictures, { recursive: true });
    await this.page.screenshot({ path: join(pictures, `vscode-${name}.png`) });
  }

  /** Runs a command of the palette by its whole title. */
  async command(title) {
    await this.page.keyboard.press("F1");
    const input = this.page.locator(".quick-input-widget input");
    await input.waitFor();
    await input.fill(`>${title}`);
    const row = this.page.locator(`.quick-input-list .monaco-list-row[aria-label^="${title}"]`).first();
    await row.click();
    await row.waitFor({ state: "hidden" }); // the list may keep it, out of sight
  }

  /** The question that is open, by a part of its title or prompt. */
  question(text) {
    return this.page.locator(".quick-input-widget:visible").filter({ hasText: text });
  }

  async answer(text, value) {
    const question = this.question(text);
    await question.waitFor();
    await question.locator("input").fill(value);
    await this.page.keyboard.press("Enter");
  }

  async pick(title, row) {
    const question = this.question(title);
    await question.waitFor();
    const rows = question.locator(".monaco-list-row");
    let found = -1;
    await this.until(async () => {
      const labels = await rows.evaluateAll((all) => all.map((each) => each.querySelector(".label-name")?.textContent?.trim()));
      found = labels.indexOf(row);
      return found >= 0;
    });
    await rows.nth(found).click();
  }

  /** The rows of the terminal that is shown, as text. */
  async terminalText() {
    const rows = await this.page.locator(".xterm-rows:visible > div").allTextContents();
    return rows.map((row) => row.replaceAll("\u00a0", " ").trimEnd()).join("\n");
  }

  async terminalShows(pattern) {
    await this.until(async () => pattern.test(await this.terminalText()), () => this.terminalText());
  }

  async typeIntoTerminal(text) {
    await this.page.locator(".xterm:visible .xterm-helper-textarea").first().focus();
    await this.page.keyboard.type(text);
  }

  /** Waits until a notification has said it, be it gone again by now. */
  async wasSaid(pattern) {
    const all = () => this.page.evaluate(() => [...window.said]);
    await this.until(async () => (await all()).some((text) => pattern.test(text)), async () => (await all()).join("; "));
  }

  /** How often the window came to do something while `work` went on, and its longest pause meanwhile, in ms. Where VS Code
   * loads its window anew for that work, it counts from there. */
  async liveliness(work) {
    await this.page.evaluate(() => Object.assign(window.lively, { ticks: 0, pause: 0, last: performance.now() }));
    await work();
    return this.page.evaluate(() => window.lively);
  }

  /** A row of a list or tree that has this text. */
  row(hasText) {
    return this.page.locator(".monaco-list-row").filter({ hasText }).first();
  }

  /** Takes away what would lie over a picture. */
  async calm() {
    await this.command("Notifications: Clear All Notifications");
  }

  /** Asks until it is so; `state` is told when it never is. */
  async until(isSo, state = () => "") {
    for (const end = Date.now() + patience; ; ) {
      if (await isSo()) return;
      if (Date.now() > end) throw new Error(`it did not come to be so: ${await state()}`);
      await this.page.waitForTimeout(50);
    }
  }

  /** What outlives the window, here and on hosts, each of which has a folder of its own below ours. */
  endSessions() {
    const run = join(this.folder, "run");
    const all = [run, ...readdirSync(run).map((name) => join(run, name))];
    for (const runtime of all.filter((each) => existsSync(join(each, "rex-rpc")))) {  // else it would be the user's own
      const env = { ...this.env, XDG_RUNTIME_DIR: runtime };
      const { stdout } = spawnSync(program, ["sessions", "--json"], { env, encoding: "utf8" });
      for (const { instance, session } of JSON.parse(stdout || "[]")) spawnSync(program, ["kill", `${instance}/${session}`], { env });
    }
  }

  async close() {
    await this.browser?.close();
    if (this.server?.exitCode === null) {
      const gone = new Promise((resolve) => this.server.once("exit", resolve));
      process.kill(-this.server.pid, "SIGTERM");
      await gone;
    }
    this.endSessions();
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
  }
}

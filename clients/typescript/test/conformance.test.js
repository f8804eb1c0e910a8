// The client does what tests/conformance asks of every client, whatever its server sends, and however it ends.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

test("every exchange of the kit is followed", () => {
  const here = dirname(fileURLToPath(import.meta.url));
  const argv = [join(here, "../../../tests/conformance/client.py"), process.execPath, join(here, "driver.js")];
  const { status, stdout } = spawnSync("python3", argv, { encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] });
  assert.equal(status, 0, stdout);
  assert.doesNotMatch(stdout, /the driver cannot/);
});

// Where something is, as a URI's authority and back, and what of a terminal's past may be shown again. Pure text.

/** `rex://bastion~gpu/path`: an authority has no slash, and no host's name has a tilde. */
export function authorityOf(host: string): string {
  return host.replaceAll("/", "~");
}

export function hostOf(authority: string): string {
  return authority.replaceAll("~", "/");
}

/** A host as people read it. */
export function labelOf(host: string): string {
  return host === "" ? "this machine" : host;
}

/** `a/b/c` → `a`, `a/b`, `a/b/c`. */
export function prefixesOf(host: string): string[] {
  const names = host.split("/").filter((name) => name !== "");
  return names.map((_, i) => names.slice(0, i + 1).join("/"));
}

/** How instances are called, which stand for the programs of agents and people. */
export const instanceName = /^\d+-[0-9a-f]+$/;

// What asks a terminal something: DSR, DA, DECRQM, XTVERSION, window reports, colours, DECRQSS and XTGETTCAP.
const questions =
  /\x1b\[[?>=]?[\d;]*[nc]|\x1b\[\??[\d;]*\$p|\x1b\[>[\d;]*q|\x1b\[(?:1[1-9]|2[01])(?:;\d+)*t|\x1b\][\d;]*\?(?:\x07|\x1b\\)|\x1bP[$+]q[^\x1b]*\x1b\\/g;

/** Output of before, for a terminal that must not answer now what was asked, and answered, then. */
export function withoutQuestions(text: string): string {
  return text.replace(questions, "");
}

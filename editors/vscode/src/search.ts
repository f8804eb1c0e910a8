// Searching a host's files: the question, and the tree of what was found.
import * as vscode from "vscode";
import type { SearchMatch } from "rex-rpc";
import { authorityOf, labelOf } from "./address";
import { Emitter } from "./event";
import type { Link } from "./link";

type Found = { uri: vscode.Uri; matches: SearchMatch[] } | { uri: vscode.Uri; match: SearchMatch };

export class Results implements vscode.TreeDataProvider<Found> {
  private readonly changes = new Emitter<void>();
  readonly onDidChangeTreeData = this.changes.event;
  private files: Found[] = [];

  getTreeItem(found: Found): vscode.TreeItem {
    if ("matches" in found) {
      const item = new vscode.TreeItem(found.uri, vscode.TreeItemCollapsibleState.Expanded);
      item.description = `${vscode.workspace.asRelativePath(found.uri.path)} · ${found.matches.length}`;
      item.iconPath = vscode.ThemeIcon.File;
      return item;
    }
    const { match, uri } = found;
    const item = new vscode.TreeItem((match.text ?? "").trim());
    item.description = String(match.line ?? "");
    const line = Math.max((match.line ?? 1) - 1, 0);
    const [from, to] = match.textBytes === undefined ? this.columns(match) : [0, 0];
    const selection = new vscode.Range(line, from, line, to);
    item.command = { command: "vscode.open", title: "Open", arguments: [uri, { selection }] };
    return item;
  }

  /** Offsets in the file, in bytes, as columns of the line, in UTF-16 units. */
  private columns({ text = "", offset = 0, from = 0, to = 0, cut }: SearchMatch): [number, number] {
    if (cut?.before) return [0, 0];
    const bytes = Buffer.from(text);
    const column = (at: number) => bytes.subarray(0, at - offset).toString().length;
    return [column(from), column(to)];
  }

  getChildren(found?: Found): Found[] {
    if (!found) return this.files;
    return "matches" in found ? found.matches.map((match) => ({ uri: found.uri, match })) : [];
  }

  set(host: string, matches: SearchMatch[]): void {
    const files = new Map<string, SearchMatch[]>();
    for (const match of matches) {
      if (match.path !== undefined) files.set(match.path, [...(files.get(match.path) ?? []), match]);
    }
    this.files = [...files].map(([path, found]) => {
      return { uri: vscode.Uri.from({ scheme: "rex", authority: authorityOf(host), path }), matches: found };
    });
    this.changes.fire();
  }
}

/** Asks what, searches where, cancellable, and shows it; says what was left out. */
export async function search(link: Link, results: Results, view: vscode.TreeView<unknown>, host: string, path: string) {
  const pattern = await vscode.window.showInputBox({ title: `Search ${labelOf(host)}:${path}`, prompt: "An RE2 pattern; (?i) ignores case" });
  if (!pattern) return;
  const location = vscode.ProgressLocation.Notification;
  const answer = await vscode.window.withProgress({ location, title: `Searching ${path}`, cancellable: true }, async (_, token) => {
    const abort = new AbortController();
    token.onCancellationRequested(() => abort.abort());
    const rex = await link.reach(host);
    return rex.call("file/search", { host, path, pattern }, { signal: abort.signal }).catch((error: unknown) => {
      if (!token.isCancellationRequested) throw error;
    });
  });
  if (!answer) return;
  results.set(host, answer.matches);
  const more = answer.truncated ? ", and there are more" : "";
  view.message = `${answer.matches.length} lines for “${pattern}”${more}; ${answer.files} files on ${labelOf(host)}:${path}, ${answer.unreadable} not readable`;
  await vscode.commands.executeCommand("rex.results.focus");
}

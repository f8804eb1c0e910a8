// A terminal of the editor on one session: what it wrote, from the past on, what is typed, its size, title and end. Needs
// of the editor only the shape of its terminals.
import { RexError, type Attachment, type HostStatusParams, type Rex, type Session, type SessionEventParams } from "rex-rpc";
import type { Pseudoterminal, TerminalDimensions } from "vscode";
import { instanceName, labelOf, withoutQuestions } from "./address";
import { Emitter } from "./event";

/** How much of a session's past is shown to who comes to it. */
const replayBytes = 1 << 20;

export interface Opening {
  session: Session;
  /** The instance it is reached by. */
  rex: Rex;
  /** Ours to type into and to end; else somebody else's, to watch. */
  own: boolean;
}

export class SessionTerminal implements Pseudoterminal {
  private readonly writes = new Emitter<string>();
  private readonly closes = new Emitter<number | void>();
  private readonly names = new Emitter<string>();
  private readonly sizes = new Emitter<TerminalDimensions | undefined>();
  readonly onDidWrite = this.writes.event;
  readonly onDidClose = this.closes.event;
  readonly onDidChangeName = this.names.event;
  readonly onDidOverrideDimensions = this.sizes.event;

  session: Session | undefined;
  own = true;
  private attachment: Attachment | undefined;
  private typing = false;
  private wish: boolean | undefined; // to type or to watch, said before there was a session
  private early = ""; // typed before there was a session
  private next = -1; // behind what was shown; negative: nothing was
  private size: TerminalDimensions | undefined;
  private exitCode: number | undefined;
  private broken = false;
  private cut = false; // its link is dialled again just now
  private deaf: () => void = () => {}; // to news of hosts
  private shut = false;

  /**
   * `opening` gives the session, and again after a loss; `opened` is told once it is there; `hint` tells a person who
   * types where they only watch.
   */
  constructor(
    private readonly opening: (size: TerminalDimensions | undefined) => Promise<Opening>,
    private readonly opened: (terminal: SessionTerminal) => void = () => {},
    private readonly hint: () => void = () => {},
  ) {}

  get isTyping(): boolean {
    return this.typing;
  }

  open(size: TerminalDimensions | undefined): void {
    this.size = size;
    void this.start();
  }

  private async start(): Promise<void> {
    this.broken = false;
    try {
      const { session, rex, own } = await this.opening(this.size);
      this.session = session;
      this.deaf();
      this.deaf = rex.on("host/status", (status) => this.hearLink(status));
      this.own = own;
      this.opened(this);
      await this.attach(this.wish ?? own, this.wish === true);
      const early = this.early;
      this.early = "";
      if (early !== "") this.handleInput(early);
    } catch (error) {
      this.fail(error);
    }
  }

  /** Follows the session from where we are; whoever may type also says its size. */
  private async attach(typing: boolean, takeover: boolean): Promise<void> {
    const session = this.session!;
    const info = await session.info();
    if (this.next < 0) this.next = Math.max(info.oldest, info.next - replayBytes);
    const role = typing ? ("writer" as const) : ("observer" as const);
    const how = { offset: Math.max(this.next, info.oldest), role, newline: "terminal" as const, ...(takeover && { takeover }) };
    let attachment: Attachment;
    try {
      attachment = await session.attach(how, (event) => this.hear(event));
    } catch (error) {
      if (!(error instanceof RexError && error.type === "NotWriter" && this.own)) throw error;
      return this.attach(false, false); // somebody else types into it just now
    }
    this.attachment = attachment;
    this.typing = typing;
    this.fit(info.rows, info.cols);
    void this.show(attachment, info.next);
  }

  private fit(rows: number | null, columns: number | null): void {
    if (!this.typing) {
      this.sizes.fire(rows && columns ? { rows, columns } : undefined);
    } else {
      this.sizes.fire(undefined);
      if (this.size) this.setDimensions(this.size);
    }
  }

  private async show(attachment: Attachment, past: number): Promise<void> {
    try {
      for await (const { text, next, gap } of attachment) {
        if (this.attachment !== attachment) return;
        this.goesOn();
        if (gap) this.tell(`${gap.to - gap.from} bytes of output are no longer kept`);
        this.writes.fire(next <= past ? withoutQuestions(text) : text);
        this.next = next;
      }
    } catch (error) {
      if (this.attachment === attachment) this.fail(error);
      return;
    }
    if (this.attachment === attachment && !this.shut) await this.end();
  }

  /** The session has ended: of our own, closing it tells how. */
  private async end(): Promise<void> {
    if (this.own) {
      const closed = await this.session!.close().catch(() => undefined);
      this.exitCode = closed?.exitCode ?? this.exitCode;
    }
    this.shut = true;
    this.closes.fire(this.exitCode);
  }

  /** What is lost and dialled again goes on by itself; a person is told why nothing comes meanwhile. */
  private hearLink({ host = "", state, detail = "", retryMs }: HostStatusParams): void {
    const isOurs = `${this.session!.host}/`.startsWith(`${host}/`);
    const isOver = state !== "lost" || retryMs === undefined || instanceName.test(host.slice(host.lastIndexOf("/") + 1));
    if (!isOurs || isOver || !this.attachment || this.cut) return;
    this.cut = true;
    this.tell(`host ${host} is lost: ${detail}; it goes on by itself once that is there again`);
  }

  private goesOn(): void {
    if (this.cut) this.tell("it goes on");
    this.cut = false;
  }

  private hear(event: SessionEventParams): void {
    this.goesOn();
    if (event.event === "title" && event.title) this.names.fire(event.title);
    if (event.event === "shellExited") this.exitCode = event.exitCode;
    if (event.event === "writerChanged" && this.typing) {
      void this.session!.info().then((info) => this.typing && !info.writer && this.tell("nobody types here now"), () => {});
    }
  }

  private tell(text: string): void {
    this.writes.fire(`\r\n\x1b[2m[rex: ${text.replace(/\n/g, "\r\n")}]\x1b[0m\r\n`);
  }

  private fail(error: unknown): void {
    if (this.shut) return;
    this.broken = true;
    this.cut = false;
    this.typing = false;
    this.attachment = undefined;
    const where = labelOf(this.session?.host ?? "");
    this.tell(`${error instanceof Error ? error.message : String(error)} (${where}). Press Enter to try again.`);
  }

  handleInput(data: string): void {
    if (this.broken) {
      if (data === "\r") void this.start();
    } else if (!this.attachment) {
      this.early += data;
    } else if (this.typing) {
      void this.session!.write(data).catch((error: unknown) => this.refused(error));
    } else if (!data.startsWith("\x1b")) {
      this.hint();
    }
  }

  private refused(error: unknown): void {
    if (!(error instanceof RexError)) return;
    if (error.type === "NotWriter") {
      this.typing = false;
      this.tell("somebody else has taken over; this terminal watches");
    } else if (error.type !== "SessionEnded" && error.type !== "ConnectionClosed" && error.type !== "HostLost") {
      this.tell(error.message);
    }
  }

  setDimensions(size: TerminalDimensions): void {
    this.size = size;
    if (this.typing) void this.session!.resize(size.rows, size.columns).catch(() => {});
  }

  /** Types from now on, whoever did before, or watches again. */
  async type(typing: boolean): Promise<void> {
    const before = this.attachment;
    this.wish = typing;
    if (!before || typing === this.typing) return;
    this.attachment = undefined;
    await before.detach();
    await this.attach(typing, typing).catch((error: unknown) => this.fail(error));
  }

  /** The editor's terminal has gone. The session goes on: whether it ends is known to who knows why. */
  close(): void {
    this.shut = true;
    this.deaf();
    void this.attachment?.detach();
  }
}

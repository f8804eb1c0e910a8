// An event as the editor's API has them, so that what fires one needs no editor to be tested.
import type { Disposable, Event } from "vscode";

export class Emitter<T> {
  private readonly listeners = new Set<(value: T) => unknown>();

  readonly event: Event<T> = (listener, self?: unknown, disposables?: Disposable[]) => {
    const heard = (value: T) => listener.call(self, value);
    this.listeners.add(heard);
    const disposable = { dispose: () => void this.listeners.delete(heard) };
    disposables?.push(disposable);
    return disposable;
  };

  fire(value: T): void {
    for (const listener of [...this.listeners]) listener(value);
  }
}

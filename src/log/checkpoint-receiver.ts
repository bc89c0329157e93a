import type { CheckpointStore } from "./checkpoint-keeper.ts";

const TIMEOUT_MS = 10_000;

/**
 * Receiver of checkpoints over HTTP. Each is the body of a POST, `text/plain`, with the token as `Authorization: Bearer`. A status
 * of 2xx says that it is kept; redirects are not followed. A checkpoint may arrive twice, after a fault or a restart.
 */
export class CheckpointReceiver implements CheckpointStore {
  readonly name: string;
  readonly #url: URL;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #timeoutMs: number;

  /** `timeoutMs` bounds one POST; default 10 seconds. */
  constructor(url: URL, token: string | undefined, timeoutMs = TIMEOUT_MS) {
    // A path may be a secret.
    this.name = url.origin;
    this.#url = url;
    this.#headers = {
      "content-type": "text/plain; charset=utf-8",
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
    };
    this.#timeoutMs = timeoutMs;
  }

  /** Asks nothing: the receiver gets the checkpoints of this moment first. */
  async open(): Promise<ReadonlyMap<string, number>> {
    return new Map();
  }

  async keep(note: string): Promise<void> {
    const signal = AbortSignal.timeout(this.#timeoutMs);
    const request = { method: "POST", headers: this.#headers, body: note, redirect: "manual", signal } as const;
    const { status, ok, body } = await fetch(this.#url, request).catch((error: Error) => {
      throw new Error(`the receiver did not answer: ${(error.cause as Error | undefined)?.message ?? error.message}`);
    });
    // Its text is of no use, and may be endless.
    await body?.cancel().catch(() => undefined);
    if (!ok) throw new Error(`the receiver answered with status ${status}`);
  }
}

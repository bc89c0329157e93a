import { type BackOffOptions, createBackOff } from "../async/back-off.ts";
import { upstreamUnavailable } from "./endpoint.ts";

/** Back-off before an ended child is started again: from a quarter of a second on. */
const BACK_OFF: BackOffOptions = { firstMs: 500, maxMs: 30_000 };
/** Milliseconds of life after which a child's back-off begins again. */
const STABLE_MS = 60_000;

/** Delays the next start of an ended child, with back-off. */
export class RestartDelay {
  readonly #backOff = createBackOff(BACK_OFF);
  #notBefore = 0;

  /** Throws MCP_UPSTREAM_UNAVAILABLE while the server may not be started again. */
  assertOver(server: string): void {
    const waitMs = this.#notBefore - performance.now();
    if (waitMs <= 0) return;
    const seconds = Math.ceil(waitMs / 1000);
    throw upstreamUnavailable(server, `ended unexpectedly and starts again in ${seconds} s at the earliest`);
  }

  /** Records the end of a child. `startedAt` is a time of `performance.now()`. */
  ended(startedAt: number): void {
    if (performance.now() - startedAt > STABLE_MS) this.#backOff.reset();
    this.#notBefore = performance.now() + this.#backOff.next();
  }
}

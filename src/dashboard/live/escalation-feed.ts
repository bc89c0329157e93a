import { type Client, Code, ConnectError } from "@connectrpc/connect";
import {
  type Escalation,
  EscalationChange,
  type EscalationService,
  EscalationStatus,
  type WatchEscalationsResponse,
} from "../../../gen/agentcontrol/v1/escalation_service_pb.js";

/** What the feed knows now. A new object after every change. */
export interface EscalationsNow {
  /** True while the stream delivers. */
  readonly isLive: boolean;
  /** Pending ones, oldest first. */
  readonly pending: readonly Escalation[];
  /** Those that were resolved while the page was open, newest first. */
  readonly resolved: readonly Escalation[];
}

/** Hears of an escalation that was created while the stream was live. */
type OnCreated = (escalation: Escalation) => void;

const MAX_RESOLVED = 50;
const FIRST_RETRY_MS = 250;
const MAX_RETRY_MS = 10_000;
/** Without a heartbeat for so long the connection is taken for dead, milliseconds. */
const MAX_SILENCE_MS = 45_000;

const createdAt = ({ createdAt: at }: Escalation): number => Number(at?.seconds ?? 0n) * 1_000 + (at?.nanos ?? 0) / 1e6;

/**
 * Follows every escalation of the workspace on one stream, over interruptions. Changes of one frame are told together, so that a
 * long backlog costs one drawing.
 */
export class EscalationFeed {
  readonly #client: Client<typeof EscalationService>;
  readonly #listeners = new Set<() => void>();
  readonly #createdListeners = new Set<OnCreated>();
  readonly #pending = new Map<string, Escalation>();
  #resolved: readonly Escalation[] = [];
  #now: EscalationsNow = { isLive: false, pending: [], resolved: [] };
  #isLive = false;
  #isStale = false;
  #cursor = "";

  constructor(client: Client<typeof EscalationService>) {
    this.#client = client;
  }

  /** Begins to follow. Returns the function that ends it. */
  start(): () => void {
    const stop = new AbortController();
    void this.#follow(stop.signal);
    return () => stop.abort();
  }

  get now(): EscalationsNow {
    return this.#now;
  }

  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  onCreated(listener: OnCreated): () => void {
    this.#createdListeners.add(listener);
    return () => this.#createdListeners.delete(listener);
  }

  /** Takes an escalation that a call answered with, without waiting for the stream. */
  take(escalation: Escalation | undefined): void {
    if (escalation === undefined) return;
    this.#put(escalation);
    this.#tell();
  }

  async #follow(signal: AbortSignal): Promise<void> {
    let retryMs = FIRST_RETRY_MS;
    while (!signal.aborted) {
      const connection = new AbortController();
      const end = (): void => connection.abort();
      signal.addEventListener("abort", end);
      let silence = setTimeout(end, MAX_SILENCE_MS);
      try {
        for await (const message of this.#client.watchEscalations(
          { cursor: this.#cursor },
          { signal: connection.signal },
        )) {
          clearTimeout(silence);
          silence = setTimeout(end, MAX_SILENCE_MS);
          retryMs = FIRST_RETRY_MS;
          this.#receive(message);
        }
      } catch (error) {
        // A cursor beyond the end of the log: the service was set back. All is read anew.
        if (ConnectError.from(error).code === Code.InvalidArgument) this.#cursor = "";
      } finally {
        clearTimeout(silence);
        signal.removeEventListener("abort", end);
      }
      this.#setLive(false);
      if (!signal.aborted) await new Promise((resolve) => setTimeout(resolve, retryMs * (0.5 + Math.random() / 2)));
      retryMs = Math.min(MAX_RETRY_MS, retryMs * 2);
    }
  }

  #receive({ change, escalation, cursor }: WatchEscalationsResponse): void {
    if (this.#cursor === "" && this.#pending.size > 0) this.#pending.clear();
    this.#cursor = cursor;
    const wasLive = this.#isLive;
    if (change === EscalationChange.HEARTBEAT) this.#setLive(true);
    if (escalation === undefined) return;
    const isNew = change === EscalationChange.CREATED && !this.#pending.has(escalation.escalationId);
    this.#put(escalation);
    this.#tell();
    if (isNew && wasLive) for (const listener of this.#createdListeners) listener(escalation);
  }

  #put(escalation: Escalation): void {
    const { escalationId, status } = escalation;
    if (status === EscalationStatus.PENDING) {
      const isResolved = this.#resolved.some((each) => each.escalationId === escalationId);
      // A late answer does not bring back what was resolved since.
      if (!isResolved) this.#pending.set(escalationId, escalation);
      return;
    }
    this.#pending.delete(escalationId);
    const others = this.#resolved.filter((each) => each.escalationId !== escalationId);
    this.#resolved = [escalation, ...others].slice(0, MAX_RESOLVED);
  }

  #setLive(isLive: boolean): void {
    if (this.#isLive === isLive) return;
    this.#isLive = isLive;
    this.#tell();
  }

  #tell(): void {
    if (this.#isStale) return;
    this.#isStale = true;
    // A hidden page draws no frames, and its title still counts.
    const schedule = document.hidden ? (run: () => void) => setTimeout(run, 50) : requestAnimationFrame;
    schedule(() => {
      this.#isStale = false;
      const pending = [...this.#pending.values()].sort((a, b) => createdAt(a) - createdAt(b));
      this.#now = { isLive: this.#isLive, pending, resolved: this.#resolved };
      for (const listener of this.#listeners) listener();
    });
  }
}

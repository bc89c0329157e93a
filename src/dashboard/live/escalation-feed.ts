import { type Client, Code, ConnectError } from "@connectrpc/connect";
import {
  type Escalation,
  EscalationChange,
  type EscalationService,
  EscalationStatus,
  type WatchEscalationsResponse,
} from "../../../gen/agentcontrol/v1/escalation_service_pb.js";
import { followStream } from "../../client/follow-stream.ts";

/** State of the feed. Every change makes a new object. */
export interface EscalationsNow {
  /** True while the stream delivers. */
  readonly isLive: boolean;
  /** True once the stream delivered or failed a first time. */
  readonly isTried: boolean;
  /** Pending escalations, oldest first. */
  readonly pending: readonly Escalation[];
  /** Escalations resolved while the page was open, newest first. */
  readonly resolved: readonly Escalation[];
}

/** Called with each escalation that is created while the stream is live. */
type OnCreated = (escalation: Escalation) => void;

const MAX_RESOLVED = 50;
/** Milliseconds within which changes are reported together: one frame. */
const TOGETHER_MS = 16;
const PAUSES = { firstMs: 250, maxMs: 10_000 };

/** Returns the place of a state in the life of an escalation, which goes from pending over answered to used. */
const stepOf = ({ status, usedAt }: Escalation): number =>
  status === EscalationStatus.PENDING ? 0 : usedAt === undefined ? 1 : 2;

/** Returns the later of two states of one escalation; the second, which was read last, if both are of one step. */
export function laterOf(known: Escalation | undefined, read: Escalation | undefined): Escalation | undefined {
  if (known === undefined || read === undefined) return known ?? read;
  return stepOf(read) < stepOf(known) ? known : read;
}

const createdAt = ({ createdAt: at }: Escalation): number => Number(at?.seconds ?? 0n) * 1_000 + (at?.nanos ?? 0) / 1e6;

/**
 * Follows every escalation of the workspace on one stream and reconnects after interruptions. Changes close together
 * are reported at once, so that a long backlog costs one render.
 */
export class EscalationFeed {
  readonly #client: Client<typeof EscalationService>;
  readonly #listeners = new Set<() => void>();
  readonly #createdListeners = new Set<OnCreated>();
  readonly #pending = new Map<string, Escalation>();
  /** Number of messages that the stream has sent of each pending escalation. */
  readonly #told = new Map<string, number>();
  #resolved: readonly Escalation[] = [];
  #now: EscalationsNow = { isLive: false, isTried: false, pending: [], resolved: [] };
  #isLive = false;
  #isTried = false;
  #isStale = false;
  #cursor = "";

  constructor(client: Client<typeof EscalationService>) {
    this.#client = client;
  }

  /** Starts following. Returns the function that stops it. */
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

  /** Takes an escalation from the answer of a call, without waiting for the stream. */
  take(escalation: Escalation | undefined): void {
    if (escalation === undefined) return;
    this.#put(escalation);
    this.#tell();
  }

  /**
   * Returns the function that takes an escalation from the answer of a call that begins now. While it is pending, what the stream tells
   * of it meanwhile stands before the answer, which may be older: the stream has the order of the log, and tells of the call too.
   */
  answerTo(escalationId: string): (escalation: Escalation | undefined) => void {
    const told = this.#told.get(escalationId);
    return (escalation) => {
      const isOvertaken = this.#told.get(escalationId) !== told;
      if (escalation?.status !== EscalationStatus.PENDING || !isOvertaken) this.take(escalation);
    };
  }

  async #follow(signal: AbortSignal): Promise<void> {
    const messages = followStream({
      open: (ending) => this.#client.watchEscalations({ cursor: this.#cursor }, { signal: ending, timeoutMs: 0 }),
      signal,
      pauses: PAUSES,
      onLost: (fault) => {
        // A cursor beyond the end of the log: the service was restored to an earlier state, so everything is read anew.
        if (fault !== undefined && ConnectError.from(fault).code === Code.InvalidArgument) this.#cursor = "";
        this.#setLive(false);
      },
    });
    for await (const message of messages) this.#receive(message);
    this.#setLive(false);
  }

  #receive({ change, escalation, cursor }: WatchEscalationsResponse): void {
    if (this.#cursor === "" && this.#pending.size > 0) this.#pending.clear();
    this.#cursor = cursor;
    const wasLive = this.#isLive;
    if (change === EscalationChange.HEARTBEAT) this.#setLive(true);
    if (escalation === undefined) return;
    const { escalationId } = escalation;
    const isNew = change === EscalationChange.CREATED && !this.#pending.has(escalationId);
    this.#told.set(escalationId, (this.#told.get(escalationId) ?? 0) + 1);
    this.#put(escalation);
    this.#tell();
    if (!isNew || !wasLive) return;
    // The page reports a listener's exception; the stream and the other listeners go on.
    for (const listener of this.#createdListeners) queueMicrotask(() => listener(escalation));
  }

  #put(escalation: Escalation): void {
    const { escalationId, status } = escalation;
    if (status === EscalationStatus.PENDING) {
      const isResolved = this.#resolved.some((each) => each.escalationId === escalationId);
      // A late answer must not bring back an escalation that was resolved meanwhile.
      if (!isResolved) this.#pending.set(escalationId, escalation);
      return;
    }
    this.#pending.delete(escalationId);
    this.#told.delete(escalationId);
    const others = this.#resolved.filter((each) => each.escalationId !== escalationId);
    this.#resolved = [escalation, ...others].slice(0, MAX_RESOLVED);
  }

  #setLive(isLive: boolean): void {
    if (this.#isLive === isLive && this.#isTried) return;
    this.#isLive = isLive;
    this.#isTried = true;
    this.#tell();
  }

  #tell(): void {
    if (this.#isStale) return;
    this.#isStale = true;
    // Not an animation frame: a hidden page gets none, but its title still shows the count.
    setTimeout(() => {
      this.#isStale = false;
      const pending = [...this.#pending.values()].sort((a, b) => createdAt(a) - createdAt(b));
      this.#now = { isLive: this.#isLive, isTried: this.#isTried, pending, resolved: this.#resolved };
      for (const listener of this.#listeners) listener();
    }, TOGETHER_MS);
  }
}

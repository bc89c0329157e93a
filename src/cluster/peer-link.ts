import { connect, type Socket } from "node:net";
import type { Action, SealedDecision } from "../state/types.ts";
import {
  type Answer,
  type Appended,
  answerFrom,
  appendedFrom,
  createLineWriter,
  lineFromQuestion,
  readLines,
} from "./peer-lines.ts";

/** Milliseconds that a peer may take for an answer before it is given up: a process that hangs answers nobody. */
const PATIENCE_MS = 2_000;
/** Milliseconds between looks for answers that are overdue. */
const LOOK_MS = 500;

interface Waiting {
  readonly action: Action;
  readonly askedAt: number;
  resolve(sealed: SealedDecision | undefined): void;
  reject(error: unknown): void;
}

/** The connection to one peer. */
export interface PeerLink {
  /** False once the connection is lost. */
  readonly isUp: boolean;
  /** Resolves with undefined when the peer was lost before it answered. Rejects with what the peer failed with. */
  ask(workspaceId: string, action: Action): Promise<SealedDecision | undefined>;
  /** Asks no more, and closes when everything is answered. */
  retire(): void;
  close(): void;
}

/** What a connection tells of beside answers. */
export interface PeerLinkEvents {
  /** The peer appended to a log. MUST NOT throw. */
  onAppended(appended: Appended): void;
  /** Called once, when the connection is closed for whatever cause. */
  onLost(): void;
}

/** Connects to the peer that listens on a path. */
export function createPeerLink(path: string, events: PeerLinkEvents): PeerLink {
  return new SocketLink(path, events);
}

class SocketLink implements PeerLink {
  isUp = true;
  readonly #socket: Socket;
  readonly #send: (line: string) => void;
  readonly #timer: NodeJS.Timeout;
  // By the id of the question. Ids are used again: a map that grew and shrank with every action would cost more.
  readonly #waiting: (Waiting | undefined)[] = [];
  readonly #free: number[] = [];
  #isRetired = false;

  constructor(path: string, { onAppended, onLost }: PeerLinkEvents) {
    this.#socket = connect(path);
    this.#send = createLineWriter(this.#socket);
    readLines(this.#socket, (line) => {
      const appended = appendedFrom(line);
      if (appended === undefined) this.#onAnswer(answerFrom(line));
      else onAppended(appended);
    });
    // Whatever happened, `close` follows.
    this.#socket.on("error", () => undefined);
    this.#socket.once("close", () => {
      this.#onClose();
      onLost();
    });
    this.#timer = setInterval(() => this.#look(), LOOK_MS).unref();
  }

  ask(workspaceId: string, action: Action): Promise<SealedDecision | undefined> {
    if (!this.isUp) return Promise.resolve(undefined);
    return new Promise((resolve, reject) => {
      const id = this.#free.pop() ?? this.#waiting.length;
      this.#waiting[id] = { action, askedAt: performance.now(), resolve, reject };
      this.#send(lineFromQuestion({ id, workspaceId, action }));
    });
  }

  retire(): void {
    this.#isRetired = true;
    this.#closeIfDone();
  }

  close(): void {
    this.#socket.destroy();
  }

  #onAnswer(answer: Answer): void {
    const waiting = this.#waiting[answer.id];
    if (waiting === undefined) throw new Error(`nothing waits for answer ${answer.id}`);
    this.#waiting[answer.id] = undefined;
    this.#free.push(answer.id);
    if ("sealed" in answer) {
      const { decisionId, agentId, actionType } = waiting.action;
      waiting.resolve({ decisionId, agentId, actionType, ...answer.sealed });
    } else waiting.reject(answer.error);
    if (this.#isRetired) this.#closeIfDone();
  }

  #onClose(): void {
    this.isUp = false;
    clearInterval(this.#timer);
    for (const waiting of this.#waiting) waiting?.resolve(undefined);
    this.#waiting.length = 0;
  }

  #closeIfDone(): void {
    if (this.#free.length === this.#waiting.length) this.#socket.destroy();
  }

  #look(): void {
    const oldest = performance.now() - PATIENCE_MS;
    if (this.#waiting.some((waiting) => waiting !== undefined && waiting.askedAt < oldest)) this.#socket.destroy();
  }
}

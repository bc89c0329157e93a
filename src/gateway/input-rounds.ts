import { randomUUID } from "node:crypto";
import type { JsonObject } from "@bufbuild/protobuf";
import { inputRequired, ProtocolError, ProtocolErrorCode, type ServerContext } from "@modelcontextprotocol/server";
import { LRUCache } from "lru-cache";
import { isJsonObject, ownValue } from "../policy/json-value.ts";
import { digestOf } from "../tree/canonical.ts";
import type { WatchEnd } from "./endpoint.ts";

/** Milliseconds that a call waits for its client's answer, and maximum waiting calls of one session. */
const MAX_WAIT_MS = 600_000;
const MAX_WAITING = 64;
/** Methods whose result may ask for input. */
const METHODS: ReadonlySet<string> = new Set(["tools/call", "prompts/get", "resources/read"]);
/** Name of the one question of a round. */
const QUESTION = "input";

/** A client's request without the members of its generation. */
export interface CarriedRequest {
  readonly method: string;
  readonly params: JsonObject | undefined;
}

/** Sends a request to the server. `context` belongs to the client's current request. */
export type Carry = (
  request: CarriedRequest,
  signal: AbortSignal,
  context: () => ServerContext["mcpReq"],
) => Promise<JsonObject>;

/** A request of a server to its client. */
interface Question extends CarriedRequest {
  readonly answer: PromiseWithResolvers<JsonObject>;
}

/** A request in progress at the server, over one round or several. */
class Call {
  readonly digest: string;
  readonly ending = new AbortController();
  readonly questions: Question[] = [];
  context: ServerContext["mcpReq"];
  /** `requestState` with which the client continues the call while it waits. */
  state: string | undefined;
  /** Ends the watch over the caller's rights, which begins when the call waits. */
  unwatch: () => void = () => undefined;
  /** Never rejects unhandled: a call may end between two rounds. */
  readonly #result: Promise<JsonObject>;
  #onQuestion: () => void = () => undefined;

  constructor(request: CarriedRequest, context: ServerContext["mcpReq"], carry: Carry) {
    this.digest = digestOfCall(request);
    this.context = context;
    this.#result = carry(request, this.ending.signal, () => this.context);
    this.#result.catch(() => undefined);
  }

  ask(question: Question): void {
    this.questions.push(question);
    this.#onQuestion();
  }

  /** Resolves with the result, or with undefined once the server asks a question. */
  async next(): Promise<JsonObject | undefined> {
    if (this.questions.length > 0) return undefined;
    const asked = new Promise<undefined>((resolve) => {
      this.#onQuestion = () => resolve(undefined);
    });
    return Promise.race([this.#result, asked]);
  }

  end(reason: unknown): void {
    this.ending.abort(reason);
    for (const { answer } of this.questions.splice(0)) answer.reject(reason);
  }
}

/**
 * Requests for input by a server with sessions to a stateless client, as multi-round-trip requests of 2026-07-28. The call stays
 * open at the server while its client answers, and continues with the request that brings the answer. It waits in this process,
 * only for the client that made it, and only for the same arguments.
 */
export class InputRounds {
  /** Calls at the server, the oldest first. */
  readonly #open = new Set<Call>();
  readonly #waiting = new LRUCache<string, Call>({
    max: MAX_WAITING,
    ttl: MAX_WAIT_MS,
    ttlAutopurge: true,
    dispose: (call, _state, reason) => {
      if (reason !== "delete") this.#end(call, new Error("the client did not answer in time"));
    },
  });

  /**
   * Serves one round of a request: the first one, or the round that its `requestState` continues. `watch` ends a waiting call
   * when its caller loses its right to call.
   */
  async serve(request: CarriedRequest, { mcpReq }: ServerContext, carry: Carry, watch?: WatchEnd): Promise<JsonObject> {
    if (!METHODS.has(request.method)) return carry(request, mcpReq.signal, () => mcpReq);
    const state = mcpReq.requestState<unknown>();
    const call = state === undefined ? this.#begin(request, mcpReq, carry) : this.#resume(state, request, mcpReq);
    const leave = (): void => this.#end(call, mcpReq.signal.reason);
    mcpReq.signal.addEventListener("abort", leave);
    try {
      const result = await call.next();
      if (result === undefined) return await this.#askFor(call, watch);
      this.#open.delete(call);
      return result;
    } catch (error) {
      this.#end(call, error);
      throw error;
    } finally {
      mcpReq.signal.removeEventListener("abort", leave);
    }
  }

  /** True while a call is at the server, between its rounds as well. */
  get isBusy(): boolean {
    return this.#open.size > 0;
  }

  /** Tests whether a request continues a waiting call. */
  continues(request: CarriedRequest): boolean {
    const state = ownValue(request.params ?? {}, "requestState");
    return typeof state === "string" && this.#waiting.get(state)?.digest === digestOfCall(request);
  }

  /**
   * Asks a client on behalf of the server. A session does not say which call needs the input, so the latest call without a
   * question is taken.
   */
  ask({ method, params }: CarriedRequest): Promise<JsonObject> {
    const calls = [...this.#open];
    const call = calls.findLast(({ questions }) => questions.length === 0) ?? calls.at(-1);
    if (call === undefined) {
      throw new ProtocolError(ProtocolErrorCode.InvalidRequest, "a stateless client can only be asked during a call");
    }
    const answer = Promise.withResolvers<JsonObject>();
    call.ask({ method, params, answer });
    return answer.promise;
  }

  /** Ends every call. */
  close(reason: unknown): void {
    this.#waiting.clear();
    for (const call of [...this.#open]) this.#end(call, reason);
  }

  #begin(request: CarriedRequest, context: ServerContext["mcpReq"], carry: Carry): Call {
    const call = new Call(request, context, carry);
    this.#open.add(call);
    return call;
  }

  /** Passes the client's answer to the call of a state. A missing answer is asked for again. */
  #resume(state: unknown, request: CarriedRequest, context: ServerContext["mcpReq"]): Call {
    const call = typeof state === "string" ? this.#waiting.get(state) : undefined;
    if (call?.digest !== digestOfCall(request)) {
      const text =
        call === undefined
          ? "no call waits for this `requestState` here; make the call again without it"
          : "the call that waits for this `requestState` has other parameters; send those";
      throw new ProtocolError(ProtocolErrorCode.InvalidParams, text);
    }
    this.#goOn(call);
    call.context = context;
    const given = ownValue((context.inputResponses ?? {}) as JsonObject, QUESTION);
    if (isJsonObject(given)) call.questions.shift()?.answer.resolve(given);
    return call;
  }

  async #askFor(call: Call, watch: WatchEnd | undefined): Promise<JsonObject> {
    const { method, params } = call.questions[0] as Question;
    // This watch begins before the watch of the request ends.
    const unwatch = await watch?.((reason) => this.#end(call, reason));
    if (unwatch !== undefined) call.unwatch = unwatch;
    call.ending.signal.throwIfAborted();
    const state = randomUUID();
    call.state = state;
    this.#waiting.set(state, call);
    const question = { method, ...(params === undefined ? {} : { params }) } as never;
    return inputRequired({ inputRequests: { [QUESTION]: question }, requestState: state }) as unknown as JsonObject;
  }

  /** Removes a call from the waiting calls. */
  #goOn(call: Call): void {
    call.unwatch();
    call.unwatch = () => undefined;
    if (call.state !== undefined) this.#waiting.delete(call.state);
    call.state = undefined;
  }

  #end(call: Call, reason: unknown): void {
    this.#goOn(call);
    this.#open.delete(call);
    call.end(reason);
  }
}

/** Digest of a call's method and parameters, which are the same in each round. */
function digestOfCall({ method, params = {} }: CarriedRequest): string {
  const { _meta, requestState, inputResponses, ...asked } = params;
  return digestOf({ method, asked });
}

import { hash } from "node:crypto";
import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import { Throttle, type ThrottleOptions } from "../async/throttle.ts";
import type { CallObjects } from "./call-objects.ts";
import type { Endpoint } from "./endpoints.ts";
import type { IncomingCall } from "./incoming-call.ts";
import { networkOf } from "./wrong-keys.ts";

/** Lines on refused calls of one key, or of one address without a key: some at once, then one every ten seconds. */
const REFUSALS_OF_ONE = { capacity: 20, refill: 1, intervalMs: 10_000, maxKeys: 10_000 } satisfies ThrottleOptions;
/** Lines on refused calls of the process: many keys or addresses together write some 50 MB a day. */
const REFUSALS = { capacity: 200, refill: 2, intervalMs: 1_000, maxKeys: 1 } satisfies ThrottleOptions;
/** Codes of calls that were refused for what their caller may or did. */
const REFUSED: ReadonlySet<string> = new Set(["UNAUTHENTICATED", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED"]);

/** Levels of a log that are used here. */
interface Lines {
  info(details: object, message: string): void;
  warn(details: object, message: string): void;
}

/** A call that has ended, as far as it is logged. */
export interface EndedCall {
  readonly endpoint: Endpoint;
  readonly incoming: IncomingCall;
  /** Undefined for a call whose key is wrong or missing. */
  readonly caller: { readonly keyId: string; readonly workspaceId: string } | undefined;
  /** The objects that the call named or created. */
  readonly objects: CallObjects;
}

/** A call to a route beside the services. */
export interface RouteCall extends Pick<EndedCall, "caller">, Pick<IncomingCall, "address" | "requestId"> {
  /** The route, without anything that a caller wrote. */
  readonly method: string;
}

interface LoggedCall extends RouteCall, Pick<EndedCall, "objects">, Partial<Pick<IncomingCall, "wire">> {}

/** True for the code of a call that was refused for what its caller may or did. */
export const isRefusal = (code: string): boolean => REFUSED.has(code);

/** True for a method by which people change something: auditors may call all that read, and agents all that agents do. */
export function isAdministrative({ access }: Pick<Endpoint, "access">): boolean {
  return (access.mask & ((1 << Role.AUDITOR) | (1 << Role.AGENT))) === 0;
}

/**
 * Log of who did what: one line for each administrative and each refused call. Holds objects, method, address and request id,
 * and no free text, argument or secret. Lines on refused calls are throttled, so that nobody fills the disk with them.
 */
export class CallLog {
  readonly #log: Lines;
  readonly #ofOne: Throttle;
  readonly #ofAll: Throttle;
  #unlogged = 0;

  /** `now` gives monotonic milliseconds. */
  constructor(log: Lines, now?: () => number) {
    this.#log = log;
    this.#ofOne = new Throttle({ ...REFUSALS_OF_ONE, now });
    this.#ofAll = new Throttle({ ...REFUSALS, now });
  }

  /** Logs a call if it is administrative or was refused. `code` is the name of its gRPC code. */
  ended(call: EndedCall, code: string): void {
    const isOfPeople = isAdministrative(call.endpoint);
    const { endpoint, incoming, caller, objects } = call;
    const { wire, address, requestId } = incoming;
    const logged = { method: endpoint.name, caller, objects, wire, address, requestId };
    if (isOfPeople && code === "OK") this.#log.info(detailsOf(logged, code), "administrative call");
    else if (isOfPeople || isRefusal(code)) this.#refused(logged, code);
  }

  /** Logs a refused call at a route beside the services. */
  refused(call: RouteCall, code: string): void {
    this.#refused({ ...call, objects: {} }, code);
  }

  #refused(call: LoggedCall, code: string): void {
    const who = call.caller?.keyId ?? networkOf(call.address ?? "");
    if (this.#ofOne.take(who) > 0 || this.#ofAll.take("") > 0) {
      this.#unlogged += 1;
      return;
    }
    const unlogged = this.#unlogged === 0 ? {} : { unlogged: this.#unlogged };
    this.#unlogged = 0;
    this.#log.warn({ ...detailsOf(call, code), ...unlogged }, "refused call");
  }
}

function detailsOf({ method, caller, objects, wire, address, requestId }: LoggedCall, code: string): object {
  return {
    keyId: caller && loggedName(caller.keyId),
    workspaceId: caller?.workspaceId,
    method,
    ...(Object.keys(objects).length > 0 && { objects }),
    code,
    wire,
    address,
    requestId,
  };
}

/** Name of a person whose subject is an address. */
const PERSON_BY_ADDRESS = /^(oidc:[^|]+\|)(.*@.*)$/;

/** Returns the name of a key or a person for the log. A subject that is an address is told by its digest. */
function loggedName(name: string): string {
  const [, issuer, subject] = PERSON_BY_ADDRESS.exec(name) ?? [];
  if (issuer === undefined || subject === undefined) return name;
  return `${issuer}sha256:${hash("sha256", subject)}`;
}

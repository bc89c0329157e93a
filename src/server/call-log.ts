import type { DescField, DescMessage, Message } from "@bufbuild/protobuf";
import { reflect } from "@bufbuild/protobuf/reflect";
import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import { Throttle, type ThrottleOptions } from "../async/throttle.ts";
import type { Endpoint } from "./endpoints.ts";
import type { IncomingCall } from "./incoming-call.ts";
import { networkOf } from "./wrong-keys.ts";

/** Lines on refused calls of one key, or of one address without a key: some at once, then one every ten seconds. */
const REFUSALS_OF_ONE = { capacity: 20, refill: 1, intervalMs: 10_000, maxKeys: 10_000 } satisfies ThrottleOptions;
/** Lines on refused calls of the process: many keys or addresses together write some 50 MB a day. */
const REFUSALS = { capacity: 200, refill: 2, intervalMs: 1_000, maxKeys: 1 } satisfies ThrottleOptions;
/** Codes of calls that were refused for what their caller may or did. */
const REFUSED: ReadonlySet<string> = new Set(["UNAUTHENTICATED", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED"]);

/** Form of the ids that the service gives, which hold nothing that a caller wrote. */
const OWN_ID = /^[a-z]{2,3}_[a-z2-7]{26}$/;

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
  /** Ids of objects that the call named or created. */
  readonly objects: Readonly<Record<string, string>>;
}

/** True for a method by which people change something: auditors may call all that read, and agents all that agents do. */
export function isAdministrative({ access }: Pick<Endpoint, "access">): boolean {
  return (access.mask & ((1 << Role.AUDITOR) | (1 << Role.AGENT))) === 0;
}

/**
 * Log of who did what: one line for each administrative and each refused call. Holds ids, method, address and request id, and no
 * name, argument or secret. Lines on refused calls are throttled, so that nobody fills the disk with them.
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
    if (isOfPeople && code === "OK") this.#log.info(detailsOf(call, code), "administrative call");
    else if (isOfPeople || REFUSED.has(code)) this.#refused(call, code);
  }

  #refused(call: EndedCall, code: string): void {
    const who = call.caller?.keyId ?? networkOf(call.incoming.address ?? "");
    if (this.#ofOne.take(who) > 0 || this.#ofAll.take("") > 0) {
      this.#unlogged += 1;
      return;
    }
    const unlogged = this.#unlogged === 0 ? {} : { unlogged: this.#unlogged };
    this.#unlogged = 0;
    this.#log.warn({ ...detailsOf(call, code), ...unlogged }, "refused call");
  }
}

function detailsOf({ endpoint, incoming, caller, objects }: EndedCall, code: string): object {
  return {
    keyId: caller?.keyId,
    workspaceId: caller?.workspaceId,
    method: endpoint.name,
    ...(Object.keys(objects).length > 0 && { objects }),
    code,
    wire: incoming.wire,
    address: incoming.address,
    requestId: incoming.requestId,
  };
}

/** Returns the ids that the service gave, of a message and of the messages in it, by the names of their fields. */
export function objectIdsOf(schema: DescMessage, message: Message): Record<string, string> {
  const ids: Record<string, string> = {};
  const collect = (desc: DescMessage, value: Message, depth: number): void => {
    const reflected = reflect(desc, value);
    for (const field of desc.fields) {
      if (!reflected.isSet(field)) continue;
      if (isId(field)) {
        const id = reflected.get(field);
        if (typeof id === "string" && OWN_ID.test(id)) ids[field.name] ??= id;
      } else if (field.fieldKind === "message" && depth === 0) {
        const inner = reflected.get(field);
        if (typeof inner === "object" && "message" in inner) collect(field.message, inner.message as Message, 1);
      }
    }
  };
  collect(schema, message, 0);
  return ids;
}

const isId = (field: DescField): boolean => field.fieldKind === "scalar" && field.name.endsWith("_id");

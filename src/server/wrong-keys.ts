import { isIPv6 } from "node:net";
import { Throttle } from "../async/throttle.ts";
import { ControlPlaneError, ErrorReason } from "../errors.ts";

/** Wrong keys that an address may send at once; after that, one a second. */
const BURST = 60;
/** Lines on wrong keys of all addresses together: guesses from many networks fill no disk. */
const LINES = { capacity: 200, refill: 2, intervalMs: 1_000, maxKeys: 1 };
/** Maximum addresses that are remembered; the one that was inactive longest is forgotten first. */
const MAX_ADDRESSES = 10_000;

/** Levels of a log that are used here. */
interface WrongKeyLog {
  info(details: object, message: string): void;
  warn(details: object, message: string): void;
}

/** A call with a wrong key, as logged. The key itself is left out. */
export interface WrongKeyCall {
  readonly address: string | undefined;
  readonly requestId: string;
  readonly method: string;
  /** Message of the refusal. */
  readonly reason?: string;
}

/**
 * Throttle for the guessing of keys, by address. Only wrong keys count and only wrong keys are refused, so that other callers
 * behind the same address, as behind a NAT, are never affected. One counter serves all protocols and routes of a process.
 */
export class WrongKeys {
  readonly #log: WrongKeyLog;
  readonly #throttle: Throttle;
  readonly #lines: Throttle;

  /** `now` gives monotonic milliseconds. */
  constructor(log: WrongKeyLog, now?: () => number) {
    this.#log = log;
    this.#lines = new Throttle({ ...LINES, now });
    this.#throttle = new Throttle({
      capacity: BURST,
      refill: 1,
      intervalMs: 1_000,
      maxKeys: MAX_ADDRESSES,
      now,
    });
  }

  /** Counts a wrong key. Returns TOO_MANY_WRONG_KEYS once the address has used up its share. */
  refusal({ address, requestId, method, reason }: WrongKeyCall): ControlPlaneError | undefined {
    const network = networkOf(address ?? "");
    const refusals = this.#throttle.take(network);
    const isLogged = refusals <= 1 && this.#lines.take("") === 0;
    if (refusals === 0) {
      if (isLogged) this.#log.info({ address, requestId, method, reason }, "wrong key");
      return undefined;
    }
    // Logged once, until the address was inactive for a minute.
    if (isLogged) this.#log.warn({ network, requestId, method, reason }, "too many wrong keys from one address");
    return tooManyWrongKeys();
  }
}

function tooManyWrongKeys(): ControlPlaneError {
  const message = "too many wrong keys came from this address; check the key, and wait before the next attempt";
  return new ControlPlaneError(ErrorReason.TOO_MANY_WRONG_KEYS, message);
}

const MAPPED_IPV4 = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i;

/**
 * Returns the network of one client: an IPv4 address, or the first 64 bits of an IPv6 address, since a client has all addresses
 * below.
 */
export function networkOf(address: string): string {
  const [, mapped] = MAPPED_IPV4.exec(address) ?? [];
  if (mapped !== undefined) return mapped;
  const [bare = ""] = address.split("%");
  if (!isIPv6(bare)) return address;
  const [head = "", tail] = bare.toLowerCase().split("::");
  const left = head === "" ? [] : head.split(":");
  const right = tail === undefined || tail === "" ? [] : tail.split(":");
  const groups = [...left, ...Array<string>(8 - left.length - right.length).fill("0"), ...right];
  return `${groups
    .slice(0, 4)
    .map((group) => Number.parseInt(group, 16).toString(16))
    .join(":")}::/64`;
}

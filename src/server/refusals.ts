import type { IncomingMessage } from "node:http";
import { ControlPlaneError, ErrorReason } from "../errors.ts";
import { type CallLog, isRefusal, type RouteCall } from "./call-log.ts";
import { codeNameOf } from "./errors.ts";
import { headerOf } from "./http-reply.ts";
import { REQUEST_ID_HEADER, requestIdFrom } from "./incoming-call.ts";

/** Notes that a route beside the services failed a request; logs it if the caller was refused. `method` is the route. */
export type NoteRefusal = (request: IncomingMessage, method: string, error: unknown) => void;

type Holder = Exclude<RouteCall["caller"], undefined>;

/** Parts of the notes. */
export interface RefusalsOptions {
  readonly callLog: Pick<CallLog, "refused">;
  /** Finds the holder of a key. */
  readonly authenticate: (key: string) => Holder | undefined | Promise<Holder | undefined>;
}

/** Refusals that are logged where wrong keys are counted. */
const OF_WRONG_KEYS: ReadonlySet<ErrorReason> = new Set([ErrorReason.KEY_INVALID, ErrorReason.TOO_MANY_WRONG_KEYS]);
const BEARER = /^bearer +(\S+) *$/i;

/** Creates the notes of refusals. */
export function createNoteRefusal({ callLog, authenticate }: RefusalsOptions): NoteRefusal {
  const holderOf = async (key: string | undefined): Promise<Holder | undefined> =>
    key === undefined ? undefined : authenticate(key);
  return (request, method, error) => {
    if (!(error instanceof ControlPlaneError) || OF_WRONG_KEYS.has(error.reason)) return;
    const code = codeNameOf(error);
    if (!isRefusal(code)) return;
    const requestId = requestIdFrom(headerOf(request, REQUEST_ID_HEADER));
    const call = { method, address: addressOf(request), requestId };
    const log = (caller?: Holder): void => callLog.refused({ ...call, caller }, code);
    // A holder that cannot be looked up is left out.
    holderOf(keyIn(request)).then(log, () => log());
  };
}

/** A request that was refused while it arrived has lost its socket. */
function addressOf({ socket }: { readonly socket: IncomingMessage["socket"] | null }): string | undefined {
  return socket?.remoteAddress;
}

function keyIn(request: IncomingMessage): string | undefined {
  const given = headerOf(request, "x-api-key");
  if (given !== undefined && given !== "") return given;
  return BEARER.exec(headerOf(request, "authorization") ?? "")?.[1];
}

import type { CallOptions, Client } from "@connectrpc/connect";
import type { RedactionService } from "../../gen/agentcontrol/v1/redaction_service_pb.js";
import { requestErrorFrom } from "./request-error.ts";

/** How a text is scrubbed. */
export interface ScrubOptions {
  /** The key's workspace. Default `default`. */
  readonly workspaceId?: string | undefined;
  /** Ends the call; it then rejects with code `cancelled`. */
  readonly signal?: AbortSignal | undefined;
}

/** One personal value in a text, without the value. */
export interface ScrubFinding {
  /** `email`, `phone`, … */
  readonly kind: string;
  /** Index of the first UTF-16 code unit in the text that was given. */
  readonly start: number;
  /** Index after the last. */
  readonly end: number;
}

/** A text without its personal values. */
export interface ScrubResult {
  /** With placeholders; one value has one placeholder throughout. */
  readonly text: string;
  readonly findings: readonly ScrubFinding[];
}

/** Scrubs one text. Rejects with a `ControlPlaneRequestError`; the text MUST NOT be used then. */
export async function scrubText(
  client: Client<typeof RedactionService>,
  text: string,
  { workspaceId = "default", signal }: ScrubOptions = {},
): Promise<ScrubResult> {
  const options: CallOptions = signal === undefined ? {} : { signal };
  try {
    const { text: scrubbed, findings } = await client.scrub({ workspaceId, text }, options);
    return { text: scrubbed, findings: findings.map(({ kind, start, end }) => ({ kind, start, end })) };
  } catch (error) {
    throw requestErrorFrom(error);
  }
}

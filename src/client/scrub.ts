import { type CallOptions, createClient, type Transport } from "@connectrpc/connect";
import { RedactionService } from "../../gen/agentcontrol/v1/redaction_service_pb.js";
import { requestErrorFrom } from "./request-error.ts";

/** Options of one scrub. */
export interface ScrubOptions {
  /** The key's workspace. Default `default`. */
  readonly workspaceId?: string | undefined;
  /** Ends the call, which then rejects with code `CANCELLED`. */
  readonly signal?: AbortSignal | undefined;
}

/** Position and kind of one personal value in a text, without the value. */
export interface ScrubFinding {
  /** `email`, `phone`, … */
  readonly kind: string;
  /** Index of the first UTF-16 code unit in the original text. */
  readonly start: number;
  /** Index after the last. */
  readonly end: number;
}

/** A text without its personal values. */
export interface ScrubResult {
  /** The text with placeholders; equal values have equal placeholders. */
  readonly text: string;
  readonly findings: readonly ScrubFinding[];
}

/** Replaces the personal values in a text. */
export async function scrubText(
  transport: Transport,
  text: string,
  { workspaceId = "default", signal }: ScrubOptions = {},
): Promise<ScrubResult> {
  const options: CallOptions = signal === undefined ? {} : { signal };
  try {
    const client = createClient(RedactionService, transport);
    const { text: scrubbed, findings } = await client.scrub({ workspaceId, text }, options);
    return { text: scrubbed, findings: findings.map(({ kind, start, end }) => ({ kind, start, end })) };
  } catch (error) {
    throw requestErrorFrom(error);
  }
}

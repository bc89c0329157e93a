import { isLogOf } from "./checkpoint.ts";
import { type JsonRecord, parseCanonicalObject } from "./json.ts";
import { isKnownVersion, restored } from "./sealed-form.ts";
import { VerificationError } from "./verification-error.ts";

/** An entry in a bundle or an answer of the service. */
export interface LogEntry {
  readonly index: number;
  readonly leafHash: Uint8Array;
  /** Exact text that was hashed. */
  readonly body: string;
  /** Name that the service gives its author. It is not sealed, and nothing verifies it. */
  readonly authorName?: string | undefined;
}

/**
 * Returns the parsed body of an entry, with the members that its version leaves out. Throws `canonical` for another form, `version`
 * for an unknown version, `order` if it was sealed at another place.
 */
export function parseEntry(text: string, index: number): JsonRecord {
  return assertSealedAs(parseCanonicalObject(text), index);
}

/** Returns the parsed body of an entry as `parseEntry` does; undefined stands for a text that is not canonical. */
export function assertSealedAs(body: JsonRecord | undefined, index: number): JsonRecord {
  if (body === undefined) {
    throw new VerificationError("canonical", `entry ${index} is no canonical JSON object (RFC 8785)`, index);
  }
  if (!isKnownVersion(body)) {
    const version = JSON.stringify(body.v);
    throw new VerificationError(
      "version",
      `entry ${index} is of version \`${version}\`, which this verifier cannot read`,
      index,
    );
  }
  if (body.seq === index) return restored(body);
  const message = `entry ${index} is misplaced: it was sealed as entry \`${String(body.seq)}\``;
  throw new VerificationError("order", message, index);
}

/** Refuses an entry of another workspace than the one whose log has this origin. */
export function assertWorkspace({ workspace_id: workspaceId }: JsonRecord, origin: string, index: number): void {
  if (isLogOf(origin, workspaceId)) return;
  const message = `entry ${index} belongs to workspace \`${String(workspaceId)}\`, not to the log \`${origin}\``;
  throw new VerificationError("workspace", message, index);
}

import type { IncomingMessage } from "node:http";
import { ControlPlaneError, ErrorReason, invalidField } from "../../errors.ts";
import { headerOf } from "../http-reply.ts";

const MAX_BODY_BYTES = 4_096;

/** Reads a small body of one content type. Rejects with INVALID_FIELD for another type or a larger body. */
export async function textOf(request: IncomingMessage, contentType: string): Promise<string> {
  const [given = ""] = (headerOf(request, "content-type") ?? "").split(";");
  if (given.trim().toLowerCase() !== contentType) throw invalidField("content-type", `must be ${contentType}`);
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request) {
    bytes += (chunk as Buffer).length;
    if (bytes > MAX_BODY_BYTES) throw invalidField("body", `must have at most ${MAX_BODY_BYTES} bytes`);
    chunks.push(chunk as Buffer);
  }
  return Buffer.concat(chunks).toString();
}

/** Refuses a sign-in from another site's page, which would sign its visitor in under the site's own account. */
export function assertSameOrigin(request: IncomingMessage, publicUrl: string | undefined): void {
  const origin = headerOf(request, "origin");
  if (origin === undefined) return;
  const host = headerOf(request, "host") ?? "";
  const isOwn = URL.canParse(origin) && (new URL(origin).host === host || origin === originOf(publicUrl));
  if (isOwn) return;
  const text = `a page of \`${origin}\` cannot sign in here; set ACP_PUBLIC_URL to the address that browsers use`;
  throw new ControlPlaneError(ErrorReason.CSRF_TOKEN_INVALID, text, { origin });
}

const originOf = (url: string | undefined): string | undefined => (url === undefined ? undefined : new URL(url).origin);

/** Reads a small JSON object. Rejects with INVALID_FIELD for anything else. */
export async function jsonOf(request: IncomingMessage): Promise<Readonly<Record<string, unknown>>> {
  const text = await textOf(request, "application/json");
  try {
    const value: unknown = JSON.parse(text || "{}");
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  } catch {
    // Answered below.
  }
  throw invalidField("body", "must be a JSON object");
}

import { createHash } from "node:crypto";
import type { Pool } from "pg";
import { ControlPlaneError, ErrorReason, invalidField } from "../errors.ts";
import { stored } from "../store/database.ts";
import type { Encryptor } from "../store/encryptor.ts";
import { insertPushKey, readPushKey } from "../store/sql/push-key.ts";
import type { TargetAnswer, Targets } from "../webhook/target.ts";
import type { Told } from "./email.ts";
import type { EscalationMessage } from "./escalation-message.ts";
import { oneLine } from "./plain-text.ts";

/** Subscription of a browser. */
export interface PushSubscription {
  readonly endpoint: string;
  /** Base64url of the browser's public key, and of its secret. */
  readonly p256dh: string;
  readonly auth: string;
}

/** A message for a browser, as its service worker reads it. */
export interface PushMessage {
  readonly title: string;
  readonly body: string;
  /** Messages with one tag replace each other. */
  readonly tag: string;
  /** Path on the dashboard. */
  readonly path: string;
  /** Number of escalations that wait. */
  readonly pending: number;
}

/** A message, and how long a push service keeps it. */
export interface PushRequest {
  readonly message: PushMessage;
  readonly ttlSeconds: number;
}

/** Keys with which the service identifies itself to push services (RFC 8292). */
export interface PushKeys {
  readonly publicKey: string;
  readonly privateKey: string;
}

/** Options of one attempt. */
interface PushOptions {
  readonly targets: Targets;
  readonly hosts: readonly string[];
  readonly publicUrl: string;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

const MAX_TTL_SECONDS = 2_419_200;
/** Maximum characters of what is to be approved: push services take 4,096 bytes in all. */
const MAX_APPROVED = 600;
const TOPIC_CHARACTERS = 32;
/** Status of a subscription that ended, which some services give as 404. */
const GONE = 410;
const LOOPBACK = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])$/;

/** Loads the library at first use: most services send nothing to browsers. */
const loadWebPush = async () => (await import("web-push")).default;

const placeOf = "push_key.sealed_key";

/** Returns the keys of a workspace, and creates them on first use. Throws ENCRYPTION_KEY_DIFFERS. */
export async function pushKeysOf(pool: Pool, encryptor: Encryptor, workspaceId: string): Promise<PushKeys> {
  type Row = { readonly publicKey: string; readonly sealedKey: Buffer };
  const read = async () => (await stored(pool.query<Row>({ ...readPushKey, values: [workspaceId] }))).rows[0];
  let row = await read();
  if (row === undefined) {
    const webPush = await loadWebPush();
    const { publicKey, privateKey } = webPush.generateVAPIDKeys();
    const values = [workspaceId, publicKey, encryptor.encrypt(workspaceId, placeOf, privateKey)];
    await stored(pool.query({ ...insertPushKey, values }));
    row = await read();
  }
  if (row === undefined) throw new Error("the keys of Web Push were not stored");
  return { publicKey: row.publicKey, privateKey: encryptor.decrypt(workspaceId, placeOf, row.sealedKey) };
}

function isListed(host: string, hosts: readonly string[]): boolean {
  return hosts.some((each) => (each.startsWith("*.") ? host.endsWith(each.slice(1)) : host === each));
}

/**
 * Throws TARGET_NOT_ALLOWED for an endpoint on a host that is not listed, and INVALID_FIELD for one that is not https. Plain http is
 * accepted on a listed loopback host.
 */
export function assertEndpoint(endpoint: string, hosts: readonly string[]): void {
  const url = URL.canParse(endpoint) ? new URL(endpoint) : undefined;
  const isPlain = url?.protocol === "http:" && LOOPBACK.test(url.hostname);
  if (url === undefined || (url.protocol !== "https:" && !isPlain)) {
    throw invalidField("push.endpoint", "must be an `https` URL");
  }
  if (isListed(url.hostname, hosts)) return;
  const violations = [{ field: "push.endpoint", description: "is not on `ACP_PUSH_HOSTS`", reason: "NOT_ALLOWED" }];
  const message = `\`${url.hostname}\` is not a push service of \`ACP_PUSH_HOSTS\``;
  throw new ControlPlaneError(ErrorReason.TARGET_NOT_ALLOWED, message, { host: url.hostname }, { violations });
}

/** Creates the message about an escalation. */
export function pushMessageOf(message: EscalationMessage, pending: number): PushMessage {
  const { agent, actionType, tool, approved, escalationId } = message;
  const what =
    tool === undefined || tool === actionType ? oneLine(actionType) : `${oneLine(actionType)} (${oneLine(tool)})`;
  const shown = approved === undefined || approved.length > MAX_APPROVED ? "" : `\n${approved}`;
  return {
    title: "An action waits for an answer",
    body: `${oneLine(agent)} wants ${what}${shown}`,
    tag: escalationId,
    path: `/escalations/${encodeURIComponent(escalationId)}`,
    pending,
  };
}

/** Sends a message once, encrypted for the browser (RFC 8291), to a listed and allowed address. MUST NOT reject. */
export async function sendPush(
  subscription: PushSubscription,
  keys: PushKeys,
  { message, ttlSeconds }: PushRequest,
  { targets, hosts, publicUrl, timeoutMs, signal }: PushOptions,
): Promise<Told> {
  try {
    assertEndpoint(subscription.endpoint, hosts);
    const { endpoint, p256dh, auth } = subscription;
    const webPush = await loadWebPush();
    const details = webPush.generateRequestDetails({ endpoint, keys: { p256dh, auth } }, JSON.stringify(message), {
      vapidDetails: { subject: contactFrom(publicUrl), ...keys },
      TTL: Math.min(Math.max(Math.floor(ttlSeconds), 0), MAX_TTL_SECONDS),
      urgency: "high",
      topic: createHash("sha256").update(message.tag).digest("base64url").slice(0, TOPIC_CHARACTERS),
    });
    const headers = Object.fromEntries(Object.entries(details.headers).map(([name, value]) => [name, String(value)]));
    const answer = await targets.post({ url: endpoint, headers, body: details.body ?? "", timeoutMs, signal });
    return toldFrom(answer);
  } catch (error) {
    const text = error instanceof ControlPlaneError ? error.message : "the subscription cannot be used";
    return { error: text, answer: { kind: "fault", error: text } };
  }
}

/** Returns the contact of the service, which push services want as a URL over TLS or an e-mail address. */
const contactFrom = (publicUrl: string): string =>
  publicUrl.startsWith("https:") ? publicUrl : `mailto:acp@${new URL(publicUrl).hostname}`;

function toldFrom(answer: TargetAnswer): Told {
  if (answer.kind === "fault") return { error: answer.error, answer };
  const { status } = answer;
  if (status >= 200 && status < 300) return { error: null, answer };
  const isGone = status === 404 || status === GONE;
  const error = isGone ? "the browser ended its subscription" : `the push service answered with status ${status}`;
  return { error, answer: isGone ? { ...answer, status: GONE } : answer };
}

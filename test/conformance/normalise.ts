import type { JsonObject, JsonValue } from "@bufbuild/protobuf";

/** Replaces what differs from run to run in the answers of one case; equal values become equal words. */
export type Normalise = (value: JsonValue) => JsonValue;

const ID = /\b([a-z]{2,3})_[a-z2-7]{26}\b/g;
const WORKSPACE = /\bws-[0-9a-f]{12}(?:-[a-z]+)?\b/g;
const RECEIVER = /\bhttp:\/\/127\.0\.0\.1:\d+/g;
const TIME = /\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z/g;
/** Time from which more fits a limit, in a sentence. */
const TIME_IN_WORDS = /\b(?:\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d UTC\b/g;
/** A time of the redaction interface, which has no zone designator. */
const ZONELESS_TIME = /\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}(?![\dZ+-])/g;
/** What ends a placeholder, made anew each time. */
const SALT = /(?<=\[[A-Z_]+_\d+_)[B-DF-HJ-NP-TV-Z]{5}(?=\])/g;
/** Secret in the link of an invite. */
const INVITE = /\bacpi_[a-z2-7]{52}\b/g;
/** Code that links an account of Slack. */
const LINK_CODE = /\b[A-Z0-9]{4}-[A-Z0-9]{4}-[A-Z0-9]{4}\b/g;
/** SHA-256 in base64; of a checkpoint's note the root and the signature. */
const HASH = /^[A-Za-z0-9+/]{43}=$/;
const NOTE = /\n[A-Za-z0-9+/]{43}=\n\n\u2014 (\S+) \S+\n$/;
/** Fields whose text is made anew each time, with the word that stands for it. */
const OPAQUE: Readonly<Record<string, string>> = {
  secret: "<secret>",
  prefix: "<prefix>",
  next_page_token: "<token>",
  leaf_hash: "<hash>",
  action_digest: "<digest>",
  policy_digest: "<digest>",
  canonical_body: "<json>",
  body: "<json>",
  verifier_key: "<vkey>",
  request_id: "<request>",
  token: "<jws>",
  signature: "<signature>",
  public_key: "<pem>",
  push_public_key: "<key>",
};
/** Seconds that are left for an extension as of the moment of the call. */
const SECONDS_LEFT = /(?<=must be at most )\d+(?=: an escalation is extended)/g;
/** Where a key is named or written as 43 base64url characters: P-256 coordinates and thumbprints. */
const KEY_PARTS = ["key_id", "kid", "x", "y"];
const KEY_PART = /^[\w-]{43}$/;
/** Times of last uses, which are written some time after them. */
const LAST_USES = ["last_used_at", "key_used_at"];
/** Fields that count milliseconds. */
const DURATIONS = ["latency_ms", "duration_ms"];

const isObject = (value: JsonValue): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** What a revocation ended comes in the order of its ids, which is random among ids of one millisecond. */
function inOrder(items: JsonValue[]): JsonValue[] {
  const areEnded = items.every((item) => isObject(item) && Object.keys(item).sort().join() === "at,id");
  return areEnded ? items.sort((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1)) : items;
}

/** Creates the replacement of one case: ids are numbered by kind in the order in which they first appear. */
export function createNormalise(): Normalise {
  const words = new Map<string, string>();
  const counts = new Map<string, number>();
  const wordFor = (kind: string, id: string): string => {
    const known = words.get(id);
    if (known !== undefined) return known;
    const count = (counts.get(kind) ?? 0) + 1;
    counts.set(kind, count);
    words.set(id, `${kind}#${count}`);
    return `${kind}#${count}`;
  };
  const text = (value: string): string =>
    value
      .replace(ID, (id, kind: string) => wordFor(kind, id))
      .replace(INVITE, "<secret>")
      .replace(LINK_CODE, "<code>")
      .replace(WORKSPACE, (id) => wordFor("ws", id))
      .replace(RECEIVER, "<receiver>")
      .replace(TIME, "<time>")
      .replace(TIME_IN_WORDS, "<time in words>")
      .replace(ZONELESS_TIME, "<zoneless time>")
      .replace(SALT, "<salt>")
      .replace(HASH, "<hash>")
      .replace(SECONDS_LEFT, "<seconds>")
      .replace(NOTE, "\n<hash>\n\n\u2014 $1 <signature>\n");
  const field = (name: string, value: JsonValue): JsonValue => {
    if (LAST_USES.includes(name)) return "<last use>";
    if (DURATIONS.includes(name) && Number.isInteger(value)) return "<ms>";
    if (typeof value === "string" && KEY_PARTS.includes(name) && KEY_PART.test(value)) return "<key>";
    const word = OPAQUE[name];
    return word !== undefined && typeof value === "string" && value !== "" ? word : normalise(value);
  };
  const normalise: Normalise = (value) => {
    if (typeof value === "string") return text(value);
    if (Array.isArray(value)) return inOrder(value.map(normalise));
    if (!isObject(value)) return value;
    const entries = Object.entries(value).map(([name, member]) => [text(name), field(name, member)]);
    const normal = Object.fromEntries(entries) as JsonObject;
    // The definition of a mandate may name agents and departments, whose ids differ.
    if ("mandate_id" in value && "digest" in value) normal.digest = "<digest>";
    return normal;
  };
  return normalise;
}

import { createReadStream } from "node:fs";
import { readFile } from "node:fs/promises";
import { CommandError } from "./command.ts";
import {
  bytesFromBase64,
  type DecisionProof,
  hashesFrom,
  indexFrom,
  isMembers,
  type JsonMembers,
  type LogEntry,
  type PublicKey,
  publicKeyFromPem,
  required,
  textFrom,
  VerificationError,
} from "./verify/index.ts";

/** The format word of a log bundle: a first line with the checkpoint and its keys, then a line for each entry. */
export const LOG_FORMAT = "agent-control-plane.log/1";
/** The format word of a decision bundle: one JSON text. */
export const DECISION_FORMAT = "agent-control-plane.decision/1";

/** What both kinds of bundle have. */
interface BundleBase {
  /** The C2SP note. */
  readonly checkpoint: string;
  /** The keys that the bundle brings along. They prove nothing by themselves. */
  readonly publicKeys: readonly PublicKey[];
}

/** A whole log, read from disk as it is asked for. */
export interface LogBundle extends BundleBase {
  readonly kind: "log";
  /** Reads all entries, from the first on each time. */
  entries(): AsyncIterable<LogEntry>;
}

/** One decision with its proof. */
export interface DecisionBundle extends BundleBase {
  readonly kind: "decision";
  readonly proof: DecisionProof;
}

/** Bytes of the longest line or decision bundle that is read: far above the largest entry, far below the memory. */
const MAX_TEXT = 67_108_864;
const CHUNK_BYTES = 1_048_576;

/** The lines of a file, one after the other. Unlike `node:readline` it ends lines at U+000A alone: JSON may hold others. */
async function* linesOf(path: string): AsyncGenerator<string> {
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  let rest = "";
  try {
    for await (const chunk of createReadStream(path, { highWaterMark: CHUNK_BYTES })) {
      const lines = (rest + decoder.decode(chunk as Buffer, { stream: true })).split("\n");
      rest = lines.pop() ?? "";
      if (rest.length > MAX_TEXT)
        throw new VerificationError("malformed", `a line is longer than ${MAX_TEXT} characters`);
      yield* lines;
    }
    rest += decoder.decode();
  } catch (error) {
    throw readFault(error, path);
  }
  if (rest !== "") yield rest;
}

function readFault(error: unknown, path: string): unknown {
  if (error instanceof TypeError) return new VerificationError("malformed", `\`${path}\` is not UTF-8`);
  const { code } = error as NodeJS.ErrnoException;
  return code === undefined || error instanceof VerificationError
    ? error
    : new CommandError(`\`${path}\` cannot be read (${code})`);
}

/** Reads a whole small file. Throws `CommandError`. */
export function readText(path: string): Promise<string> {
  return readFile(path, "utf8").catch((error: unknown) => {
    throw readFault(error, path);
  });
}

/** Parses JSON; undefined for what is none. */
export function jsonFrom(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

async function firstLine(path: string): Promise<string> {
  for await (const line of linesOf(path)) return line;
  throw new CommandError(`\`${path}\` is empty`);
}

/** The first line where it is a JSON text by itself, else the whole file. */
async function headOf(path: string): Promise<JsonMembers> {
  const line = jsonFrom(await firstLine(path));
  const head = line ?? jsonFrom(await readText(path));
  if (isMembers(head)) return head;
  throw new CommandError(`\`${path}\` is no bundle: it does not begin with a JSON object`);
}

function baseFrom(head: JsonMembers): BundleBase {
  const { checkpoint, public_keys: pems } = head;
  const list = required(Array.isArray(pems) ? pems : undefined, "the bundle", "`public_keys`");
  const publicKeys = list.map((pem) =>
    required(publicKeyFromPem(String(pem)), "the bundle", "ECDSA P-256 key in PEM in each of its `public_keys`"),
  );
  return { checkpoint: required(textFrom(checkpoint), "the bundle", "`checkpoint`"), publicKeys };
}

/** An entry from its JSON, as bundles and the service give it. */
export function entryFrom(value: unknown, where: string): LogEntry {
  const { index, leaf_hash, body } = required(isMembers(value) ? value : undefined, where, "JSON object");
  return {
    index: required(indexFrom(index), where, "`index`"),
    leafHash: required(bytesFromBase64(leaf_hash, 32), where, "`leaf_hash` of 32 bytes in base64"),
    body: required(textFrom(body), where, "`body`"),
  };
}

async function* entriesOf(path: string): AsyncGenerator<LogEntry> {
  let line = 0;
  for await (const text of linesOf(path)) {
    line += 1;
    if (line > 1) yield entryFrom(jsonFrom(text), `line ${line}`);
  }
}

function decisionFrom(head: JsonMembers): DecisionBundle {
  return {
    ...{ kind: "decision", ...baseFrom(head) },
    proof: {
      body: required(textFrom(head.body), "the bundle", "`body`"),
      leafIndex: required(indexFrom(head.leaf_index), "the bundle", "`leaf_index`"),
      auditPath: required(hashesFrom(head.audit_path), "the bundle", "`audit_path` of hashes"),
    },
  };
}

/** Opens a bundle of either kind. Throws `CommandError` for what is none, `VerificationError` for one that lacks a part. */
export async function openBundle(path: string): Promise<LogBundle | DecisionBundle> {
  const head = await headOf(path);
  if (head.format === DECISION_FORMAT) return decisionFrom(head);
  if (head.format === LOG_FORMAT) return { kind: "log", ...baseFrom(head), entries: () => entriesOf(path) };
  throw new CommandError(`\`${path}\` is no bundle: its \`format\` is neither ${LOG_FORMAT} nor ${DECISION_FORMAT}`);
}

/** The first line of a log bundle. */
export function logBundleHead(checkpoint: string, publicKeys: readonly PublicKey[]): string {
  const head = { format: LOG_FORMAT, checkpoint, public_keys: publicKeys.map(({ pem }) => pem) };
  return `${JSON.stringify(head)}\n`;
}

/** The line of an entry in a log bundle. */
export function logBundleLine({ index, leafHash, body }: LogEntry): string {
  return `${JSON.stringify({ index, leaf_hash: Buffer.from(leafHash).toString("base64"), body })}\n`;
}

/** A decision bundle. */
export function decisionBundleText(proof: DecisionProof, checkpoint: string, publicKeys: readonly PublicKey[]): string {
  const bundle = {
    format: DECISION_FORMAT,
    body: proof.body,
    leaf_index: proof.leafIndex,
    audit_path: proof.auditPath.map((hash) => Buffer.from(hash).toString("base64")),
    checkpoint,
    public_keys: publicKeys.map(({ pem }) => pem),
  };
  return `${JSON.stringify(bundle)}\n`;
}

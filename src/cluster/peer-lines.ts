import type { Socket } from "node:net";
import { ControlPlaneError, type ErrorReason } from "../errors.ts";
import type { AppendedBatch } from "../log/follow.ts";
import type { Action, SealedDecision } from "../state/types.ts";

// A question and its answer are one line each, of JSON lists instead of objects: they cross for every action.

/** A peer is asked to decide an action. */
export interface Question {
  /** Names the answer; unique among those that are open on the connection. */
  readonly id: number;
  readonly workspaceId: string;
  /** One that no guard was asked about. */
  readonly action: Action;
}

/** What came of a question: the decision, or what it failed with. */
export type Answer =
  | { readonly id: number; readonly sealed: Omit<SealedDecision, "decisionId" | "agentId" | "actionType"> }
  | { readonly id: number; readonly error: ControlPlaneError };

/** Parts the metadata, whose canonical text goes as it is, from the rest: JSON escapes it wherever a text holds it. */
const TAB = 0x09;
const LINE_FEED = 0x0a;
const BRACE = 0x7b;
const EMPTY = Buffer.alloc(0);

/** The line of a question. */
export function lineFromQuestion({ id, workspaceId, action }: Question): string {
  const { decisionId, isRetryable, agentId, actionType, normalisedType, actionContent, tool } = action;
  const { sessionId, onBehalfOf, grantId, intentContractId, escalationId, keyId, metadataText } = action;
  const said = [decisionId, isRetryable, agentId, actionType, normalisedType, actionContent, tool];
  const authority = [sessionId, onBehalfOf, grantId, intentContractId, escalationId, keyId];
  return `${JSON.stringify([id, workspaceId, ...said, ...authority])}\t${metadataText}`;
}

type Said = [string, boolean, string, string, string, string, string | null];
type Authority = [string | null, string | null, string | null, string | null, string | null, string];

/** The question of a line. Throws for a line that is none. */
export function questionFrom(line: Buffer): Question {
  const tab = line.indexOf(TAB);
  const [id, workspaceId, ...rest] = JSON.parse(line.toString("utf8", 0, tab)) as [
    number,
    string,
    ...Said,
    ...Authority,
  ];
  const [decisionId, isRetryable, agentId, actionType, normalisedType, actionContent, tool, ...authority] = rest;
  const [sessionId, onBehalfOf, grantId, intentContractId, escalationId, keyId] = authority;
  const metadataText = line.toString("utf8", tab + 1);
  const action = {
    decisionId,
    isRetryable,
    agentId,
    actionType,
    normalisedType,
    actionContent,
    metadata: metadataText === "" ? undefined : JSON.parse(metadataText),
    metadataText,
    tool: tool ?? undefined,
    sessionId: sessionId ?? undefined,
    onBehalfOf: onBehalfOf ?? undefined,
    grantId: grantId ?? undefined,
    intentContractId: intentContractId ?? undefined,
    escalationId: escalationId ?? undefined,
    keyId,
  };
  return { id, workspaceId, action };
}

/** The line of a decision. */
export function lineFromSealed(id: number, sealed: SealedDecision): string {
  const { seq, atMs, decision, path, trustBeforeTenths, trustAfterTenths, escalationId, policyName, reasons } = sealed;
  const outcome = [seq, atMs, decision, path, trustBeforeTenths, trustAfterTenths, escalationId, policyName, reasons];
  return JSON.stringify([id, ...outcome]);
}

/** The line of a failure. Its cause goes along as text, for the log. */
export function lineFromError(id: number, { reason, message, metadata, cause }: ControlPlaneError): string {
  const text = cause instanceof Error ? cause.stack : cause;
  return JSON.stringify([id, { reason, message, metadata, cause: text === undefined ? undefined : String(text) }]);
}

interface Failure {
  readonly reason: ErrorReason;
  readonly message: string;
  readonly metadata: Readonly<Record<string, string>>;
  readonly cause?: string;
}

type SealedList = [
  number,
  number,
  SealedDecision["decision"],
  SealedDecision["path"],
  number,
  number,
  string | null,
  string | null,
  SealedDecision["reasons"],
];

/** The answer of a line. Throws for a line that is none. */
export function answerFrom(line: Buffer): Answer {
  const [id, ...list] = JSON.parse(line.toString()) as [number, Failure] | [number, ...SealedList];
  if (typeof list[0] === "object") {
    const { reason, message, metadata, cause } = list[0];
    return { id, error: new ControlPlaneError(reason, message, metadata, { cause }) };
  }
  const [seq, atMs, decision, path, trustBeforeTenths, trustAfterTenths, escalationId, policyName, reasons] =
    list as SealedList;
  const trust = { trustBeforeTenths, trustAfterTenths };
  const names = { escalationId: escalationId ?? undefined, policyName: policyName ?? undefined };
  return { id, sealed: { seq, atMs, decision, path, ...trust, ...names, reasons } };
}

/** What was appended to a workspace's log. */
export interface Appended {
  readonly workspaceId: string;
  readonly batch: AppendedBatch;
}

/** The line of what was appended: the only one that is an object. */
export const lineFromAppended = (appended: Appended): string => JSON.stringify(appended);

/** What was appended, of a line; undefined for an answer. Throws for a line that is neither. */
export const appendedFrom = (line: Buffer): Appended | undefined =>
  line[0] === BRACE ? (JSON.parse(line.toString()) as Appended) : undefined;

/** Sends lines; those of one turn of the event loop go out together. */
export function createLineWriter(socket: Socket): (line: string) => void {
  let lines: string[] = [];
  const flush = (): void => {
    if (!socket.destroyed) socket.write(`${lines.join("\n")}\n`);
    lines = [];
  };
  return (line) => {
    if (lines.length === 0) setImmediate(flush);
    lines.push(line);
  };
}

/**
 * Reads what a line writer sent, each line as bytes, which are its reader's only until it returns: texts cut out of a longer
 * one would keep all of it in memory. A line that `onLine` throws for ends the connection.
 */
export function readLines(socket: Socket, onLine: (line: Buffer) => void): void {
  let rest: Buffer = EMPTY;
  socket.on("data", (chunk: Buffer) => {
    const bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    let start = 0;
    try {
      for (let end = bytes.indexOf(LINE_FEED); end >= 0; end = bytes.indexOf(LINE_FEED, start)) {
        onLine(bytes.subarray(start, end));
        start = end + 1;
      }
      rest = start === bytes.length ? EMPTY : bytes.subarray(start);
    } catch (error) {
      socket.destroy(error as Error);
    }
  });
}

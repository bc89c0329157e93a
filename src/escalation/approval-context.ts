import type { JsonObject } from "@bufbuild/protobuf";
import type { PoolClient } from "pg";
import { Turns } from "../async/turns.ts";
import type { DecisionBody, DecisionReceipt } from "../log/receipts.ts";
import { type Comparable, comparableFrom, isJsonObject, ownValue } from "../policy/json-value.ts";
import { argumentsFrom, normaliseName } from "../policy/names.ts";
import { listDecisionReceipts } from "../registry/decisions.ts";
import { MAX_PAGE_BYTES } from "../registry/page.ts";
import type { EscalationStatus } from "../state/escalations.ts";
import { escalationStatusFromNumber } from "../state/types.ts";
import { findFirstAfter } from "../store/sql/read-decisions.ts";
import { readAllowedActions, readResolvedEscalations } from "../store/sql/read-escalation-context.ts";
import { readWithin } from "../store/transaction.ts";
import {
  type ArgumentValue,
  argumentValues,
  type Currency,
  currencyOf,
  cutArguments,
  valuesAt,
} from "./argument-values.ts";
import { type Escalation, type EscalationContext, getEscalation } from "./escalation.ts";

const DAY_MS = 86_400_000;
/** Age of the oldest action that shows what is usual. */
const USUAL_MS = 90 * DAY_MS;
const MAX_ACTIONS = 500;
const MAX_ANSWERS = 1_000;
const MAX_BEFORE = 10;
/** Maximum number of rows that are searched for those of the same tool, and of bytes of their bodies. */
const MAX_LOOKED_AT = 5_000;
const MAX_LOOKED_AT_BYTES = 16_777_216;
/** Bytes of the largest body that is compared: parsing a larger one would take a turn of the event loop. */
const MAX_BODY_BYTES = 262_144;
/** Maximum number of numbers, and of texts, that are compared. */
const MAX_COMPARED = 20;
/** Characters of the longest text that is compared. */
const MAX_TEXT = 512;
/** Bytes of the arguments that are shown of each decision before. */
const MAX_ARGUMENT_BYTES = 4_096;
/** Milliseconds that PostgreSQL gives each statement. */
const LIMIT = { statementMs: 10_000, message: "reading what the escalation compares with took too long; try again" };
/** Members of the metadata that name the called tool, where the metadata itself are the arguments. */
const NAMES_OF_TOOL = ["tool", "mcp_server"];

/** A number of an action, with those that the agent usually sends at the same path. */
export interface UsualNumber {
  readonly argument: string;
  readonly value: number;
  readonly currency: string | undefined;
  readonly count: number;
  /** Undefined if `count` is 0. */
  readonly spread: Spread | undefined;
}

/** Spread of some numbers. */
interface Spread {
  readonly minimum: number;
  readonly median: number;
  readonly percentile95: number;
  readonly maximum: number;
}

/** A person's answer to an escalation. */
export interface EarlierAnswer {
  readonly escalationId: string;
  readonly status: EscalationStatus;
  /** True if the person approved it with other arguments. */
  readonly isEdited: boolean;
  readonly resolvedBy: string;
  readonly resolvedAtMs: number;
  readonly note: string | null;
}

/** A text of an action, with the answers to escalations that had the same text at the same path. */
export interface EarlierAnswers {
  readonly argument: string;
  readonly value: string;
  readonly approved: number;
  readonly rejected: number;
  readonly edited: number;
  readonly expired: number;
  readonly last: EarlierAnswer | undefined;
}

/** A decision before an escalation, with the arguments of its action as far as there is room. */
export interface PrecedingDecision {
  readonly receipt: DecisionReceipt;
  readonly arguments: JsonObject | undefined;
  readonly isCut: boolean;
}

/** Past of an agent and a workspace that a person compares an escalated action with. */
export interface ApprovalContext {
  readonly usual: readonly UsualNumber[];
  readonly usualFrom: number;
  readonly earlier: readonly EarlierAnswers[];
  readonly earlierFrom: number;
  /** Newest first. */
  readonly before: readonly PrecedingDecision[];
}

interface ResolvedRow {
  readonly escalationId: string;
  readonly status: number;
  readonly resolvedBy: string;
  readonly resolvedAtMs: number;
  readonly note: string | null;
  readonly isEdited: boolean;
  readonly body: string;
}

/**
 * Reads what a person compares an escalated action with, on one connection and within bounds of rows, bytes and time. Throws
 * ESCALATION_NOT_FOUND, ENTRY_DAMAGED, STORE_UNAVAILABLE, and OVERLOADED if PostgreSQL takes too long.
 */
export async function readApprovalContext(context: EscalationContext, escalationId: string): Promise<ApprovalContext> {
  const escalation = await getEscalation(context, escalationId, null);
  const { pool, log } = context;
  const { workspaceId } = log;
  const read = await readWithin(pool, LIMIT, async (client) => ({
    actions: await readActions(client, workspaceId, escalation),
    answers: await readAnswers(client, workspaceId, escalation),
    before: await readBefore(client, workspaceId, escalation),
  }));
  const compared = comparedValues(escalation.receipt.body);
  const turns = new Turns();
  return {
    usual: await usualNumbers(compared.numbers, read.actions, turns),
    usualFrom: read.actions.length,
    earlier: await earlierAnswers(compared.texts, read.answers, turns),
    earlierFrom: read.answers.length,
    before: read.before.map((receipt) => ({ receipt, ...cutArguments(argumentsOf(receipt.body), MAX_ARGUMENT_BYTES) })),
  };
}

/** Lists the parameters that keep entries of the same action within their bounds. */
function sameAction({ receipt }: Escalation, maxRows: number): unknown[] {
  const { tool = null, action_type: actionType } = receipt.body.action;
  const inBody = tool === null ? null : `"tool":${JSON.stringify(tool)}`;
  return [tool, inBody, normaliseName(actionType), MAX_BODY_BYTES, MAX_LOOKED_AT_BYTES, maxRows, MAX_PAGE_BYTES];
}

async function readActions(client: PoolClient, workspaceId: string, escalation: Escalation): Promise<string[]> {
  const { agentId, createdSeq, receipt } = escalation;
  const sinceMs = Date.parse(receipt.body.at) - USUAL_MS;
  const first = await client.query<{ seq: number }>({
    ...findFirstAfter,
    values: [workspaceId, sinceMs - 1, createdSeq],
  });
  const stretch = [first.rows[0]?.seq ?? createdSeq, createdSeq, MAX_LOOKED_AT];
  const values = [workspaceId, agentId, ...sameAction(escalation, MAX_ACTIONS), ...stretch];
  const { rows } = await client.query<{ body: string }>({ ...readAllowedActions, values });
  return rows.map(({ body }) => body);
}

async function readAnswers(client: PoolClient, workspaceId: string, escalation: Escalation): Promise<ResolvedRow[]> {
  const { escalationId, resolvedSeq } = escalation;
  const before = resolvedSeq ?? Number.MAX_SAFE_INTEGER;
  const values = [workspaceId, escalationId, ...sameAction(escalation, MAX_ANSWERS), before, MAX_LOOKED_AT];
  return (await client.query<ResolvedRow>({ ...readResolvedEscalations, values })).rows;
}

async function readBefore(client: PoolClient, workspaceId: string, escalation: Escalation) {
  const { agentId, createdSeq, receipt } = escalation;
  const sessionId = receipt.body.session_id;
  const filter = sessionId === undefined ? { agentId } : { sessionId };
  const page = { size: MAX_BEFORE, after: createdSeq };
  return (await listDecisionReceipts(client, workspaceId, filter, page)).items;
}

const argumentsOf = ({ action }: Pick<DecisionBody, "action">): JsonObject | undefined =>
  argumentsFrom(action.metadata as JsonObject | undefined);

/** Returns the arguments of an action from the body of its decision; undefined if there are none. */
const argumentsIn = (body: string): JsonObject | undefined => argumentsOf(JSON.parse(body) as DecisionBody);

/** Lists the numbers and texts of an action that are compared, those that a reason is about first. */
function comparedValues(body: DecisionBody) {
  const args = argumentsOf(body);
  if (args === undefined) return { numbers: [], texts: [] };
  const isNested = isJsonObject(ownValue((body.action.metadata ?? {}) as JsonObject, "arguments"));
  const without = new Set(isNested ? [] : [...NAMES_OF_TOOL, ...(body.digest_ignores ?? [])]);
  const fired = new Set(body.reasons.map(({ argument }) => argument));
  const values = argumentValues(args, without);
  const ordered = [...values.filter(({ path }) => fired.has(path)), ...values.filter(({ path }) => !fired.has(path))];
  return { numbers: largestByPath(ordered), texts: distinctTexts(ordered) };
}

type NumberValue = ArgumentValue & { readonly value: number };
type TextValue = ArgumentValue & { readonly value: string; readonly comparable: Comparable };

function largestByPath(values: readonly ArgumentValue[]): readonly NumberValue[] {
  const byPath = new Map<string, NumberValue>();
  for (const each of values) {
    if (!isNumber(each)) continue;
    const known = byPath.get(each.path);
    if (known === undefined ? byPath.size < MAX_COMPARED : known.value < each.value) byPath.set(each.path, each);
  }
  return [...byPath.values()];
}

const isNumber = (each: ArgumentValue): each is NumberValue => typeof each.value === "number";

function distinctTexts(values: readonly ArgumentValue[]): readonly TextValue[] {
  const found = new Map<string, TextValue>();
  for (const each of values) {
    if (found.size === MAX_COMPARED) break;
    const comparable = comparedText(each.value);
    if (comparable === undefined) continue;
    const key = `${each.path} ${comparable}`;
    if (!found.has(key)) found.set(key, { ...each, value: each.value as string, comparable });
  }
  return [...found.values()];
}

/** Returns a text as it is compared; undefined for other values, blank texts and long ones. */
function comparedText(value: string | number): Comparable | undefined {
  if (typeof value !== "string" || value.length > MAX_TEXT) return undefined;
  const comparable = comparableFrom(value);
  return comparable === "" ? undefined : comparable;
}

async function usualNumbers(
  numbers: readonly NumberValue[],
  bodies: readonly string[],
  turns: Turns,
): Promise<readonly UsualNumber[]> {
  const usual = numbers.map((each) => ({ ...each, currency: currencyOf(each), found: [] as number[] }));
  if (usual.length === 0) return [];
  for (const body of bodies) {
    const args = argumentsIn(body);
    if (args !== undefined) {
      for (const { steps, currency, found } of usual) {
        for (const { value, parent } of valuesAt(args, steps)) {
          if (typeof value === "number" && isSameCurrency(currency, currencyOf({ steps, parent }))) found.push(value);
        }
      }
    }
    await turns.giveWay();
  }
  return usual.map(({ path, value, currency, found }) => ({
    argument: path,
    value,
    currency: currency?.text,
    count: found.length,
    spread: spreadOf(found),
  }));
}

/** Tests whether two amounts may be compared. Contradicting currencies equal nothing. */
const isSameCurrency = (one: Currency | null | undefined, other: Currency | null | undefined): boolean =>
  one !== null && other !== null && one?.code === other?.code;

function spreadOf(numbers: readonly number[]): Spread | undefined {
  const sorted = Float64Array.from(numbers).sort();
  const at = (index: number): number => sorted[index] as number;
  const { length } = sorted;
  if (length === 0) return undefined;
  const middle = Math.floor(length / 2);
  return {
    minimum: at(0),
    // Half of each, since their sum may exceed the largest number.
    median: length % 2 === 1 ? at(middle) : at(middle - 1) / 2 + at(middle) / 2,
    percentile95: at(Math.ceil(length * 0.95) - 1),
    maximum: at(length - 1),
  };
}

async function earlierAnswers(
  texts: readonly TextValue[],
  rows: readonly ResolvedRow[],
  turns: Turns,
): Promise<readonly EarlierAnswers[]> {
  const earlier = texts.map((text) => ({ text, rows: [] as ResolvedRow[] }));
  if (earlier.length === 0) return [];
  for (const row of rows) {
    const args = argumentsIn(row.body);
    if (args !== undefined) {
      for (const { text, rows: same } of earlier) {
        if (valuesAt(args, text.steps).some(({ value }) => comparedText(value) === text.comparable)) same.push(row);
      }
    }
    await turns.giveWay();
  }
  return earlier.map(({ text, rows: same }) => ({ argument: text.path, value: text.value, ...answersOf(same) }));
}

/** Ends of an escalation without a person's answer. */
const WITHOUT_PERSON: readonly string[] = ["expiry", "withdrawal"];

function answersOf(rows: readonly ResolvedRow[]): Omit<EarlierAnswers, "argument" | "value"> {
  const answered = rows.filter(({ resolvedBy }) => !WITHOUT_PERSON.includes(resolvedBy));
  const approved = answered.filter(({ status }) => escalationStatusFromNumber(status) === "approved").length;
  const edited = answered.filter(({ isEdited }) => isEdited).length;
  return {
    approved,
    edited,
    rejected: answered.length - approved - edited,
    expired: rows.filter(({ resolvedBy }) => resolvedBy === "expiry").length,
    last: answered[0] && answerFrom(answered[0]),
  };
}

const answerFrom = ({ body: _, status, ...row }: ResolvedRow): EarlierAnswer => ({
  ...row,
  status: escalationStatusFromNumber(status),
});

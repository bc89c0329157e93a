import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import type { ChangedQuestion } from "../../../gen/agentcontrol/v1/dry_run_service_pb.js";
import { ErrorReason, invalidField } from "../../errors.ts";
import { isJsonObject, ownValue } from "../../policy/json-value.ts";
import type { WorkspaceState } from "../../state/workspace.ts";
import { stored } from "../../store/database.ts";
import { readLastMandateVersions, readMandateVersions } from "../../store/sql/read-mandates.ts";
import type { Reader } from "../../store/transaction.ts";
import { canonicalJson } from "../../tree/canonical.ts";
import { counted, type Evidence, type Findings, plain, quoted, sentence } from "./answer.ts";
import { absent, findMandate } from "./subjects.ts";

const MANDATE = "changed.mandate";
const MANDATE_ID = /^mnd_[a-z0-9]{1,60}$/;
/** Maximum number of differences in the text; the evidence has more. */
const MAX_SAID = 5;
/** Maximum number of differences that are looked for; a mandate has at most 200 rules of 100 conditions. */
const MAX_DIFFERENCES = 1_000;

interface MandateVersion {
  readonly mandateId: string;
  readonly version: number;
  readonly definition: JsonObject;
}

/** One difference: its place in the version that has it, and its description. */
interface Difference {
  readonly version: number;
  readonly rule: string | undefined;
  readonly text: string;
}

/** Answers what changed between two versions of a mandate; without versions, between the last two. */
export async function changedAnswer(
  reader: Reader,
  state: WorkspaceState,
  { mandate: name, fromVersion, toVersion }: ChangedQuestion,
): Promise<Findings> {
  if ((fromVersion === undefined) !== (toVersion === undefined)) {
    throw invalidField("changed", "must have both `from_version` and `to_version`, or neither");
  }
  const asked = fromVersion === undefined || toVersion === undefined ? undefined : ([fromVersion, toVersion] as const);
  const mandateId = findMandate(state, name)?.compiled.id ?? (MANDATE_ID.test(name) ? name : undefined);
  if (mandateId === undefined) throw absent(MANDATE, ErrorReason.MANDATE_NOT_FOUND, "a mandate in force", name);
  const [before, after] = await readTwo(reader, state.workspaceId, mandateId, name, asked);
  const mandateName = String(after.definition.name);
  const title = `mandate ${quoted(mandateName)}`;
  if (before.version === after.version) {
    return { sentences: [`${sentence(`${title} has one version`)} Nothing was compared.`], evidence: [] };
  }
  const differences = differencesOf(before, after);
  const versions = `versions ${before.version} and ${after.version} of ${title}`;
  if (differences.length === 0) return { sentences: [`Nothing differs between ${versions}.`], evidence: [] };
  const evidence = differences.map((each): Evidence => ({ mandateId, mandateName, ...each }));
  const more = differences.length - MAX_SAID;
  return {
    sentences: [
      `${sentence(counted(differences.length, "difference")).slice(0, -1)} between ${versions}.`,
      ...differences.slice(0, MAX_SAID).map(({ rule, text }) => (rule === undefined ? text : `In ${rule}: ${text}`)),
      ...(more > 0 ? [`The evidence has ${more} more.`] : []),
    ],
    evidence,
  };
}

async function readTwo(
  reader: Reader,
  workspaceId: string,
  mandateId: string,
  name: string,
  asked: readonly [number, number] | undefined,
): Promise<readonly [MandateVersion, MandateVersion]> {
  const query =
    asked === undefined
      ? { ...readLastMandateVersions, values: [workspaceId, mandateId] }
      : { ...readMandateVersions, values: [workspaceId, mandateId, [...asked]] };
  const { rows } = await stored(reader.query<MandateVersion & {}>(query));
  if (asked === undefined) {
    const [after, before = after] = rows;
    if (after === undefined || before === undefined)
      throw absent(MANDATE, ErrorReason.MANDATE_NOT_FOUND, "the mandate", name);
    return [before, after];
  }
  const [before, after] = asked.map((version) => rows.find((row) => row.version === version));
  if (before !== undefined && after !== undefined) return [before, after];
  if (rows.length === 0) await assertExists(reader, workspaceId, mandateId, name);
  const [missing, field] = before === undefined ? [asked[0], "from_version"] : [asked[1], "to_version"];
  throw invalidField(`changed.${field}`, `names version ${missing}, which mandate \`${mandateId}\` does not have`);
}

async function assertExists(reader: Reader, workspaceId: string, mandateId: string, name: string): Promise<void> {
  const query = { ...readLastMandateVersions, values: [workspaceId, mandateId] };
  const { rows } = await stored(reader.query<MandateVersion & {}>(query));
  if (rows.length === 0) throw absent(MANDATE, ErrorReason.MANDATE_NOT_FOUND, "the mandate", name);
}

function differencesOf(before: MandateVersion, after: MandateVersion): readonly Difference[] {
  const { rules: oldRules, ...oldFields } = before.definition;
  const { rules: newRules, ...newFields } = after.definition;
  const fields = fieldDifferences("", oldFields, newFields).map((text) => ({
    version: after.version,
    rule: undefined,
    text,
  }));
  const rules = ruleDifferences(before.version, listOf(oldRules), after.version, listOf(newRules));
  return [...fields, ...rules].slice(0, MAX_DIFFERENCES);
}

const listOf = (value: JsonValue | undefined): readonly JsonValue[] => (Array.isArray(value) ? value : []);

/** Compares the rules of two versions. Those that lie between equal rules are compared in order. */
function ruleDifferences(
  oldVersion: number,
  oldRules: readonly JsonValue[],
  newVersion: number,
  newRules: readonly JsonValue[],
): readonly Difference[] {
  const differences: Difference[] = [];
  for (const { oldFrom, oldTo, newFrom, newTo } of gapsBetween(oldRules.map(keyOf), newRules.map(keyOf))) {
    const pairs = Math.min(oldTo - oldFrom, newTo - newFrom);
    for (let at = 0; at < pairs; at++) {
      const rule = `rules[${newFrom + at}]`;
      const moved = oldFrom === newFrom ? "" : `, rules[${oldFrom + at}] before: `;
      for (const text of fieldDifferences("", oldRules[oldFrom + at], newRules[newFrom + at])) {
        differences.push({ version: newVersion, rule, text: moved === "" ? text : `${moved.slice(2)}${text}` });
      }
    }
    for (let at = oldFrom + pairs; at < oldTo; at++) {
      const text = sentence(`the rule was removed: ${shown(oldRules[at])}`);
      differences.push({ version: oldVersion, rule: `rules[${at}]`, text });
    }
    for (let at = newFrom + pairs; at < newTo; at++) {
      const text = sentence(`the rule was added: ${shown(newRules[at])}`);
      differences.push({ version: newVersion, rule: `rules[${at}]`, text });
    }
  }
  return differences;
}

const keyOf = (value: JsonValue): string => canonicalJson(value);

interface Gap {
  readonly oldFrom: number;
  readonly oldTo: number;
  readonly newFrom: number;
  readonly newTo: number;
}

/** Finds a longest common subsequence and returns what lies between its members. */
function gapsBetween(olds: readonly string[], news: readonly string[]): readonly Gap[] {
  const width = news.length + 1;
  const lengths = new Uint16Array((olds.length + 1) * width);
  const at = (row: number, column: number): number => lengths[row * width + column] ?? 0;
  for (let row = olds.length - 1; row >= 0; row--) {
    for (let column = news.length - 1; column >= 0; column--) {
      lengths[row * width + column] =
        olds[row] === news[column] ? at(row + 1, column + 1) + 1 : Math.max(at(row + 1, column), at(row, column + 1));
    }
  }
  const gaps: Gap[] = [];
  let [oldFrom, newFrom] = [0, 0];
  let [row, column] = [0, 0];
  while (row < olds.length && column < news.length) {
    if (olds[row] === news[column]) {
      gaps.push({ oldFrom, oldTo: row, newFrom, newTo: column });
      [oldFrom, newFrom] = [++row, ++column];
    } else if (at(row + 1, column) >= at(row, column + 1)) row++;
    else column++;
  }
  return [...gaps, { oldFrom, oldTo: olds.length, newFrom, newTo: news.length }];
}

/** Describes each member that differs by its old and its new value. */
function fieldDifferences(
  path: string,
  before: JsonValue | undefined,
  after: JsonValue | undefined,
): readonly string[] {
  if (isJsonObject(before) && isJsonObject(after)) {
    const names = [...new Set([...Object.keys(before), ...Object.keys(after)])].sort();
    return names.flatMap((name) =>
      fieldDifferences(path === "" ? name : `${path}.${name}`, ownValue(before, name), ownValue(after, name)),
    );
  }
  if (Array.isArray(before) && Array.isArray(after) && before.some(isJsonObject) && after.some(isJsonObject)) {
    return Array.from({ length: Math.max(before.length, after.length) }, (_, index) =>
      fieldDifferences(`${path}[${index}]`, before[index], after[index]),
    ).flat();
  }
  if (before === undefined || after === undefined) {
    if (before === after) return [];
    const [verb, value] = before === undefined ? ["added", after] : ["removed", before];
    return [sentence(`\`${plain(path)}\` was ${verb}: ${shown(value)}`)];
  }
  if (keyOf(before) === keyOf(after)) return [];
  return [sentence(`\`${plain(path)}\` was ${shown(before)} and is ${shown(after)}`)];
}

function shown(value: JsonValue | undefined): string {
  return plain(JSON.stringify(value) ?? "nothing");
}

import { parentPort } from "node:worker_threads";
import type { JsonObject } from "@bufbuild/protobuf";
import { LRUCache } from "lru-cache";
import { plainText } from "../../text/fold.ts";
import { TOO_LONG } from "../checks.ts";
import { PatternSet } from "../patterns.ts";
import { compileValidator } from "../schema/validate.ts";
import type { SchemaError, ValidatorResult } from "../types.ts";
import { KEPT_SCHEMAS } from "./kept.ts";

/** Job that looks for patterns in a text, as given and in its plain form. */
export interface PatternJob {
  readonly kind: "patterns";
  readonly patterns: readonly string[];
  readonly text: string;
}

/** Job that compiles a schema, given as JSON text, which is fast to copy to the thread. */
export interface CompileJob {
  readonly kind: "compile";
  readonly digest: string;
  readonly schema: string;
}

/** Job that checks arguments, given as JSON text, against a schema that was compiled before. */
export interface SchemaJob {
  readonly kind: "schema";
  readonly digest: string;
  readonly args: string;
}

/** One piece of work for the thread. */
export type Job = PatternJob | CompileJob | SchemaJob;

/**
 * In how many forms each pattern is found, or the first error of arguments. Null if there is no error; undefined if the check took
 * too many steps.
 */
export type JobResult = readonly number[] | SchemaError | null | undefined;

/** Maximum bytes of the automaton of one set of patterns. */
const AUTOMATON_BYTES = 8_388_608;
/** Maximum number of sets of patterns that are kept compiled. */
const KEPT_SETS = 16;
/** Maximum steps of one schema check, of some 100 ns each. */
const MAX_STEPS = 5_000_000;

const sets = new LRUCache<string, PatternSet, readonly string[]>({
  max: KEPT_SETS,
  memoMethod: (_key, _stale, { context: patterns }) => new PatternSet(patterns, 0, AUTOMATON_BYTES),
});
const validators = new LRUCache<string, ValidatorResult>({ max: KEPT_SCHEMAS });

function resultOf(job: Job): JobResult {
  switch (job.kind) {
    case "patterns":
      return searched(job);
    case "compile":
      validators.set(job.digest, compileValidator(JSON.parse(job.schema) as JsonObject));
      return null;
    case "schema":
      return validated(job);
  }
}

function searched({ patterns, text }: PatternJob): readonly number[] {
  const set = sets.memo(JSON.stringify(patterns), { context: patterns });
  const plain = plainText(text);
  const given = set.search(text);
  const forms = [given, plain === text ? given : set.search(plain)];
  return patterns.map((_, index) => forms.filter((found) => found.includes(index)).length);
}

function validated({ digest, args }: SchemaJob): JobResult {
  const compiled = validators.get(digest);
  if (compiled === undefined || compiled.kind === "invalid") return undefined;
  const { error } = compiled.validate(JSON.parse(args) as JsonObject, MAX_STEPS);
  return error === TOO_LONG ? undefined : (error ?? null);
}

// An uncaught exception ends the thread; its checks then count as too long.
parentPort?.on("message", (jobs: readonly Job[]) => parentPort?.postMessage(jobs.map(resultOf)));

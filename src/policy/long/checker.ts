import type { JsonObject } from "@bufbuild/protobuf";
import { LRUCache } from "lru-cache";
import type { Holder } from "../../async/shared-pot.ts";
import { Slots } from "../../async/slots.ts";
import { besideModule, WorkerThread } from "../../async/worker-thread.ts";
import { overShare } from "../../errors.ts";
import type { LongAnswers, LongCheck } from "../checks.ts";
import type { SchemaError, ToolSchema } from "../types.ts";
import { KEPT_SCHEMAS } from "./kept.ts";
import type { Job, JobResult } from "./thread.ts";

/** Time limits of the thread, in milliseconds. */
interface TimeLimits {
  /** For the long checks of one decision. Checks without an answer by then count as `TOO_LONG`. */
  readonly checkMs: number;
  /** For starting a thread, and for compiling a schema of the size that rules may check, once for each thread. */
  readonly prepareMs: number;
}

const LIMITS: TimeLimits = { checkMs: 250, prepareMs: 3_000 };
/** Decisions that use the thread or wait for it, of which one workspace alone has half, one agent a fifth. Further ones get no answers. */
const MAX_DECISIONS = 84;

/**
 * Makes long checks in a thread of its own, so that they block nothing else. Workspaces take turns. A decision whose checks
 * take too long is answered without them, and a new thread is started.
 */
export class LongChecker {
  readonly #slots = new Slots({
    name: "long_checks",
    permits: 1,
    size: MAX_DECISIONS,
    unit: "decisions with long checks",
    advice: "decide fewer long texts at once",
    retryAfterSeconds: 1,
    refuse: overShare,
  });
  readonly #thread = new WorkerThread<readonly Job[], readonly JobResult[]>(
    besideModule(import.meta.url, "thread"),
    () => this.#compiled.clear(),
  );
  /** Digests of the schemas that the thread has compiled and not dropped: both sides use them in the same order. */
  readonly #compiled = new LRUCache<string, true>({ max: KEPT_SCHEMAS });
  readonly #limits: TimeLimits;

  /** `limits`: by default a quarter of a second for the checks of a decision, and 3 seconds for preparing them. */
  constructor(limits = LIMITS) {
    this.#limits = limits;
  }

  /**
   * Makes checks for a decision. Resolves with the answers. A check is missing from them if it took too long, if its workspace or
   * agent has its share of decisions here, or if its caller left.
   */
  async run(holder: Holder, checks: readonly LongCheck[], signal: AbortSignal): Promise<LongAnswers> {
    const release = await this.#slots.acquireIfRoom(holder, signal);
    if (release === undefined) return NO_ANSWERS;
    try {
      return await this.#answersOf(checks);
    } catch {
      // A fault of one decision's checks must not stop the ones behind it.
      return NO_ANSWERS;
    } finally {
      release();
    }
  }

  /** Ends the thread and answers every waiting caller. */
  async close(): Promise<void> {
    await this.#thread.close();
  }

  async #answersOf(checks: readonly LongCheck[]): Promise<LongAnswers> {
    if (!this.#thread.isStarted) await this.#thread.run([], this.#limits.prepareMs);
    const patterns = patternsByText(checks);
    const schemas = checks.filter((check) => check.kind === "schema");
    for (const { tool } of schemas) if (!(await this.#isCompiled(tool))) return NO_ANSWERS;
    const jobs: Job[] = [
      ...[...patterns].map(([text, wanted]) => ({ kind: "patterns", patterns: [...wanted].sort(), text }) as const),
      ...schemas.map(
        ({ tool, args }) => ({ kind: "schema", digest: tool.digest, args: JSON.stringify(args) }) as const,
      ),
    ];
    const results = await this.#thread.run(jobs, this.#limits.checkMs);
    if (results === undefined) return NO_ANSWERS;
    return {
      patterns: new Map([...patterns.keys()].map((text, index) => [text, formsIn(jobs[index], results[index])])),
      schemas: errorsFrom(schemas, results.slice(patterns.size)),
    };
  }

  /** Lets the thread compile a tool's schema, unless it is compiled. Resolves with false if that takes too long. */
  async #isCompiled({ digest, inputSchema }: ToolSchema): Promise<boolean> {
    if (this.#compiled.get(digest) !== undefined) return true;
    const job = { kind: "compile", digest, schema: JSON.stringify(inputSchema) } as const;
    if ((await this.#thread.run([job], this.#limits.prepareMs)) === undefined) return false;
    this.#compiled.set(digest, true);
    return true;
  }
}

const NO_ANSWERS: LongAnswers = { patterns: new Map(), schemas: new Map() };

/** Groups the patterns by the text in which they are looked for, so that each text is read once for all of them. */
function patternsByText(checks: readonly LongCheck[]): Map<string, Set<string>> {
  const byText = new Map<string, Set<string>>();
  for (const check of checks) {
    if (check.kind !== "patterns") continue;
    const wanted = byText.get(check.text) ?? new Set();
    for (const pattern of check.patterns) wanted.add(pattern);
    byText.set(check.text, wanted);
  }
  return byText;
}

function formsIn(job: Job | undefined, result: JobResult): ReadonlyMap<string, number> {
  const patterns = job?.kind === "patterns" ? job.patterns : [];
  const counts = Array.isArray(result) ? (result as readonly number[]) : [];
  return new Map(patterns.map((pattern, index) => [pattern, counts[index] ?? 0]));
}

function errorsFrom(checks: readonly Extract<LongCheck, { kind: "schema" }>[], results: readonly JobResult[]) {
  const byDigest = new Map<string, Map<JsonObject, SchemaError | null>>();
  checks.forEach(({ tool, args }, index) => {
    const error = results[index];
    if (error === undefined) return;
    const known = byDigest.get(tool.digest) ?? new Map<JsonObject, SchemaError | null>();
    byDigest.set(tool.digest, known.set(args, error as SchemaError | null));
  });
  return byDigest;
}

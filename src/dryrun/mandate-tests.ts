import { Slots } from "../async/slots.ts";
import { ControlPlaneError, ErrorReason, notFound, overShare } from "../errors.ts";
import { toolKey } from "../policy/names.ts";
import { type Page, type PageRequest, pageFrom } from "../registry/page.ts";
import { type MandateState, mandateSourceFrom } from "../state/policies.ts";
import type { WorkspaceState } from "../state/workspace.ts";
import { type Database, stored } from "../store/database.ts";
import { MandateTestEntity } from "../store/entities.ts";
import { readLastMandateVersions, readMandateTests } from "../store/sql/read-mandates.ts";
import type { DryRunParts } from "./dry-runs.ts";
import { generateTests } from "./generate-tests.ts";
import type { MandateTest, TestNote, TestSuite } from "./mandate-test.ts";
import { type AnswerLongChecks, runTests, type TestRun } from "./run-tests.ts";

/** Parts that the tests of mandates need: those of dry runs, and the database in which generated tests are stored. */
export interface MandateTestParts extends DryRunParts {
  readonly database: Database;
}

/** Query of the tests of a mandate. `signal` aborts when the caller leaves. */
export interface TestQuestion {
  readonly workspaceId: string;
  readonly mandateId: string;
  readonly signal: AbortSignal;
}

/** Tests with the version of the mandate that they are stored with. */
export interface StoredSuite extends TestSuite {
  readonly version: number;
}

/** Calls that generate or run tests or wait for their turn, of which one workspace alone may have half. */
const MAX_CALLS = 34;

const NO_TESTS: TestSuite = { tests: [], notes: [] };

/** Paths such as `rules[3].conditions` name the rule. */
const RULE_INDEX = /^rules\[(\d+)\]/;

/** Returns the indices of the rules of a mandate that no longer compile. */
function staleRules({ compiled }: MandateState): ReadonlySet<number> {
  const paths = compiled.violations.map(({ path }) => RULE_INDEX.exec(path)?.[1]);
  return new Set(paths.filter((index) => index !== undefined).map(Number));
}

/** Generates, stores and runs the tests of mandates. Running and listing write nothing. */
export class MandateTests {
  readonly #parts: MandateTestParts;
  // One at a time: they compute in the event loop.
  readonly #slots = new Slots({
    name: "mandate_tests",
    permits: 1,
    size: MAX_CALLS,
    unit: "calls that generate or run tests of mandates",
    advice: "make fewer at once",
    retryAfterSeconds: 2,
    refuse: overShare,
  });

  constructor(parts: MandateTestParts) {
    this.#parts = parts;
  }

  /**
   * Generates the tests of the version in force and stores them in place of those of earlier versions. Rejects with
   * MANDATE_NOT_FOUND, MANDATE_ARCHIVED or OVERLOADED.
   */
  async generate({ workspaceId, mandateId, signal }: TestQuestion): Promise<StoredSuite> {
    const { logs, database } = this.#parts;
    const state = await (await logs.of(workspaceId)).caughtUp();
    const mandate = await this.#inForce(state, mandateId);
    const { version } = mandate.compiled;
    const source = mandateSourceFrom(mandate.sealed);
    const work = () => generateTests(source, toolsOf(state), staleRules(mandate), signal);
    const suite = await this.#slots.run(work, { workspaceId }, signal);
    const row = { workspaceId, mandateId, version, suite: JSON.stringify(suite), createdAtMs: logs.clock.now() };
    await stored(
      database.orm.em.fork().transactional(async (transaction) => {
        await transaction.upsert(MandateTestEntity, row);
        await transaction.nativeDelete(MandateTestEntity, { workspaceId, mandateId, version: { $lt: version } });
      }),
    );
    return { ...suite, version };
  }

  /** Reads a page of the tests of a mandate's last version; a position is a test's place. Rejects with MANDATE_NOT_FOUND. */
  async list(
    { workspaceId, mandateId }: Omit<TestQuestion, "signal">,
    { size, after = -1 }: PageRequest,
  ): Promise<Page<MandateTest> & { readonly version: number; readonly notes: readonly TestNote[] }> {
    const state = await (await this.#parts.logs.of(workspaceId)).caughtUp();
    const inForce = state.policies.mandates.get(mandateId);
    const version = inForce?.compiled.version ?? (await this.#lastVersion(workspaceId, mandateId));
    const { tests, notes } = (await this.#storedSuite(workspaceId, mandateId, version)) ?? NO_TESTS;
    const placed = tests.map((test, place) => ({ test, place })).slice(after + 1);
    const { items, next } = pageFrom(placed.slice(0, size + 1), size, ({ place }) => place);
    return { items: items.map(({ test }) => test), next, version, notes };
  }

  /** Runs the tests of the version in force. Rejects with MANDATE_NOT_FOUND, MANDATE_ARCHIVED or OVERLOADED. */
  async run({ workspaceId, mandateId, signal }: TestQuestion): Promise<{
    readonly runs: readonly TestRun[];
    readonly version: number;
  }> {
    const { logs, checker } = this.#parts;
    const state = await (await logs.of(workspaceId)).caughtUp();
    const { compiled } = await this.#inForce(state, mandateId);
    const { version } = compiled;
    const { tests } = (await this.#storedSuite(workspaceId, mandateId, version)) ?? NO_TESTS;
    const answerLongChecks: AnswerLongChecks = (checks) => checker.run({ workspaceId }, checks, signal);
    const options = { signal, answerLongChecks };
    const work = () => runTests(tests, compiled, toolsOf(state), options);
    const { runs } = await this.#slots.run(work, { workspaceId }, signal);
    return { runs, version };
  }

  async #storedSuite(workspaceId: string, mandateId: string, version: number): Promise<TestSuite | undefined> {
    const query = { ...readMandateTests, values: [workspaceId, mandateId, version] };
    const [row] = (await stored(this.#parts.reads.query<{ suite: string }>(query))).rows;
    return row === undefined ? undefined : (JSON.parse(row.suite) as TestSuite);
  }

  async #inForce({ workspaceId, policies }: WorkspaceState, mandateId: string): Promise<MandateState> {
    const found = policies.mandates.get(mandateId);
    if (found !== undefined) return found;
    await this.#lastVersion(workspaceId, mandateId);
    const message = `mandate \`${mandateId}\` is archived`;
    throw new ControlPlaneError(ErrorReason.MANDATE_ARCHIVED, message, { mandate_id: mandateId });
  }

  /** Reads the number of a mandate's last version, archived or not. Rejects with MANDATE_NOT_FOUND. */
  async #lastVersion(workspaceId: string, mandateId: string): Promise<number> {
    const query = { ...readLastMandateVersions, values: [workspaceId, mandateId] };
    const [row] = (await stored(this.#parts.reads.query<{ version: number }>(query))).rows;
    if (row === undefined) throw notFound(ErrorReason.MANDATE_NOT_FOUND, "mandate", { mandate_id: mandateId });
    return row.version;
  }
}

/** Copies the tools as they are now: the state may change while tests run. */
export function toolsOf({ policies }: WorkspaceState): WorkspaceState["policies"]["lookup"] {
  const tools = new Map(policies.tools);
  return (name) => tools.get(toolKey(name))?.schema;
}

import type { RuleWarning } from "../policy/compile/approval-warnings.ts";
import { namedTools } from "../policy/compile/rule-draft.ts";
import { toolKey } from "../policy/names.ts";
import type { CompiledMandate } from "../policy/types.ts";
import type { WorkspaceState } from "../state/workspace.ts";
import type { Database } from "../store/database.ts";
import { MandateTestEntity } from "../store/entities.ts";
import type { TestResult, TestSuite } from "./mandate-test.ts";
import { toolsOf } from "./mandate-tests.ts";
import { runTests, type TestRun } from "./run-tests.ts";

/** Milliseconds that the tests of one publication may take. */
const MAX_MS = 250;
/** Maximum number of failing tests that are named for each mandate. */
const MAX_NAMED = 20;

/** Lists the mandates in force that name one of some tools. */
export function mandatesNaming({ policies }: WorkspaceState, tools: readonly string[]): readonly CompiledMandate[] {
  const keys = new Set(tools.map(toolKey));
  return [...policies.mandates.values()]
    .map(({ compiled }) => compiled)
    .filter(({ rules }) => rules.some(({ source }) => namedTools(source).some((tool) => keys.has(tool))));
}

/**
 * Runs the tests last generated for some mandates against versions of them, in force or to be published, and names those that fail.
 * Never rejects: what was published stays in force whatever the results. Tests that do not run in time are counted. `prefixOf`
 * returns the text before the paths of a mandate's warnings; default: none.
 */
export async function testWarnings(
  database: Database,
  state: WorkspaceState,
  mandates: readonly CompiledMandate[],
  prefixOf: (mandate: CompiledMandate) => string = () => "",
): Promise<readonly RuleWarning[]> {
  const until = performance.now() + MAX_MS;
  const warnings: RuleWarning[] = [];
  for (const mandate of mandates) {
    const found = await warningsOf(database, state, mandate, until - performance.now()).catch(() => [
      notRun(mandate, "could not be read"),
    ]);
    warnings.push(...found.map((warning) => ({ ...warning, path: `${prefixOf(mandate)}${warning.path}` })));
  }
  return warnings;
}

const notRun = ({ name }: CompiledMandate, why: string): RuleWarning => ({
  path: "rules",
  reason: "TESTS_NOT_RUN",
  message: `tests of mandate \`${name}\` ${why}; run them with \`tests:run\``,
});

async function warningsOf(
  { orm }: Database,
  state: WorkspaceState,
  mandate: CompiledMandate,
  maxMs: number,
): Promise<readonly RuleWarning[]> {
  const { workspaceId } = state;
  const { id: mandateId, version } = mandate;
  const where = { workspaceId, mandateId, version: { $lte: version } };
  const [row] = await orm.em.fork().find(MandateTestEntity, where, { orderBy: { version: "desc" }, limit: 1 });
  if (row === undefined) return [];
  const { tests } = JSON.parse(row.suite) as TestSuite;
  const { runs, notRun: left } = await runTests(tests, mandate, toolsOf(state), { maxMs });
  const failed = runs.filter(({ passed }) => !passed);
  const named = failed.slice(0, MAX_NAMED).map((run) => failedWarning(run, mandate, row.version));
  if (failed.length > named.length) {
    const message = `${failed.length - named.length} further tests of mandate \`${mandate.name}\` fail`;
    named.push({ path: "rules", reason: "TEST_FAILS", message });
  }
  return left === 0 ? named : [...named, notRun(mandate, `of version ${row.version} did not run in time (${left})`)];
}

const isAlike = (actual: TestResult, expected: TestResult): boolean =>
  actual.decision === expected.decision && actual.fires === expected.fires;

function failedWarning({ test, actual }: TestRun, mandate: CompiledMandate, version: number): RuleWarning {
  const { name, rule, expected, testId } = test;
  const fires = actual.fires === expected.fires ? "" : `, and the rule ${actual.fires ? "fires" : "does not fire"}`;
  const decided = `${name} was \`${expected.decision}\` and is \`${actual.decision}\`${fires}`;
  const what = isAlike(actual, expected) ? `after ${name}, its limit has room again at another time` : decided;
  const message = `test \`${testId}\` of version ${version} of mandate \`${mandate.name}\` fails: ${what}`;
  return { path: rule, reason: "TEST_FAILS", message };
}

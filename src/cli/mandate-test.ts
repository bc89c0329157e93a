import { writeFile } from "node:fs/promises";
import { type JsonRecord, textAt } from "../verify/json.ts";
import { ruleViolationLines } from "./caret.ts";
import { type Command, CommandError, type CommandReport } from "./command.ts";
import { recordsOf } from "./dry-run.ts";
import { type JunitSuite, junitXml } from "./junit.ts";
import { readMandates } from "./mandate-commands.ts";
import { nameKey } from "./name-key.ts";
import { type CallService, serviceFrom } from "./service.ts";

const ALONE = "; each test is decided with its mandate alone";
/** Maximum failing tests of one mandate that are printed. */
const MAX_PRINTED = 20;

/** `agentctl mandate test` runs the generated tests against the rules in force. */
export const mandateTest: Command = {
  name: "mandate test",
  arguments: "[mandate]",
  summary: "run the generated tests of a mandate, or of all mandates in force",
  details: [
    "",
    "<mandate> is an id or a name. The tests are boundary cases of each rule. Their expected results come from an evaluator that",
    "shares no code with the rules. Each is decided with its mandate alone: other mandates, permissions and tool policies do not take",
    "part. Tests belong to one version of a mandate: --generate generates missing tests, and needs a key of the role admin or",
    "operator. Nothing else is written. A mandate that no longer compiles is shown with what is wrong. Exit code 1 says that a test fails, or that a version has no tests.",
  ],
  options: ["url", "key-file", "generate", "junit"],
  async run(input) {
    const [wanted] = input.positionals;
    const call = serviceFrom(input);
    const suites: MandateSuite[] = [];
    for (const mandate of await selectMandates(call, wanted)) {
      suites.push(await runSuite(call, mandate, input.has("generate")));
    }
    const file = input.option("junit");
    if (file !== undefined) await writeReport(file, suites);
    return report(suites);
  },
};

/** Tests of one mandate with their results. */
interface MandateSuite {
  readonly mandateId: string;
  readonly name: string;
  readonly version: number;
  readonly results: readonly JsonRecord[];
  /** Gaps that generating found, of a version whose tests have no results. */
  readonly notes: readonly string[];
  /** Faults of rules that stopped compiling because a tool or a list changed. */
  readonly violations: readonly string[];
}

async function selectMandates(call: CallService, wanted: string | undefined): Promise<readonly JsonRecord[]> {
  const mandates = await readMandates(call, {});
  if (mandates.length === 0) throw new CommandError("there are no mandates in force");
  if (wanted === undefined) return mandates;
  const name = nameKey(wanted);
  const found = mandates.filter(
    (mandate) => mandate.mandate_id === wanted || nameKey(textAt(mandate, "name")) === name,
  );
  if (found.length === 0) throw new CommandError(`no mandate in force has the id or name \`${wanted}\``);
  return found;
}

async function runSuite(call: CallService, mandate: JsonRecord, withGenerate: boolean): Promise<MandateSuite> {
  const mandateId = textAt(mandate, "mandate_id");
  const path = `/v1/enforce/mandates/${encodeURIComponent(mandateId)}/tests`;
  const run = (): Promise<JsonRecord> => call(`${path}:run`, { method: "POST" });
  let reply = await run();
  if (withGenerate && recordsOf(reply.results).length === 0) {
    await call(path, { method: "POST" });
    reply = await run();
  }
  const results = recordsOf(reply.results);
  // A mandate that only asks a model has tests, which are none, and notes that say so.
  const { notes } = results.length > 0 ? {} : await call(path, { query: { page_size: 1 } });
  return {
    mandateId,
    name: textAt(mandate, "name"),
    version: Number(reply.version),
    results,
    notes: recordsOf(notes).map(noteText),
    violations: recordsOf(mandate.violations).flatMap((each) => ruleViolationLines(each, recordsOf(mandate.rules))),
  };
}

const noteText = ({ rule, message }: JsonRecord): string =>
  typeof rule === "string" ? `${rule}: ${message}` : `${message}`;

/** Tests that no tests were generated for a version. */
const isUntested = ({ results, notes }: MandateSuite): boolean => results.length === 0 && notes.length === 0;

function report(suites: readonly MandateSuite[]): CommandReport {
  const results = suites.flatMap((suite) => suite.results);
  const failed = results.filter(hasFailed).length;
  const untested = suites.filter(isUntested).length;
  const without = untested === 0 ? "" : `, ${untested} ${untested === 1 ? "mandate" : "mandates"} without tests`;
  return {
    lines: [
      ...suites.flatMap(suiteLines),
      `${results.length - failed} passed, ${failed} failed${without}${results.length === 0 ? "" : ALONE}`,
    ],
    json: {
      passed: results.length - failed,
      failed,
      without_tests: untested,
      mandates: suites.map(({ mandateId, name, version, results: own }) => ({
        mandate_id: mandateId,
        name,
        version,
        results: own,
      })),
    },
    isRefused: failed > 0 || untested > 0,
  };
}

const hasFailed = ({ passed }: JsonRecord): boolean => passed !== true;

function suiteLines(suite: MandateSuite): readonly string[] {
  const { name, version, violations } = suite;
  const title = `${JSON.stringify(name)} version ${version}`;
  const stale =
    violations.length === 0 ? [] : [`${title}: no longer compiles`, ...violations.map((line) => `  ${line}`)];
  return [...resultLines(suite, title), ...stale];
}

function resultLines(suite: MandateSuite, title: string): readonly string[] {
  const { mandateId, results, notes } = suite;
  if (isUntested(suite)) return [`${title}: no tests; run \`agentctl mandate test ${mandateId} --generate\``];
  if (results.length === 0) return [`${title}: nothing to test`, ...notes.map((note) => `  ${note}`)];
  const failed = results.filter(hasFailed);
  const more = failed.length - MAX_PRINTED;
  return [
    `${title}: ${results.length - failed.length} passed, ${failed.length} failed`,
    ...failed.slice(0, MAX_PRINTED).map((result) => `  ${result.rule} ${result.name}: ${faultOf(result)}`),
    ...(more > 0 ? [`  and ${more} more failing tests; --json lists all`] : []),
  ];
}

/** Describes how the outcome of a test differs from its expectation. */
function faultOf(result: JsonRecord): string {
  const [expected, actual] = [result.expected, result.actual].map((each) => recordsOf([each])[0] ?? {});
  const fires = (outcome: JsonRecord | undefined): string => (outcome?.fires === true ? "fires" : "does not fire");
  const decided = `expected \`${expected?.decision}\`, got \`${actual?.decision}\``;
  if (expected?.fires === actual?.fires) {
    const [want, got] = [expected?.resets_at, actual?.resets_at];
    return want == null || want === got
      ? decided
      : `${decided}; one more fits from ${got ?? "never"}, and should from ${want}`;
  }
  return `${decided}; the rule ${fires(actual)}, and should${expected?.fires === true ? "" : " not"}`;
}

async function writeReport(file: string, suites: readonly MandateSuite[]): Promise<void> {
  const xml = junitXml("agentctl mandate test", suites.map(junitSuite));
  await writeFile(file, xml).catch((error: NodeJS.ErrnoException) => {
    throw new CommandError(`${file} cannot be written: ${error.code ?? error.message}`);
  });
}

function junitSuite({ name, version, results }: MandateSuite): JunitSuite {
  return {
    name: `${name} version ${version}`,
    cases: results.map((result) => ({
      className: `${name}.${result.rule}`,
      name: String(result.name),
      failure: hasFailed(result)
        ? { message: faultOf(result), text: recordsOf(result.reasons).map(({ message }) => String(message)) }
        : undefined,
    })),
  };
}

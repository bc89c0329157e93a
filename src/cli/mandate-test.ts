import { writeFile } from "node:fs/promises";
import { type JsonRecord, textAt } from "../verify/json.ts";
import { type Command, CommandError, type CommandReport } from "./command.ts";
import { recordsOf } from "./dry-run.ts";
import { type JunitSuite, junitXml } from "./junit.ts";
import { readMandates } from "./mandate-commands.ts";
import { nameKey } from "./name-key.ts";
import { type CallService, serviceFrom } from "./service.ts";

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
    "shares no code with the rules. They belong to one version of a mandate: --generate generates missing tests, and needs a key of",
    "the role admin or operator. Nothing else is written. Exit code 1 says that a test fails.",
  ],
  options: ["url", "key", "generate", "junit"],
  async run(input) {
    const [wanted] = input.positionals;
    const call = serviceFrom(input);
    const suites: MandateSuite[] = [];
    for (const mandate of await selectMandates(call, wanted)) {
      suites.push(await runSuite(call, mandate, input.has("generate")));
    }
    if (suites.every(({ results }) => results.length === 0)) {
      throw new CommandError("there are no tests: --generate generates tests of the mandates in force");
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
}

async function selectMandates(call: CallService, wanted: string | undefined): Promise<readonly JsonRecord[]> {
  const mandates = await readMandates(call, {});
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
  const version = Number(reply.version);
  return { mandateId, name: textAt(mandate, "name"), version, results: recordsOf(reply.results) };
}

function report(suites: readonly MandateSuite[]): CommandReport {
  const results = suites.flatMap((suite) => suite.results);
  const failed = results.filter(hasFailed).length;
  return {
    lines: [...suites.flatMap(suiteLines), `${results.length - failed} passed, ${failed} failed`],
    json: {
      passed: results.length - failed,
      failed,
      mandates: suites.map(({ mandateId, name, version, results: own }) => ({
        mandate_id: mandateId,
        name,
        version,
        results: own,
      })),
    },
    isRefused: failed > 0,
  };
}

const hasFailed = ({ passed }: JsonRecord): boolean => passed !== true;

function suiteLines({ name, version, results }: MandateSuite): readonly string[] {
  const title = `${JSON.stringify(name)} version ${version}`;
  if (results.length === 0) return [`${title}: no tests; --generate generates them`];
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
  if (expected?.fires === actual?.fires) return decided;
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

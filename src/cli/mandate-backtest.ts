import { isJsonRecord, type JsonRecord, required } from "../verify/json.ts";
import { fitted } from "./columns.ts";
import { type Command, CommandError, type CommandInput } from "./command.ts";
import { recordsOf } from "./dry-run.ts";
import { readMandates } from "./mandate-commands.ts";
import { readMandateFiles } from "./mandate-files.ts";
import { nameKey } from "./name-key.ts";
import { serviceFrom, streamFrom } from "./service.ts";
import { timeFrom } from "./time-option.ts";

/** Columns of the table, 97 in all; an agent's id has 30 characters. */
const NAME_COLUMNS = 30;
const ID_COLUMNS = 31;
const NUMBER_COLUMNS = 12;
/** Columns of the bar. */
const BAR_COLUMNS = 40;
/** Maximum rows of agents that are printed. */
const MAX_ROWS = 50;

/** `agentctl mandate backtest` decides the recorded actions again under drafts. */
export const mandateBacktest: Command = {
  name: "mandate backtest",
  arguments: "<path>",
  summary: "decide the recorded actions of a window again under drafts",
  details: [
    "",
    "<path> is a file or folder of mandates, as `mandate apply` takes them: each is a draft, in place of the mandate in force that has",
    'its name. Or a JSON file: {"drafts": [{"name": "…", "rules": […], "replaces_mandate_id": "mnd_…"}], "archives": ["mnd_…"]},',
    "where `archives` are mandates in force to decide without. Nothing is written.",
    "Agents with looser decisions come first. Exit code 1 says that some decision would be looser.",
  ],
  options: ["url", "key-file", "since", "until", "agent", "only-drafts", "keep"],
  async run(input) {
    const { drafts = [], archives = [] } = await changesFrom(input);
    const now = Date.now();
    const agent_id = input.option("agent");
    const body = {
      drafts,
      archives,
      only_drafts: input.has("only-drafts"),
      keep: input.has("keep"),
      ...(agent_id === undefined ? {} : { agent_id }),
      ...timeFrom(input, "since", now),
      ...timeFrom(input, "until", now),
    };
    const report = await reportOf(input, body);
    const kept = typeof report.backtest_id === "string" ? ["", `kept as ${report.backtest_id}`] : [];
    return { lines: [...linesOf(report), ...kept], json: report, isRefused: Number(report.looser) > 0 };
  },
};

/** Reads the drafts, and the mandates to leave out, from the command's path. */
async function changesFrom(input: CommandInput): Promise<JsonRecord> {
  const [path = ""] = input.positionals;
  const { mandates, violations } = await readMandateFiles(path);
  const [only, ...others] = mandates;
  if (only !== undefined && others.length === 0 && !isMandate(only.definition)) return only.definition;
  const [fault] = violations;
  if (fault !== undefined) throw new CommandError(`${fault.file}:${fault.line}:${fault.column}: ${fault.message}`);
  if (mandates.length === 0) throw new CommandError(`${path} contains no mandate`);
  const inForce = await readMandates(serviceFrom(input), {});
  const ids = new Map(inForce.map((mandate) => [nameKey(String(mandate.name)), mandate.mandate_id]));
  const drafts = mandates.map(({ definition }) => {
    const replaced = ids.get(nameKey(String(definition.name)));
    return replaced === undefined ? definition : { ...definition, replaces_mandate_id: replaced };
  });
  return { drafts };
}

const isMandate = (definition: JsonRecord): boolean => "name" in definition || "rules" in definition;

async function reportOf(input: CommandInput, body: object): Promise<JsonRecord> {
  let report: unknown;
  for await (const message of streamFrom(input, "/v1/enforce/backtest", body)) {
    if (isJsonRecord(message.progress)) showProgress(input, message.progress);
    report = message.report ?? report;
  }
  if (input.io.isTerminal === true) input.io.note("\r\u001b[K");
  return required(isJsonRecord(report) ? report : undefined, "the service", "`report`");
}

function showProgress({ io }: CommandInput, { replayed, total }: JsonRecord): void {
  if (io.isTerminal !== true) return;
  const share = Number(total) === 0 ? 1 : Number(replayed) / Number(total);
  const filled = Math.floor(share * BAR_COLUMNS);
  const bar = "#".repeat(filled) + "-".repeat(BAR_COLUMNS - filled);
  io.note(`\r[${bar}] ${Math.floor(share * 100)} % of ${total} entries`);
}

function linesOf(report: JsonRecord): readonly string[] {
  const { since, until, replayed, unchanged, stricter, looser, semantic_decisions: semantic } = report;
  const lacking = Number(report.provenance_not_replayed ?? 0);
  const people = recordOf(report.by_people);
  const agents = recordsOf(report.agents);
  const changed = agents.filter((agent) => Number(agent.looser) + Number(agent.stricter) > 0);
  return [
    since == null ? "no decisions in the window" : `${replayed} decisions from ${since} to ${until}`,
    `  looser     ${looser}${byText(recordOf(report.looser_by))}`,
    `  stricter   ${stricter}${byText(recordOf(report.stricter_by))}`,
    `  unchanged  ${unchanged}`,
    ...(Number(semantic) === 0 ? [] : [`  left out   ${semantic}, which a semantic rule covers`]),
    ...(lacking === 0 ? [] : [`  without    the verdicts of provenance rules that are new: ${lacking}`]),
    ...(Number(stricter) === 0
      ? []
      : [
          `  of the stricter ones people had approved ${people.approved}, rejected ${people.rejected}; ${people.pending} wait`,
        ]),
    ...(changed.length === 0 ? [] : ["", row({ name: "agent", agent_id: "" }, "decisions", "looser", "stricter")]),
    ...changed.slice(0, MAX_ROWS).map((agent) => row(agent, agent.replayed, agent.looser, agent.stricter)),
    ...(changed.length > MAX_ROWS ? [`and ${changed.length - MAX_ROWS} more agents; --json lists all`] : []),
    ...(agents.length === changed.length ? [] : [`${agents.length - changed.length} agents without a change`]),
  ];
}

const recordOf = (value: unknown): JsonRecord => (isJsonRecord(value) ? value : {});

function byText(counts: JsonRecord): string {
  const parts = Object.entries(counts).flatMap(([word, count]) => (Number(count) > 0 ? [`${count} ${word}`] : []));
  return parts.length === 0 ? "" : `  (now ${parts.join(", ")})`;
}

function row({ name, agent_id }: JsonRecord, ...cells: readonly unknown[]): string {
  const numbers = cells.map((cell) => String(cell).padStart(NUMBER_COLUMNS));
  return [fitted(String(name), NAME_COLUMNS), fitted(` ${agent_id}`, ID_COLUMNS), ...numbers].join("");
}

import { createHash } from "node:crypto";
import { open, rm } from "node:fs/promises";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { parse } from "yaml";
import { isJsonRecord, type JsonRecord, type JsonValue, listAt, textAt } from "../../verify/json.ts";
import { type Command, CommandError, type CommandInput, ServiceError } from "../command.ts";
import { readInput } from "../input-file.ts";
import { readMandates } from "../mandate-commands.ts";
import { readMandateFiles } from "../mandate-files.ts";
import { nameKey } from "../name-key.ts";
import { Planner } from "../pack/plan.ts";
import { registeredTools } from "../pack/registered-tools.ts";
import { isTemplate, mandatesFrom, readTemplate, schemaFromPaths } from "../pack/template.ts";
import { assertSound, isToolFile, parseToolFile, readToolFile, type ToolFile } from "../pack/tool-file.ts";
import { RequestRefusedError, serviceFrom, streamFrom } from "../service.ts";
import { episodesOfRuns } from "./agentdyn.ts";
import { type Batch, batchesOf } from "./batches.ts";
import { episodesOfTranscripts } from "./claude-code.ts";
import type { Recording } from "./episode.ts";
import { episodesOfLines } from "./jsonl.ts";
import { type JudgedEpisode, judgedFrom } from "./judged.ts";
import { CallLabels } from "./labels.ts";
import { halfOf } from "./measure.ts";
import { reportOf } from "./report.ts";

/** Readers of recordings by their format. */
const READERS: Readonly<Record<string, (paths: readonly string[]) => AsyncIterable<Recording>>> = {
  jsonl: episodesOfLines,
  "claude-code": episodesOfTranscripts,
  agentdyn: episodesOfRuns,
};

/** Maximum steps of a plan, as of an intent contract. */
const MAX_PLAN_STEPS = 50;

/** `agentctl replay` decides recorded sessions again and tells what rules would have asked, blocked and missed. */
export const replay: Command = {
  name: "replay",
  arguments: "<path> [path…]",
  summary: "decide recorded sessions of agents again under mandates in files",
  details: [
    "",
    "<path> is a file of recordings, or a folder with them. --format says how they are written: `jsonl`, one episode a line;",
    "`claude-code`, the transcripts of Claude Code; `agentdyn`, the runs of the benchmark AgentDyn. The mandates of --pack are drafts, each",
    "in place of the mandate in force of its name. Nothing is written. A person approves what is asked, unless a label says that the call",
    "belongs to an attack. --pack may also name a pack that comes with agentctl, made for the tools of a file of `agentctl pack init` that",
    "--tools names; --plans gives each session the plan that the words of its prompt make. --out writes the episodes as lines of `jsonl` to a new file instead, without a service.",
    "Exit code 1 says that an attack with labels would have passed.",
  ],
  options: [
    "url",
    "key-file",
    "format",
    "pack",
    "lists",
    "tools",
    "plans",
    "outside",
    "labels",
    "hidden",
    "agent",
    "escalated",
    "attack",
    "half",
    "out",
  ],
  async run(input) {
    const recordings = await recordingsFrom(input);
    const out = input.option("out");
    if (out !== undefined) return writeEpisodes(recordings, out);
    const supposed = await suppositionFrom(input);
    const episodes: JudgedEpisode[] = [];
    const hash = createHash("sha256");
    let [cut, policyDigest] = [0, ""];
    for await (const batch of batchesOf(recordings, supposed)) {
      const summary = await replayBatch(input, batch, supposed, episodes);
      hash.update(`${textAt(summary, "digest")}\n`);
      policyDigest = textAt(summary, "policy_digest");
      cut += batch.cut;
      showProgress(input, episodes.length);
    }
    if (input.io.isTerminal === true) input.io.note("\r\u001b[K");
    if (episodes.length === 0) throw new CommandError("there is no episode to replay");
    return reportOf({ episodes, digest: hash.digest("hex"), policyDigest, cut }, input.io.columns);
  },
};

/** Reads the recordings that a command asks for, with their labels. */
async function recordingsFrom(input: CommandInput): Promise<AsyncIterable<Recording>> {
  const format = input.option("format") ?? "jsonl";
  const read = Object.hasOwn(READERS, format) ? READERS[format] : undefined;
  if (read === undefined) throw new CommandError("--format must be `jsonl`, `claude-code` or `agentdyn`");
  const [file, attack, half] = [input.option("labels"), input.option("attack"), input.option("half")];
  if (format !== "agentdyn" && (file ?? attack ?? half) !== undefined)
    throw new CommandError("--labels, --attack and --half are for `--format agentdyn`");
  if (half !== undefined && half !== "even" && half !== "odd") throw new CommandError("--half must be `even` or `odd`");
  const labels = file === undefined ? undefined : await CallLabels.fromFile(file);
  const found = chosen(read(input.positionals), labels, (run) => {
    if (half !== undefined && halfOf(run) !== half) return false;
    return attack === undefined || run.attack === undefined || run.attack === attack;
  });
  return planned(found, plannerFrom(input));
}

/** Reads the file whose words make plans; undefined without one. */
function plannerFrom(input: CommandInput): Planner | undefined {
  const [file, outside = "rules"] = [input.option("plans"), input.option("outside")];
  if (outside !== "block" && outside !== "escalate" && outside !== "rules")
    throw new CommandError("--outside must be `block`, `escalate` or `rules`");
  if (file === undefined && input.has("outside")) throw new CommandError("--outside is for --plans");
  if (file === undefined) return undefined;
  const read = readToolFile(file, input.io);
  assertSound(read);
  return new Planner(read.tools, outside);
}

async function* planned(recordings: AsyncIterable<Recording>, planner: Planner | undefined): AsyncGenerator<Recording> {
  for await (const recording of recordings) {
    const { episode, file } = recording;
    const { id, prompt = "", steps } = episode;
    const plan = episode.contract === undefined ? planner?.contractOf(prompt, steps) : undefined;
    const count = listAt(plan, "steps").length;
    if (count > MAX_PLAN_STEPS)
      throw new CommandError(
        `${file}: episode \`${id}\` calls ${count} tools of its plan; a plan has at most ${MAX_PLAN_STEPS} steps`,
      );
    const contract = episode.contract ?? plan;
    yield contract === undefined ? recording : { ...recording, episode: { ...episode, contract } };
  }
}

async function* chosen(
  recordings: AsyncIterable<Recording>,
  labels: CallLabels | undefined,
  isWanted: (run: NonNullable<Recording["run"]>) => boolean,
): AsyncGenerator<Recording> {
  for await (const recording of recordings) {
    const { run, episode } = recording;
    if (run === undefined) yield recording;
    else if (isWanted(run)) {
      const found = labels?.labelsOf(run, episode.steps) ?? [];
      yield found.length === 0 ? recording : { ...recording, episode: { ...episode, labels: found } };
    }
  }
}

/** Writes episodes to a file that does not exist yet: it could be the recording itself. A file that is not complete is removed. */
async function writeEpisodes(recordings: AsyncIterable<Recording>, out: string) {
  let count = 0;
  const lines = async function* (): AsyncGenerator<string> {
    for await (const { episode } of recordings) {
      count += 1;
      yield `${JSON.stringify(episode)}\n`;
    }
  };
  const unwritten = ({ code, message }: NodeJS.ErrnoException): CommandError =>
    new CommandError(
      code === "EEXIST"
        ? `${out} exists: name another file, or move it away`
        : `${out} cannot be written: ${code ?? message}`,
    );
  const handle = await open(out, "wx").catch((error: NodeJS.ErrnoException) => {
    throw unwritten(error);
  });
  try {
    await pipeline(Readable.from(lines()), handle.createWriteStream());
  } catch (error) {
    await rm(out, { force: true });
    throw error instanceof CommandError ? error : unwritten(error as NodeJS.ErrnoException);
  }
  return { lines: [`wrote ${count} episodes to ${out}`], json: { episodes: count, out } };
}

/** Reads the mandates, lists and tools that a command supposes. */
async function suppositionFrom(input: CommandInput): Promise<JsonRecord> {
  const agent_id = input.option("agent");
  const escalated = input.option("escalated") ?? "run";
  if (escalated !== "run" && escalated !== "skip") throw new CommandError("--escalated must be `run` or `skip`");
  const [pack, file] = [input.option("pack"), toolFileFrom(input)];
  return {
    drafts: pack === undefined ? [] : await draftsFrom(input, await definitionsFrom(pack, file)),
    lists: itemsFrom(input, "lists"),
    tools: file === undefined ? itemsFrom(input, "tools") : await toolsFrom(input, file),
    escalated,
    ...(agent_id !== undefined && { agent_id }),
  };
}

/** Reads the file of `--tools` if `agentctl pack init` could have drafted it. */
function toolFileFrom(input: CommandInput): ToolFile | undefined {
  const file = input.option("tools");
  if (file === undefined) return undefined;
  const text = readInput(file, input.io);
  if (!isToolFile(text)) return undefined;
  const read = parseToolFile(text, file);
  assertSound(read);
  return read;
}

/** Returns the mandates of files, or of a pack that comes with `agentctl`. */
async function definitionsFrom(pack: string, file: ToolFile | undefined): Promise<readonly JsonRecord[]> {
  if (isTemplate(pack)) {
    if (file !== undefined) return mandatesFrom(readTemplate(pack), file).map(({ definition }) => definition);
    throw new CommandError(`--pack ${pack} needs --tools with a file such as \`agentctl pack init\` drafts`);
  }
  const { mandates, violations } = await readMandateFiles(pack);
  const [fault] = violations;
  if (fault !== undefined) throw new CommandError(`${fault.file}:${fault.line}:${fault.column}: ${fault.message}`);
  if (mandates.length === 0) throw new CommandError(`${pack} contains no mandate`);
  return mandates.map(({ definition }) => definition);
}

/** Gives the tools of a file the schemas of the registered ones; to others one with the arguments that the file names. */
async function toolsFrom(input: CommandInput, { tools }: ToolFile): Promise<JsonValue[]> {
  const registered = await registeredTools(serviceFrom(input));
  return tools.map(({ name, provenance, arguments: args }): JsonRecord => {
    const paths = [...args.map(({ path }) => path), ...(provenance?.session_arguments ?? [])];
    return {
      name,
      input_schema: registered.get(nameKey(name))?.schema ?? schemaFromPaths(paths),
      ...(provenance !== undefined && { provenance: provenance as JsonRecord }),
    };
  });
}

async function draftsFrom(input: CommandInput, definitions: readonly JsonRecord[]): Promise<JsonValue[]> {
  const inForce = await readMandates(serviceFrom(input), {});
  const ids = new Map(inForce.map((mandate) => [nameKey(String(mandate.name)), textAt(mandate, "mandate_id")]));
  return definitions.map((definition) => {
    const replaced = ids.get(nameKey(String(definition.name)));
    return replaced === undefined ? definition : { ...definition, replaces_mandate_id: replaced };
  });
}

/** Reads lists or tools from the file of an option: YAML or JSON, a list of them or an object that has it. */
function itemsFrom(input: CommandInput, option: "lists" | "tools"): JsonValue[] {
  const file = input.option(option);
  if (file === undefined) return [];
  const content = yamlFrom(readInput(file, input.io), file);
  const items = isJsonRecord(content) ? content[option] : content;
  if (Array.isArray(items) && items.every(isJsonRecord)) return items;
  throw new CommandError(`${file} must be a list of ${option}, or an object with the member \`${option}\``);
}

function yamlFrom(text: string, file: string): JsonValue {
  try {
    return parse(text, { maxAliasCount: 100 }) as JsonValue;
  } catch (error) {
    const [message = ""] = (error as Error).message.split("\n");
    throw new CommandError(`${file}: ${message}`);
  }
}

/** Replays a batch, adds its episodes to `into` and returns the summary. */
async function replayBatch(
  input: CommandInput,
  batch: Batch,
  supposed: JsonRecord,
  into: JudgedEpisode[],
): Promise<JsonRecord> {
  const body = { ...supposed, episodes: batch.episodes.map(({ message }) => message) };
  let next = 0;
  try {
    for await (const message of streamFrom(input, "/v1/enforce/replay", body)) {
      if (isJsonRecord(message.summary)) return message.summary;
      const sent = batch.episodes[next];
      if (!isJsonRecord(message.episode) || sent === undefined) break;
      into.push(judgedFrom(sent.recording, message.episode, input.has("hidden")));
      next += 1;
    }
  } catch (error) {
    throw error instanceof RequestRefusedError ? faultOf(batch, error) : error;
  }
  throw new CommandError("the service ended a replay without a summary");
}

/** Names the recording at fault, which the service knows by its place in the request alone. */
function faultOf({ episodes }: Batch, error: RequestRefusedError): CommandError {
  const place = /\bepisodes\[(\d+)\]/.exec(error.message);
  const recording = place === null ? undefined : episodes[Number(place[1])]?.recording;
  if (recording === undefined) return error;
  const message = error.message.replaceAll(/\bepisodes\[\d+\]\.(?=\w)/g, "");
  return new ServiceError(`${recording.file}: episode \`${recording.episode.id}\`: ${message}`);
}

function showProgress({ io }: CommandInput, episodes: number): void {
  if (io.isTerminal === true) io.note(`\r${episodes} episodes`);
}

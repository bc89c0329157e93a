import { createHash } from "node:crypto";
import { createWriteStream } from "node:fs";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { parse } from "yaml";
import { isJsonRecord, type JsonRecord, type JsonValue, textAt } from "../../verify/json.ts";
import { type Command, CommandError, type CommandInput } from "../command.ts";
import { readInput } from "../input-file.ts";
import { readMandates } from "../mandate-commands.ts";
import { readMandateFiles } from "../mandate-files.ts";
import { nameKey } from "../name-key.ts";
import { serviceFrom, streamFrom } from "../service.ts";
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
    "belongs to an attack. --out writes the episodes as lines of `jsonl` instead, without a service.",
    "Exit code 1 says that an attack with labels would have passed.",
  ],
  options: [
    "url",
    "key-file",
    "format",
    "pack",
    "lists",
    "tools",
    "labels",
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
    for await (const batch of batchesOf(recordings, Buffer.byteLength(JSON.stringify(supposed)))) {
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
  return chosen(read(input.positionals), labels, (run) => {
    if (half !== undefined && halfOf(run) !== half) return false;
    return attack === undefined || run.attack === undefined || run.attack === attack;
  });
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

async function writeEpisodes(recordings: AsyncIterable<Recording>, out: string) {
  let count = 0;
  const lines = async function* (): AsyncGenerator<string> {
    for await (const { episode } of recordings) {
      count += 1;
      yield `${JSON.stringify(episode)}\n`;
    }
  };
  await pipeline(Readable.from(lines()), createWriteStream(out)).catch((error: NodeJS.ErrnoException) => {
    throw error instanceof CommandError
      ? error
      : new CommandError(`${out} cannot be written: ${error.code ?? error.message}`);
  });
  return { lines: [`wrote ${count} episodes to ${out}`], json: { episodes: count, out } };
}

/** Reads the mandates, lists and tools that a command supposes. */
async function suppositionFrom(input: CommandInput): Promise<JsonRecord> {
  const agent_id = input.option("agent");
  const escalated = input.option("escalated") ?? "run";
  if (escalated !== "run" && escalated !== "skip") throw new CommandError("--escalated must be `run` or `skip`");
  const pack = input.option("pack");
  return {
    drafts: pack === undefined ? [] : await draftsFrom(input, pack),
    lists: itemsFrom(input, "lists"),
    tools: itemsFrom(input, "tools"),
    escalated,
    ...(agent_id !== undefined && { agent_id }),
  };
}

async function draftsFrom(input: CommandInput, path: string): Promise<JsonValue[]> {
  const { mandates, violations } = await readMandateFiles(path);
  const [fault] = violations;
  if (fault !== undefined) throw new CommandError(`${fault.file}:${fault.line}:${fault.column}: ${fault.message}`);
  if (mandates.length === 0) throw new CommandError(`${path} contains no mandate`);
  const inForce = await readMandates(serviceFrom(input), {});
  const ids = new Map(inForce.map((mandate) => [nameKey(String(mandate.name)), textAt(mandate, "mandate_id")]));
  return mandates.map(({ definition }) => {
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
  for await (const message of streamFrom(input, "/v1/enforce/replay", body)) {
    if (isJsonRecord(message.summary)) return message.summary;
    const sent = batch.episodes[next];
    if (!isJsonRecord(message.episode) || sent === undefined) break;
    into.push(judgedFrom(sent.recording, message.episode));
    next += 1;
  }
  throw new CommandError("the service ended a replay without a summary");
}

function showProgress({ io }: CommandInput, episodes: number): void {
  if (io.isTerminal === true) io.note(`\r${episodes} episodes`);
}

/**
 * Times `agentctl vault verify` on a log bundle against a walk that reads, parses, serialises and hashes the same entries with
 * Node's `createHash`, in turns. Run with `node test/bench/verify.ts [entries]`; 1,000,000 by default, which take 2 GB on disk.
 * The entries of one log were sealed one by one, those of the other 64 at a time.
 */
import { spawn } from "node:child_process";
import { generateKeyPairSync, sign } from "node:crypto";
import { once } from "node:events";
import { createReadStream, createWriteStream } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { pipeline } from "node:stream/promises";
import { fileURLToPath } from "node:url";
import { createCheckpoints } from "../../src/log/checkpoint.ts";
import { canonicalJson, type JsonObject } from "../../src/tree/canonical.ts";
import { appendLeaves, EMPTY_FRONTIER, type Frontier, leafHash, rootOf, rootText } from "../../src/tree/merkle.ts";
import { memoryMib } from "./cpu.ts";
import { type Check, checksTable, figure, holds, median, tableFrom } from "./report.ts";

const ROUNDS = 3;
/** Most that verifying may take of the walk's time, which checks hashes and form alone. */
const MOST_TIME = 3.5;
const BATCHES = [1, 64];
const AGENTCTL = fileURLToPath(new URL("../../src/cli/agentctl.ts", import.meta.url));
const THIS_FILE = fileURLToPath(import.meta.url);
/** Milliseconds between two looks at a process's memory. */
const LOOK_MS = 200;

/** Makes a decision with a body of about 1,400 bytes, as one under ten mandates has. */
function decision(index: number, previous: JsonObject): JsonObject {
  const id = (prefix: string, letter: string): string => `${prefix}_${letter.repeat(26)}`;
  const limits = [1, 2].map((rule) => ({ mandate_id: id("mnd", "c"), rule: `rules[${rule}]` }));
  const counted = { count: 12, limit: 100, window: 60 };
  const digest = "d".repeat(44);
  return {
    type: "decision",
    v: 2,
    decision_id: `dec_${index.toString(36).padStart(26, "0")}`,
    decision: "allow",
    decision_path: "policy",
    action: {
      agent_id: id("agt", "a"),
      agent_name: "payments-agent",
      action_type: "payment.send",
      action_content: `pay invoice ${index} to Bób`,
      tool: "bank/pay",
      tool_version: 3,
      tool_digest: digest,
      metadata: { arguments: { amount: index % 500, currency: "EUR", note: "invoice ".repeat(20) } },
    },
    authorisation: { collective_limits: limits.map((limit) => ({ ...limit, ...counted })) },
    mandates: ["1", "2", "3"].map((name) => ({ mandate_id: id("mnd", name), version: 2, digest, decision: "allow" })),
    key_id: id("key", "b"),
    policy_digest: digest,
    policy_name: "payments",
    trust: { before: 50, after: 50.2 },
    ...previous,
    seq: index,
    at: new Date(Date.UTC(2026, 0, 1) + index).toISOString(),
    workspace_id: "default",
  };
}

/** Yields the lines of a log's entries, and returns its frontier. */
function* lines(entries: number, batch: number): Generator<string, Frontier> {
  let frontier = EMPTY_FRONTIER;
  while (frontier.size < entries) {
    const start = frontier.size;
    const previous = { previous_root: rootText(frontier), previous_size: start };
    const count = Math.min(batch, entries - start);
    const bodies = Array.from({ length: count }, (_, at) => canonicalJson(decision(start + at, previous)));
    const leaves = bodies.map(leafHash);
    for (const [at, body] of bodies.entries()) {
      yield `${JSON.stringify({ index: start + at, leaf_hash: leaves[at]?.toString("base64"), body })}\n`;
    }
    frontier = appendLeaves(frontier, leaves);
  }
  return frontier;
}

/** Writes a log bundle: the entries into a file, and its first line into another, since it is known last. */
async function writeBundle(path: string, entries: number, batch: number): Promise<void> {
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "prime256v1" });
  const publicPem = publicKey.export({ type: "spki", format: "pem" }).toString();
  const signCheckpoint = createCheckpoints("log.example", {
    publicPem,
    sign: (text) => sign("sha256", text, privateKey),
  });
  let frontier = EMPTY_FRONTIER;
  await pipeline(
    function* () {
      frontier = yield* lines(entries, batch);
    },
    createWriteStream(`${path}.entries`),
  );
  const { note } = signCheckpoint("default", frontier.size, rootOf(frontier));
  const head = { format: "agent-control-plane.log/1", checkpoint: note, public_keys: [publicPem] };
  await writeFile(path, `${JSON.stringify(head)}\n`);
  await pipeline(createReadStream(`${path}.entries`), createWriteStream(path, { flags: "a" }));
  await rm(`${path}.entries`);
}

/** Walks a log bundle with Node's hashes: the least that a verifier does. */
async function walk(path: string): Promise<void> {
  let frontier = EMPTY_FRONTIER;
  let sealedOn: unknown;
  for await (const line of createInterface({ input: createReadStream(path, { highWaterMark: 1_048_576 }) })) {
    const { body: text } = JSON.parse(line) as { readonly body?: string };
    if (text === undefined) continue;
    const body = JSON.parse(text) as JsonObject;
    if (canonicalJson(body) !== text) throw new Error(`entry ${frontier.size} is not canonical`);
    if (body.previous_root !== sealedOn && body.previous_root !== rootText(frontier)) throw new Error("another root");
    sealedOn = body.previous_root;
    frontier = appendLeaves(frontier, [leafHash(text)]);
  }
}

interface Run {
  readonly seconds: number;
  readonly mib: number;
}

/** Runs a program of Node to its end. Throws if it fails. */
async function run(...argv: readonly string[]): Promise<Run> {
  const startedAt = performance.now();
  const child = spawn(process.execPath, argv, { stdio: ["ignore", "ignore", "inherit"] });
  let mib = 0;
  const look = setInterval(() => {
    mib = Math.max(mib, memoryMib(child.pid ?? 0) || 0);
  }, LOOK_MS);
  const [code] = await once(child, "exit");
  clearInterval(look);
  if (code !== 0) throw new Error(`${argv.join(" ")} ended with ${code}`);
  return { seconds: (performance.now() - startedAt) / 1_000, mib };
}

/** Measures both programs on a log in turns. Returns the rows of a table, and the check of the ratio. */
async function measure(folder: string, entries: number, batch: number) {
  const path = join(folder, `${batch}.ndjson`);
  await writeBundle(path, entries, batch);
  const rounds: (readonly [verified: Run, walked: Run])[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    rounds.push([await run(AGENTCTL, "vault", "verify", path), await run(THIS_FILE, "walk", path)]);
  }
  await rm(path);
  const what = batch === 1 ? "sealed one by one" : `sealed ${batch} at a time`;
  const row = (name: string, side: 0 | 1): string[] => {
    const runs = rounds.map((each) => each[side]);
    const mib = Math.max(...runs.map((each) => each.mib));
    return [`${name}, ${what}`, figure(median(runs.map(({ seconds }) => seconds))), figure(mib)];
  };
  const check: Check = {
    name: `verify over walk, ${what}`,
    figures: rounds.map(([verified, walked]) => verified.seconds / walked.seconds),
    bound: { atMost: MOST_TIME },
    unit: "x",
  };
  return { rows: [row("agentctl vault verify", 0), row("walk with createHash", 1)], check };
}

async function compare(entries: number): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), "acp-verify-"));
  try {
    const measured = [];
    for (const batch of BATCHES) measured.push(await measure(folder, entries, batch));
    const headings = [`${entries.toLocaleString("en")} entries`, "s", "MiB"];
    console.log(
      tableFrom(
        headings,
        measured.flatMap(({ rows }) => rows),
      ),
    );
    const checks = measured.map(({ check }) => check);
    console.log(`\n${checksTable(checks)}`);
    if (!checks.every(holds)) process.exitCode = 1;
  } finally {
    await rm(folder, { recursive: true });
  }
}

const [first = "1000000", path] = process.argv.slice(2);
await (path === undefined ? compare(Number(first)) : walk(path));

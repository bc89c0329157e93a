import { spawn } from "node:child_process";
import { once } from "node:events";
import type { ScratchDatabase, StoredLog } from "../store/scratch-database.ts";
import { type SignedCheckpoint, verifyCheckpoint } from "../verify/checkpoint.ts";
import { type JsonRecord, textAt } from "../verify/json.ts";
import { LogCheck } from "../verify/log-check.ts";
import { VerificationError } from "../verify/verification-error.ts";
import { type Command, CommandError, type CommandInput } from "./command.ts";
import { keptNotes } from "./kept-checkpoints.ts";
import { cellText } from "./table.ts";
import { pinnedKeys } from "./trust.ts";

/** Milliseconds after which a program that was told to end is killed. */
const KILL_MS = 5_000;
/** Characters of what `pg_restore` says that are kept. */
const MAX_SAID = 4_000;

/** `agentctl backup check` restores a dump into a scratch database, and proves the logs in it. */
export const backupCheck: Command = {
  name: "backup check",
  arguments: "<dump>",
  summary: "restore a dump of the database elsewhere, verify its logs, and tell what a restore would lose",
  details: [
    "",
    "<dump> is an archive of `pg_dump --format=custom`, `directory` or `tar`. Needs `pg_restore` on the PATH, of the version of the dump or a",
    "newer one (Debian: postgresql-client). The dump is restored into a scratch database, which is removed afterwards, also on an interrupt:",
    "on the server at --database-url, whose login may create databases and whose password is taken from PGPASSWORD, else on an embedded",
    "server of its own. The database of the service is never touched.",
    "",
    "With --against, the log of that checkpoint must contain it; the keys are pinned by --jwks or --public-key. A checkpoint that covers",
    "more entries than the dump tells how many a restore would lose, and the dump is refused.",
  ],
  options: ["against", "jwks", "public-key", "database-url"],
  async run(input) {
    const [dump = ""] = input.positionals;
    const kept = await readCheckpoints(input);
    const url = urlFrom(input);
    const interrupt = new AbortController();
    const stop = (): void => interrupt.abort(new CommandError("interrupted; the scratch database is removed"));
    for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, stop);
    try {
      await assertReadable(dump, interrupt.signal);
      // Loaded here: other commands neither need a database nor wait for one.
      const { createScratchDatabase } = await import("../store/scratch-database.ts");
      const created = createScratchDatabase(url).catch((error: Error) => {
        throw new CommandError(`no scratch database can be created: ${error.message}`);
      });
      await using database = await created;
      await restore(dump, database, interrupt.signal);
      const logs: CheckedLog[] = [];
      for (const log of await readLogs(database)) logs.push(await check(database, log, kept, interrupt.signal));
      return reportOf(dump, logs, kept);
    } finally {
      for (const signal of ["SIGINT", "SIGTERM"] as const) process.off(signal, stop);
    }
  },
};

/** A log of the dump that verified. */
interface CheckedLog {
  readonly workspaceId: string;
  readonly entries: number;
  readonly lastTime: string;
  /** Entries that a kept checkpoint covers and the dump lacks; undefined without a checkpoint of this log. */
  readonly missing: number | undefined;
}

/** Reads and verifies every checkpoint of `--against`. */
async function readCheckpoints(input: CommandInput): Promise<readonly SignedCheckpoint[]> {
  const paths = input.options("against");
  if (paths.length === 0) return [];
  const keys = await pinnedKeys(input);
  if (keys === undefined) throw new CommandError("--against needs the keys to trust: pass --jwks or --public-key");
  const notes = (await Promise.all(paths.map(keptNotes))).flat();
  return Promise.all(notes.map((note) => verifyCheckpoint(note, keys)));
}

function urlFrom(input: CommandInput): string | undefined {
  const text = input.option("database-url");
  if (text === undefined) return undefined;
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !/^postgres(ql)?:$/.test(url.protocol))
    throw new CommandError("--database-url has the form postgresql://user@host:port/database");
  if (url.password !== "")
    throw new CommandError("--database-url takes no password, which lists of processes show: set PGPASSWORD");
  return text;
}

/** Outcome of a run of `pg_restore`. */
interface Ran {
  readonly code: number | null;
  readonly said: string;
}

async function pgRestore(
  args: readonly string[],
  env: Readonly<Record<string, string>>,
  signal: AbortSignal,
): Promise<Ran> {
  signal.throwIfAborted();
  const child = spawn("pg_restore", args, {
    env: { ...process.env, LC_ALL: "C", ...env },
    stdio: ["ignore", "ignore", "pipe"],
  });
  let said = "";
  child.stderr.on("data", (chunk: Buffer) => {
    said = (said + chunk.toString()).slice(0, MAX_SAID);
  });
  const end = (): void => {
    child.kill("SIGTERM");
    setTimeout(() => child.kill("SIGKILL"), KILL_MS).unref();
  };
  signal.addEventListener("abort", end);
  try {
    const [code] = (await once(child, "close")) as [number | null];
    signal.throwIfAborted();
    return { code, said };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    throw new CommandError(
      "`pg_restore` is not on the PATH: install it, such as by `apt-get install postgresql-client`",
    );
  } finally {
    signal.removeEventListener("abort", end);
  }
}

/** Refuses a file that `pg_restore` cannot read, with what helps. */
async function assertReadable(dump: string, signal: AbortSignal): Promise<void> {
  const { code, said } = await pgRestore(["--list", "--", dump], {}, signal);
  if (code === 0) return;
  if (/unsupported version/.test(said)) {
    throw new CommandError(
      `\`${dump}\` was made by a newer PostgreSQL than the \`pg_restore\` here: install the client of its version, such as by ` +
        "`apt-get install postgresql-client-18`, and put it first on the PATH",
    );
  }
  if (/text format/.test(said)) {
    throw new CommandError(`\`${dump}\` is plain SQL; make an archive: \`pg_dump --format=custom --file=acp.dump\``);
  }
  throw new VerificationError("malformed", `\`${dump}\` is no complete dump: ${firstLine(said)}`);
}

const firstLine = (said: string): string =>
  (said.split("\n").find((line) => /error/i.test(line)) ?? said.split("\n")[0] ?? "").replace(/^pg_restore: /, "");

async function restore(dump: string, { env }: ScratchDatabase, signal: AbortSignal): Promise<void> {
  const args = ["--exit-on-error", "--no-owner", "--no-privileges", `--dbname=${env.PGDATABASE}`, "--", dump];
  const { code, said } = await pgRestore(args, env, signal);
  if (code === 0) return;
  throw new VerificationError("malformed", `\`${dump}\` cannot be restored: ${firstLine(said)}`);
}

function readLogs(database: ScratchDatabase): Promise<readonly StoredLog[]> {
  return database.logs().catch((error: Error) => {
    throw new VerificationError("malformed", `the dump holds no logs of the control plane: ${error.message}`);
  });
}

/** Verifies one log. Throws `VerificationError`, which then names the workspace. */
async function check(
  database: ScratchDatabase,
  { workspaceId, entries, headSize }: StoredLog,
  kept: readonly SignedCheckpoint[],
  signal: AbortSignal,
): Promise<CheckedLog> {
  const own = kept.filter(({ origin }) => origin.endsWith(`/vault/${workspaceId}`));
  let lastTime = "";
  const onEntry = (body: JsonRecord): void => {
    signal.throwIfAborted();
    lastTime = textAt(body, "at");
  };
  try {
    await new LogCheck(
      undefined,
      own.filter(({ treeSize }) => treeSize <= entries),
    ).run(database.entries(workspaceId), onEntry);
  } catch (error) {
    if (!(error instanceof VerificationError)) throw error;
    const { fault, message, index, lastIndex } = error;
    throw new VerificationError(fault, `workspace \`${workspaceId}\`: ${message}`, index, lastIndex);
  }
  if (headSize !== entries) {
    const message = `workspace \`${workspaceId}\`: the head counts ${headSize ?? "no"} entries, the log has ${entries}`;
    throw new VerificationError("truncated", message);
  }
  const sizes = own.map(({ treeSize }) => treeSize);
  const missing = sizes.length === 0 ? undefined : Math.max(0, ...sizes.map((size) => size - entries));
  return { workspaceId, entries, lastTime, missing };
}

function reportOf(dump: string, logs: readonly CheckedLog[], kept: readonly SignedCheckpoint[]) {
  const absent = kept.filter(({ origin }) => !logs.some(({ workspaceId }) => origin.endsWith(`/vault/${workspaceId}`)));
  const isRefused = absent.length > 0 || logs.some(({ missing = 0 }) => missing > 0) || logs.length === 0;
  const lines = logs.flatMap(({ workspaceId, entries, lastTime, missing }) => [
    `  workspace  ${workspaceId}: ${entries} entries, the last of ${cellText(lastTime)}; the head agrees`,
    `  a restore  loses what was sealed after ${cellText(lastTime)}${lossText(missing, entries)}`,
  ]);
  const lost = absent.map(({ origin, treeSize }) => `  a restore  loses ${origin} as a whole, ${treeSize} entries`);
  const verdict = isRefused
    ? "REFUSED (truncated): a restore would lose entries that a checkpoint covers"
    : "VERIFIED: the dump restores, and every log in it";
  return {
    lines: [
      logs.length === 0 ? "REFUSED (truncated): the dump holds no log" : `${verdict}`,
      `  dump       ${dump}`,
      ...lines,
      ...lost,
    ],
    json: {
      verified: !isRefused,
      workspaces: logs.map(({ workspaceId, entries, lastTime, missing }) => ({
        workspace_id: workspaceId,
        entries,
        last_at: lastTime === "" ? null : lastTime,
        missing: missing ?? null,
      })),
      absent: absent.map(({ origin }) => origin),
    },
    isRefused,
  };
}

function lossText(missing: number | undefined, entries: number): string {
  if (missing === undefined) return "";
  if (missing === 0) return ", and contains the kept checkpoint";
  return `: at least ${missing} entries, from entry ${entries} on`;
}

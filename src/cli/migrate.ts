import type { Config } from "../config.ts";
import type { SchemaState } from "../store/migrate.ts";
import { type Command, CommandError, type CommandInput } from "./command.ts";
import { readSettings } from "./settings.ts";

/** Milliseconds that a database may take to start. */
const CONNECT_MS = 30_000;

/** The login that owns the tables, and the one that serves if it is another. */
interface Logins {
  readonly ownerUrl: string;
  readonly servingUrl: string | undefined;
}

function loginsFrom({ databaseUrl, databaseOwnerUrl, databaseDirectUrl }: Config): Logins {
  if (databaseUrl === null) {
    throw new CommandError(
      "DATABASE_URL must be set; the embedded PostgreSQL is migrated by each start of the service",
    );
  }
  if (databaseOwnerUrl === null)
    return { ownerUrl: (databaseDirectUrl ?? databaseUrl).reveal(), servingUrl: undefined };
  return { ownerUrl: databaseOwnerUrl.reveal(), servingUrl: databaseUrl.reveal() };
}

/** Imports the store only for a command that needs it: all others start faster without. */
async function openStore() {
  const [{ MIGRATIONS }, migrate, database] = await Promise.all([
    import("../store/migrations.ts"),
    import("../store/migrate.ts"),
    import("../store/database.ts"),
  ]);
  return { MIGRATIONS, ...migrate, ...database };
}

/** Turns a fault of the database into one of the command; messages of the store name no password. */
async function reached<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    throw new CommandError((error as Error).message);
  }
}

const silent = () => undefined;

async function stateOf(input: CommandInput): Promise<SchemaState> {
  const { ownerUrl } = loginsFrom(readSettings(input).config);
  const { MIGRATIONS, readSchemaState, waitForDatabase } = await openStore();
  const log = { info: silent, warn: silent, error: silent };
  await reached(waitForDatabase(ownerUrl, CONNECT_MS, log));
  return reached(readSchemaState(ownerUrl, MIGRATIONS));
}

function linesOf({ applied, pending, unknown }: SchemaState): string[] {
  const newer = new Set(unknown);
  return [
    ...applied.map((name) => `  ${newer.has(name) ? "newer  " : "applied"}  ${name}`),
    ...pending.map((name) => `  pending  ${name}`),
  ];
}

const DETAILS = [
  "Reads the settings of the service: DATABASE_URL, ACP_DATABASE_OWNER_URL, and the file that ACP_CONFIG names.",
];

/** Lists the migrations of the database. */
export const migrateStatus: Command = {
  name: "migrate status",
  arguments: "",
  summary: "list the migrations that the database has and lacks",
  details: [...DETAILS, "Refused when it lacks some, or has some of a newer version."],
  options: [],
  async run(input) {
    const state = await stateOf(input);
    const { applied, pending, unknown } = state;
    const summary =
      unknown.length > 0
        ? "NEWER: the database is of a newer version than this program"
        : pending.length > 0
          ? `BEHIND: ${pending.length} migrations are pending; run \`agentctl migrate up\``
          : `UP TO DATE: ${applied.length} migrations are applied`;
    const isRefused = unknown.length > 0 || pending.length > 0;
    return { lines: [summary, ...linesOf(state)], json: { ...state, up_to_date: !isRefused }, isRefused };
  },
};

/** Brings the database to the version of the program. */
export const migrateUp: Command = {
  name: "migrate up",
  arguments: "",
  summary: "bring the database to the version of this program",
  details: [
    ...DETAILS,
    "Logs in as the owner, applies all pending migrations in one transaction, and grants the login of DATABASE_URL its rights. May run",
    "again and from several processes at once. A database of a newer version is left as it is.",
  ],
  options: [],
  async run(input) {
    const { ownerUrl, servingUrl } = loginsFrom(readSettings(input).config);
    const { MIGRATIONS, runMigrations, waitForDatabase, loginOf } = await openStore();
    const note = (_details: object, message: string): void => input.io.note(`${message}\n`);
    const log = { info: silent, warn: note, error: note };
    await reached(waitForDatabase(ownerUrl, CONNECT_MS, log));
    const login = servingUrl === undefined ? undefined : loginOf(servingUrl);
    const applied = await reached(runMigrations(ownerUrl, { migrations: MIGRATIONS, login, log }));
    const summary =
      applied.length === 0 ? "UP TO DATE: nothing was pending" : `MIGRATED: ${applied.length} were applied`;
    return { lines: [summary, ...applied.map((name) => `  ${name}`)], json: { applied } };
  },
};

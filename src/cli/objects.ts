import { open, rm } from "node:fs/promises";
import { parseDocument } from "yaml";
import { isJsonRecord, type JsonRecord, listAt, stringFrom, textAt } from "../verify/json.ts";
import { type Command, CommandError, type CommandInput, type OptionName } from "./command.ts";
import { readInput } from "./input-file.ts";
import { serviceFrom } from "./service.ts";
import { type Column, cellText, detailLines, tableLines } from "./table.ts";
import { timeFrom } from "./time-option.ts";

/** Options of every command that calls the service. */
const SERVICE = ["url", "key-file"] as const;
/** Most rows of one page. */
const PAGE_SIZE = 500;
const DEFAULT_LIMIT = 50;
/** Longest list that one command collects. */
const MAX_LIMIT = 1_000_000;

/** Members of a request, by the option that gives each. */
export type Members = Readonly<Partial<Record<OptionName, string>>>;

interface Described {
  /** Words of the command. */
  readonly name: string;
  readonly summary: string;
  readonly details?: readonly string[];
}

/** A listing of objects. */
export interface Listing extends Described {
  readonly path: string | ((id: string) => string);
  /** Arguments; default: none. */
  readonly arguments?: string;
  /** Member of the answer that holds the rows. */
  readonly rows: string;
  readonly columns: readonly Column[];
  readonly filters?: Members;
  /** Members of the request that are always sent. */
  readonly fixed?: Readonly<Record<string, string>>;
}

/** Creates a command that lists objects as a table. Its JSON is the answer of the service, with the rows of all pages read. */
export function createList({
  name,
  summary,
  details = [],
  path,
  rows,
  columns,
  filters = {},
  fixed = {},
  ...rest
}: Listing): Command {
  return {
    name,
    summary,
    arguments: rest.arguments ?? "",
    details: [
      "",
      `Lists ${DEFAULT_LIMIT} rows, unless \`--limit\` or \`--all\` says otherwise; times are UTC.`,
      ...details,
    ],
    options: [...SERVICE, "limit", "all", ...(Object.keys(filters) as OptionName[])],
    exit: "failure",
    async run(input) {
      const target = typeof path === "string" ? path : path(input.positionals[0] ?? "");
      const answer = await readPages(input, target, rows, { ...fixed, ...queryFrom(input, filters) });
      const found = listAt(answer, rows).filter(isJsonRecord);
      const more = textAt(answer, "next_page_token") === "" ? [] : ["there are more: pass --all, or a larger --limit"];
      const table = tableLines(columns, found, input.io.columns);
      if (more.length > 0) input.io.note(`${more.join()}\n`);
      return { lines: found.length === 0 ? [`no ${rows.replaceAll("_", " ")}`] : table, json: answer };
    },
  };
}

function queryFrom(input: CommandInput, filters: Members): Record<string, string> {
  const query: Record<string, string> = {};
  for (const [option, member = ""] of Object.entries(filters) as [OptionName, string][]) {
    if (option === "since" || option === "until") Object.assign(query, timeFrom(input, option));
    else if (input.has(option)) query[member] = "true";
    else {
      const value = input.option(option);
      if (value !== undefined) query[member] = value;
    }
  }
  return query;
}

/** Reads pages up to the limit into one answer, whose `next_page_token` is the last page's. */
export async function readPages(input: CommandInput, path: string, rows: string, query: Record<string, string>) {
  const limit = limitFrom(input);
  const call = serviceFrom(input);
  const found: unknown[] = [];
  for (let token = ""; ; ) {
    const size = Math.min(PAGE_SIZE, limit - found.length);
    const page = await call(path, {
      query: { ...query, page_size: size, ...(token === "" ? {} : { page_token: token }) },
    });
    found.push(...listAt(page, rows));
    token = stringFrom(page.next_page_token) ?? "";
    if (token === "" || found.length >= limit) return { ...page, [rows]: found } as JsonRecord;
  }
}

function limitFrom(input: CommandInput): number {
  const text = input.option("limit");
  if (input.has("all")) {
    if (text !== undefined) throw new CommandError("give either --limit or --all");
    return MAX_LIMIT;
  }
  const limit = Number(text ?? DEFAULT_LIMIT);
  if (Number.isInteger(limit) && limit >= 1 && limit <= MAX_LIMIT) return limit;
  throw new CommandError(`--limit is a number from 1 to ${MAX_LIMIT}`);
}

/** One object to show. */
export interface Showing extends Described {
  readonly argument: string;
  readonly path: (id: string) => string;
}

/** Creates a command that shows one object. Its JSON is the answer of the service. */
export function createShow({ name, summary, details = [], argument, path }: Showing): Command {
  return {
    name,
    summary,
    arguments: `<${argument}>`,
    details,
    options: SERVICE,
    exit: "failure",
    async run(input) {
      const [id = ""] = input.positionals;
      const answer = await serviceFrom(input)(path(id));
      return { lines: detailLines(answer), json: answer };
    },
  };
}

/** A change of the service. */
export interface Change extends Described {
  readonly method: "POST" | "PUT" | "PATCH" | "DELETE";
  /** Arguments of the command, such as `<agent> <department>`. */
  readonly arguments: string;
  readonly path: (...ids: readonly string[]) => string;
  /** Members of the request that the arguments give, after those of the path. */
  readonly positionals?: readonly string[];
  readonly members?: Members;
  /** Members that are always sent. */
  readonly fixed?: JsonRecord;
  /** True if `--file` may give the members. Default false. */
  readonly takesFile?: boolean;
  /** Member of the answer that holds a new secret, which `--secret-file` takes. */
  readonly secret?: string;
  /** Asks before a change that cannot be taken back. */
  readonly question?: (id: string) => string;
  /** Beginning of the line that tells what was done, such as `registered agent`. */
  readonly done: string;
}

/** Options whose value is a number. */
const NUMBERS: readonly OptionName[] = ["ttl", "outcome-timeout", "reviews"];

/** Creates a command that changes something. Its JSON is the answer of the service. */
export function createChange(change: Change): Command {
  const { name, summary, details = [], members = {}, takesFile = false, secret, question } = change;
  return {
    name,
    summary,
    arguments: change.arguments,
    details,
    options: [
      ...SERVICE,
      ...(takesFile ? (["file"] as const) : []),
      ...(Object.keys(members) as OptionName[]),
      ...(secret === undefined ? [] : (["secret-file"] as const)),
      ...(question === undefined ? [] : (["yes"] as const)),
    ],
    exit: "failure",
    async run(input) {
      const { method, fixed, done } = change;
      const body = { ...bodyFrom(input, change), ...fixed };
      const path = change.path(...input.positionals);
      const [id = ""] = input.positionals;
      if (question !== undefined && !input.has("yes") && (await input.io.confirm(question(id))) !== true)
        throw new CommandError("nothing was changed; answer yes, or pass --yes");
      const call = async () => serviceFrom(input)(path, { method, body });
      const answer = secret === undefined ? await call() : await keepSecret(input, secret, call);
      const named = path === change.path() ? idOf(answer, id) : input.positionals.join(" ");
      return { lines: [`${done} ${named}`, ...detailLines(answer, "  ")], json: answer };
    },
  };
}

/** Returns the first id or name in an answer, which names what was changed. */
function idOf(answer: JsonRecord, given: string): string {
  const [first] = Object.values(answer).filter(isJsonRecord);
  const id = Object.entries(first ?? answer).find(([member]) => member.endsWith("_id") || member === "name");
  return id === undefined ? given : cellText(id[1]);
}

function bodyFrom(input: CommandInput, { positionals = [], members = {}, takesFile = false }: Change): JsonRecord {
  const file = takesFile ? input.option("file") : undefined;
  const body: Record<string, unknown> = file === undefined ? {} : { ...recordIn(file, readInput(file, input.io)) };
  const ids = input.positionals.length - positionals.length;
  for (const [at, member] of positionals.entries()) {
    const value = input.positionals[Math.max(ids, 0) + at];
    if (value !== undefined) body[member] = value;
  }
  for (const [option, member = ""] of Object.entries(members) as [OptionName, string][]) {
    const value = valueFrom(input, option);
    if (value !== undefined) body[member] = value;
  }
  return body as JsonRecord;
}

function valueFrom(input: CommandInput, option: OptionName): unknown {
  if (option === "pause" || option === "resume") return input.has(option) ? option === "resume" : undefined;
  const many = input.options(option);
  if (Array.isArray(many)) return many.length === 0 ? undefined : many;
  const text = input.option(option);
  if (option === "amount" && text !== undefined) return amountFrom(text);
  if (text === undefined || !NUMBERS.includes(option)) return text;
  if (/^\d{1,12}$/.test(text)) return Number(text);
  throw new CommandError(`--${option} is a number of seconds`);
}

function amountFrom(text: string): number {
  if (/^\d{1,9}(\.\d{1,6})?$/.test(text)) return Number(text);
  throw new CommandError("--amount is a number such as 12.50, up to 999999999, with at most six places");
}

/** Reads an object from JSON or YAML. The message never shows the text, which may hold secrets. */
function recordIn(path: string, text: string): JsonRecord {
  const document = parseDocument(text, { prettyErrors: false });
  const [fault] = document.errors;
  if (fault !== undefined) throw new CommandError(`--file: \`${path}\` is neither JSON nor YAML (${fault.code})`);
  const value: unknown = document.toJS({ maxAliasCount: 100 });
  if (isJsonRecord(value)) return value;
  throw new CommandError(`--file: \`${path}\` holds no object with the members of the request`);
}

/** Makes the call with a file ready for the secret, so that none is lost for want of one. Returns the answer without the secret. */
async function keepSecret(input: CommandInput, member: string, call: () => Promise<JsonRecord>): Promise<JsonRecord> {
  const path = input.option("secret-file");
  if (path === undefined) return call();
  const file = await open(path, "wx", 0o600).catch(({ code }: NodeJS.ErrnoException) => {
    throw new CommandError(`--secret-file: \`${path}\` cannot be created (${code})`);
  });
  try {
    const { [member]: secret, ...answer } = await call();
    await file.writeFile(`${cellText(secret)}\n`);
    await file.sync();
    return answer;
  } catch (error) {
    await rm(path, { force: true });
    throw error;
  } finally {
    await file.close();
  }
}

import { isJsonRecord, type JsonRecord, listAt, textAt } from "../verify/json.ts";
import { type Command, CommandError, type CommandInput } from "./command.ts";
import { readInput } from "./input-file.ts";
import { listFileFrom } from "./list-values.ts";
import { createChange, createList, readPages } from "./objects.ts";
import { RequestRefusedError, serviceFrom } from "./service.ts";
import { cellText, detailLines } from "./table.ts";

const LISTS = "/v1/enforce/lists";
const pathOf = (name = "", rest = ""): string => `${LISTS}/${encodeURIComponent(name)}${rest}`;
/** Deadline of a change, milliseconds: that of a whole list takes seconds. */
const CHANGE_TIMEOUT_MS = 60_000;
/** Word for the digest of a list that does not exist. */
const NO_DIGEST = "none";

/** Returns a list without its values; undefined if there is none. */
async function existing(input: CommandInput, name: string): Promise<JsonRecord | undefined> {
  try {
    const { list } = await serviceFrom(input)(pathOf(name), { query: { page_size: 1 } });
    return isJsonRecord(list) ? list : undefined;
  } catch (error) {
    if (error instanceof RequestRefusedError && error.reason === "LIST_NOT_FOUND") return undefined;
    throw error;
  }
}

const get: Command = {
  name: "list get",
  summary: "show the values of a list, or those that contain a text, one a line",
  arguments: "<list>",
  details: ["", "Values are in the form in which they compare."],
  options: ["url", "key-file", "limit", "all", "search"],
  exit: "failure",
  async run(input) {
    const [name = ""] = input.positionals;
    const search = input.option("search");
    const answer = await readPages(input, pathOf(name), "values", search === undefined ? {} : { search });
    if (textAt(answer, "next_page_token") !== "") input.io.note("there are more: pass --all, or a larger --limit\n");
    return { lines: listAt(answer, "values").map(cellText), json: answer };
  },
};

const put: Command = {
  name: "list put",
  summary: "make a list hold exactly the values of a file, and create it if there is none",
  arguments: "<list>",
  details: [
    "",
    "The file is JSON or YAML (a list of texts, or `kind` with `values`), or CSV, whose first column counts. A new list needs a kind:",
    "`--kind`, or that of the file.",
    "",
    "The file is one change. It fails with LIST_CHANGED if the list is changed meanwhile, or, with `--expected-digest`, if it has",
    "another digest than an earlier command showed; `none` stands for a list that does not exist.",
  ],
  options: ["url", "key-file", "file", "kind", "expected-digest"],
  exit: "failure",
  async run(input) {
    const [name = ""] = input.positionals;
    const path = input.option("file");
    if (path === undefined) throw new CommandError("no values given: pass --file");
    const file = listFileFrom(path, readInput(path, input.io));
    const before = await existing(input, name);
    const kind = input.option("kind") ?? file.kind ?? (before && textAt(before, "kind"));
    if (kind === undefined) throw new CommandError("a new list needs a kind: pass --kind text, host or email_domain");
    const expected = input.option("expected-digest") ?? (before === undefined ? NO_DIGEST : textAt(before, "digest"));
    const body = { kind, values: file.values, expected_digest: expected === NO_DIGEST ? "" : expected };
    const answer = await serviceFrom(input)(pathOf(name), { method: "PUT", body, timeoutMs: CHANGE_TIMEOUT_MS });
    return { lines: [`put list ${name}`, ...detailLines(answer, "  ")], json: answer };
  },
};

/** Creates a command that sends values, given as arguments or in a file. */
function createValues(verb: "add" | "remove", summary: string, done: string): Command {
  return {
    name: `list ${verb}`,
    summary,
    arguments: "<list> [value…]",
    details: ["", "`--file` gives values as `list put` takes them."],
    options: ["url", "key-file", "file"],
    exit: "failure",
    async run(input) {
      const [name = "", ...given] = input.positionals;
      const path = input.option("file");
      const read = path === undefined ? [] : listFileFrom(path, readInput(path, input.io)).values;
      const values = [...given, ...read];
      if (values.length === 0) throw new CommandError("no values given: name them, or pass --file");
      const request = { method: "POST", body: { values }, timeoutMs: CHANGE_TIMEOUT_MS } as const;
      const answer = await serviceFrom(input)(pathOf(name, `:${verb}`), request);
      return { lines: [`${done} ${name}`, ...detailLines(answer, "  ")], json: answer };
    },
  };
}

/** Commands for named lists. */
export const LIST_COMMANDS: readonly Command[] = [
  createList({
    name: "list ls",
    summary: "list the named lists",
    path: LISTS,
    rows: "lists",
    columns: [
      { head: "NAME", of: "name" },
      { head: "KIND", of: "kind" },
      { head: "VALUES", of: "size" },
      { head: "MANDATES", of: "uses" },
      { head: "CHANGED", of: "updated_at" },
    ],
  }),
  get,
  put,
  createValues("add", "add values to a list", "added to list"),
  createValues("remove", "remove values from a list", "removed from list"),
  createChange({
    name: "list delete",
    summary: "delete a list that no mandate in force names",
    method: "DELETE",
    arguments: "<list>",
    path: (name) => pathOf(name),
    question: (name) => `delete list ${name}?`,
    done: "deleted list",
  }),
];

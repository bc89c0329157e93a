import { mkdir, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { isJsonRecord, type JsonRecord, listAt, required, textAt, valueAt } from "../verify/json.ts";
import { caretLines, placeInExpression } from "./caret.ts";
import { type Command, CommandError, type CommandInput, type CommandReport, type OptionName } from "./command.ts";
import { assertConfirmed } from "./confirm.ts";
import { type FileViolation, MANDATE_FILE, type MandateFiles, readMandateFiles } from "./mandate-files.ts";
import { canonicalYaml, lineDiff } from "./mandate-yaml.ts";
import { addressFrom, type CallService, RequestRefusedError, serviceFrom } from "./service.ts";

const FILE_FORMAT = [
  "",
  "<path> is a file, or a folder whose .yaml, .yml and .json files hold the whole set of mandates of a pack. A document is one",
  "mandate, a list of mandates, or `mandates:` with a list; a YAML file may hold several documents. Mandates have the members of",
  "POST /v1/enforce/mandates, and are identified by their names. Needs a key of the role admin or operator.",
];
const OPTIONS: readonly OptionName[] = ["url", "key-file", "pack", "adopt", "allow-empty"];
const DEFAULT_PACK = "default";
const PAGE_SIZE = 500;

/** `agentctl mandate validate` lists the faults that prevent files from being applied. */
export const mandateValidate: Command = {
  name: "mandate validate",
  arguments: "<path>",
  summary: "compile the mandates in files on the service, and list errors by file, line and column",
  details: [...FILE_FORMAT, "Nothing is changed. Exit code 1 says that there are errors."],
  options: OPTIONS,
  async run(input) {
    const tried = await tryFiles(input);
    if ("violations" in tried) return violationReport(tried.violations);
    const { files, mandates } = tried.read;
    const warnings = warningsOf(tried.read, tried.reply);
    const lines = [
      ...warnings.flatMap(violationLines),
      `${mandates.length} mandates in ${files.length} files are valid`,
    ];
    return { lines, json: { valid: true, mandates: mandates.length, warnings: warnings.map(withoutExcerpt) } };
  },
};

/** `agentctl mandate diff` shows the changes that applying files would make. */
export const mandateDiff: Command = {
  name: "mandate diff",
  arguments: "<path>",
  summary: "show which mandates applying files would create, update and archive",
  details: [...FILE_FORMAT, "Nothing is changed. Exit code 1 says that the files are not valid."],
  options: OPTIONS,
  async run(input) {
    const tried = await tryFiles(input);
    if ("violations" in tried) return violationReport(tried.violations);
    return { lines: await diffLines(tried), json: changesJson(tried.read, tried.reply) };
  },
};

/** `agentctl mandate apply` puts the mandates in files in force. */
export const mandateApply: Command = {
  name: "mandate apply",
  arguments: "<path>",
  summary: "put the mandates in files in force, all of them or none, and archive the pack's other mandates",
  details: [
    ...FILE_FORMAT,
    "Shows the difference first, with a warning for each stored test of the last version that comes out otherwise, and asks unless",
    "--yes is given; --dry-run ends there. Files that are already in force change nothing. If somebody else changes the pack",
    "meanwhile, the command fails and changes nothing. In a workspace that reviews changes, prints the proposal that waits instead;",
    "--wait waits for its end, and exit code 1 then says that it was not accepted.",
  ],
  options: [...OPTIONS, "note", "yes", "dry-run", "wait"],
  async run(input) {
    const tried = await tryFiles(input);
    if ("violations" in tried) return violationReport(tried.violations);
    const { read, reply: dry, pack } = tried;
    await input.show(await diffLines(tried));
    if (!isChange(tried)) return { lines: ["nothing to change"], json: changesJson(read, dry) };
    if (input.has("dry-run")) return { lines: ["nothing was applied"], json: changesJson(read, dry) };
    await assertConfirmed(input);
    const reply = await tried.apply(false);
    if (isJsonRecord(reply.proposal)) return proposalReport(input, tried, reply.proposal);
    const shown = new Set(warningsOf(read, dry).map(violationLine));
    const warnings = warningsOf(read, reply);
    const version = String(valueAt(reply, "pack.version"));
    return {
      lines: [
        ...warnings.filter((warning) => !shown.has(violationLine(warning))).flatMap(violationLines),
        `applied version ${version} of pack \`${pack}\`${warnings.length === 0 ? "" : `, ${countText(warnings)}`}`,
      ],
      json: changesJson(read, reply),
    };
  },
};

/** `agentctl mandate export` writes the mandates in force as files. */
export const mandateExport: Command = {
  name: "mandate export",
  arguments: "<folder>",
  summary: "write the mandates of a pack that are in force as YAML files",
  details: [
    "",
    "Writes one file for each mandate; applying the folder again changes nothing. Creates the folder if it does not exist. Refuses",
    "a folder with other files of mandates, because these would be applied as well.",
  ],
  options: ["url", "key-file", "pack", "adopt"],
  async run(input) {
    const [folder = ""] = input.positionals;
    const call = serviceFrom(input);
    const { name: pack } = await packNow(call, packFrom(input));
    const mandates = await mandatesInForce(call, pack, input.has("adopt"));
    if (mandates.length === 0) {
      throw new CommandError(`pack \`${pack}\` has no mandates in force; --adopt exports mandates without a pack`);
    }
    const schema = `${addressFrom(input).href.replace(/\/$/, "")}/schemas/mandate.json`;
    const files = filesOf(mandates, schema);
    await writeFiles(folder, files);
    const written = [...files.keys()].map((name) => join(folder, name));
    return { lines: written.map((file) => `wrote ${file}`), json: { pack, files: written } };
  },
};

/** Files that the service would apply, with its response to a dry run. */
interface TriedFiles {
  readonly pack: string;
  readonly read: MandateFiles;
  /** Current digest of the pack; empty for a new pack. */
  readonly digest: string;
  readonly appliedDigest: string;
  readonly reply: JsonRecord;
  readonly call: CallService;
  apply(isDryRun: boolean): Promise<JsonRecord>;
}

/** Reads the files of a command and lets the service try them. If the files have errors, returns these instead. */
async function tryFiles(input: CommandInput): Promise<TriedFiles | { readonly violations: readonly FileViolation[] }> {
  const [path = ""] = input.positionals;
  const call = serviceFrom(input);
  const given = packFrom(input);
  const read = await readMandateFiles(path);
  if (read.violations.length > 0) return { violations: read.violations };
  if (read.mandates.length === 0 && !input.has("allow-empty")) {
    throw new CommandError(`${path} contains no mandate; --allow-empty archives every mandate of pack \`${given}\``);
  }
  const { name: pack, digest, appliedDigest } = await packNow(call, given);
  const mandates = read.mandates.map(({ definition }) => definition);
  const note = input.option("note");
  const body = { mandates, expected_digest: digest, adopt: input.has("adopt"), ...(note !== undefined && { note }) };
  const apply = (isDryRun: boolean): Promise<JsonRecord> =>
    call(pathOf(pack), { method: "PUT", body: { ...body, dry_run: isDryRun } });
  try {
    return { pack, read, digest, appliedDigest, call, apply, reply: await apply(true) };
  } catch (error) {
    const violations = error instanceof RequestRefusedError ? violationsIn(error, read) : [];
    if (violations.length === 0) throw error;
    return { violations };
  }
}

function packFrom(input: CommandInput): string {
  const pack = (input.option("pack") ?? DEFAULT_PACK).trim();
  if (pack !== "") return pack;
  throw new CommandError("--pack must not be blank");
}

const pathOf = (pack: string): string => `/v1/enforce/packs/${encodeURIComponent(pack)}`;

/** Reads a pack, with its name as it was first written. */
async function packNow(
  call: CallService,
  name: string,
): Promise<{ readonly name: string; readonly digest: string; readonly appliedDigest: string }> {
  try {
    const { pack } = await call(pathOf(name));
    return {
      name: textAt(pack, "name"),
      digest: textAt(pack, "digest"),
      appliedDigest: textAt(pack, "applied_digest"),
    };
  } catch (error) {
    if (!(error instanceof RequestRefusedError) || error.reason !== "PACK_NOT_FOUND") throw error;
    return { name, digest: "", appliedDigest: "" };
  }
}

const PLACE = /^mandates\[(\d+)\]\.?(.*)$/;

/** Finds the place in a file for a path of the request. */
function placeIn({ mandates }: MandateFiles, field: string) {
  const [, index, path = ""] = PLACE.exec(field) ?? [];
  return index === undefined ? undefined : mandates[Number(index)]?.placeOf(path);
}

/** Finds the place in a file for a place in a text of the request, such as an expression. */
function placeInText(
  { mandates }: MandateFiles,
  field: string,
  spot: { readonly line: number; readonly column: number },
) {
  const [, index, path = ""] = PLACE.exec(field) ?? [];
  return index === undefined ? undefined : mandates[Number(index)]?.placeInText(path, spot.line, spot.column);
}

/** Finds the place in a file for a message about an expression, and its text without the place in the expression. */
function placeOfMessage(read: MandateFiles, field: string, text: string) {
  const found = placeInExpression(text);
  const place = found && placeInText(read, field, found);
  return found && place && { place, message: found.message };
}

/** Returns the violations of a refused request by their places, if all have one. */
function violationsIn({ violations }: RequestRefusedError, read: MandateFiles): readonly FileViolation[] {
  const placed = violations.flatMap(({ field, reason, description }): FileViolation[] => {
    const path = PLACE.exec(field)?.[2] ?? "";
    const inText = placeOfMessage(read, field, description);
    const place = inText?.place ?? placeIn(read, field);
    const text = inText?.message ?? description;
    const message = path === "" ? text : `\`${path}\`: ${text}`;
    return place === undefined ? [] : [{ ...place, reason, message }];
  });
  return placed.length === violations.length ? placed : [];
}

function warningsOf(read: MandateFiles, reply: JsonRecord): readonly FileViolation[] {
  return listAt(reply, "warnings").flatMap((warning) => {
    const path = textAt(warning, "path");
    const [line, column] = [valueAt(warning, "line"), valueAt(warning, "column")];
    const spot = typeof line === "number" && typeof column === "number" ? { line, column } : undefined;
    const place = (spot && placeInText(read, path, spot)) ?? placeIn(read, path);
    const [reason, message] = [textAt(warning, "reason"), `warning: ${textAt(warning, "message")}`];
    return place === undefined ? [] : [{ ...place, reason, message }];
  });
}

const violationLine = ({ file, line, column, reason, message }: FileViolation): string =>
  `${file}:${line}:${column}: ${message} (${reason})`;

const withoutExcerpt = ({ excerpt: _, ...violation }: FileViolation): FileViolation => violation;

const violationLines = (violation: FileViolation): readonly string[] => [
  violationLine(violation),
  ...(violation.excerpt === undefined ? [] : caretLines(violation.excerpt, violation.column)),
];

function violationReport(violations: readonly FileViolation[]): CommandReport {
  const count = `${violations.length} ${violations.length === 1 ? "violation" : "violations"}`;
  const lines = [...violations.flatMap(violationLines), count];
  return { lines, json: { valid: false, violations: violations.map(withoutExcerpt) }, isRefused: true };
}

/** Milliseconds between two looks at a proposal. */
const LOOK_MS = 2_000;

/** Reports the proposal that waits in place of a change; with `--wait`, its end. */
async function proposalReport(
  input: CommandInput,
  { call, pack }: TriedFiles,
  proposal: JsonRecord,
): Promise<CommandReport> {
  const id = textAt(proposal, "proposal_id");
  const needed = Number(valueAt(proposal, "needed"));
  const lines = [
    `proposed as ${id}: ${needed === 1 ? "another person" : `${needed} others`} must accept it by ${textAt(proposal, "expires_at")}`,
    `accept it: agentctl proposals accept ${id}`,
  ];
  if (!input.has("wait")) return { lines, json: { proposal } };
  await input.show(lines);
  let now = proposal;
  while (textAt(now, "status") === "pending") {
    await sleep(LOOK_MS);
    const shown = await call(`/v1/enforce/proposals/${encodeURIComponent(id)}`);
    now = required(isJsonRecord(shown.proposal) ? shown.proposal : undefined, "the service", "`proposal`");
  }
  const status = textAt(now, "status");
  if (status === "accepted") return { lines: [`accepted: pack \`${pack}\` is in force`], json: { proposal: now } };
  return { lines: [endText(status, textAt(now, "end_note"))], json: { proposal: now }, isRefused: true };
}

/** Says how a proposal ended that was not accepted. */
function endText(status: string, note: string): string {
  if (status === "stale") return "stale: the pack has changed since; apply the files again";
  if (status === "expired") return "expired: too few accepted it in time";
  return `${status}${note === "" ? "" : `: ${note}`}`;
}

/** True if applying would create a version of the pack. */
function isChange({ digest, appliedDigest, reply }: TriedFiles): boolean {
  const changed = ["created", "updated", "archived"].some((list) => listAt(reply, list).length > 0);
  // A pack may be new, adopt unchanged mandates, or already hold this set by single changes.
  const next = textAt(reply, "pack.digest");
  return changed || next !== digest || next !== appliedDigest;
}

async function diffLines({ pack, read, reply, call }: TriedFiles): Promise<readonly string[]> {
  const names = (list: string): readonly string[] => listAt(reply, list).map((each) => textAt(each, "name"));
  const written = new Map(read.mandates.map(({ definition }) => [textAt(definition, "name").trim(), definition]));
  const [created, updated, archived] = [names("created"), names("updated"), names("archived")];
  const inForce = updated.length === 0 ? [] : await mandatesInForce(call, pack, true);
  const currentById = new Map(inForce.map((mandate) => [textAt(mandate, "mandate_id"), mandate]));
  const ids = new Map(listAt(reply, "updated").map((each) => [textAt(each, "name"), textAt(each, "mandate_id")]));
  const yamlOf = (mandate: JsonRecord | undefined): string => canonicalYaml(mandate ?? {});
  return [
    ...created.flatMap((name) => [
      `created    ${name}`,
      ...yamlOf(written.get(name))
        .trimEnd()
        .split("\n")
        .map((line) => `  + ${line}`),
    ]),
    ...updated.flatMap((name) => [
      `updated    ${name}`,
      ...lineDiff(yamlOf(currentById.get(ids.get(name) ?? "")), yamlOf(written.get(name))).map((line) => `  ${line}`),
    ]),
    ...archived.map((name) => `archived   ${name}`),
    ...warningsOf(read, reply).flatMap(violationLines),
    `pack \`${pack}\`: ${created.length} created, ${updated.length} updated, ${archived.length} archived, ${names("unchanged").length} unchanged`,
  ];
}

const changesJson = (read: MandateFiles, reply: JsonRecord): object => {
  const { pack, created, updated, archived, unchanged } = reply;
  return { pack, created, updated, archived, unchanged, warnings: warningsOf(read, reply).map(withoutExcerpt) };
};

const countText = ({ length }: readonly FileViolation[]): string =>
  `with ${length} ${length === 1 ? "warning" : "warnings"}`;

/** Reads the mandates of a pack that are in force, sorted by name; `withLoose` includes mandates without a pack. */
async function mandatesInForce(call: CallService, pack: string, withLoose: boolean): Promise<readonly JsonRecord[]> {
  const found = await readMandates(call, { as_written: "true" });
  const isWanted = (mandate: JsonRecord): boolean => mandate.pack === pack || (withLoose && mandate.pack === null);
  return found.filter(isWanted).sort((a, b) => (textAt(a, "name") < textAt(b, "name") ? -1 : 1));
}

/** Reads all mandates in force, page by page. */
export async function readMandates(
  call: CallService,
  more: Readonly<Record<string, string>>,
): Promise<readonly JsonRecord[]> {
  const found: JsonRecord[] = [];
  let pageToken = "";
  do {
    const query = { page_size: PAGE_SIZE, ...more, ...(pageToken === "" ? {} : { page_token: pageToken }) };
    const page = await call("/v1/enforce/mandates", { query });
    const mandates = required(Array.isArray(page.mandates) ? page.mandates : undefined, "the service", "`mandates`");
    found.push(...mandates.filter(isJsonRecord));
    pageToken = textAt(page, "next_page_token");
  } while (pageToken !== "");
  return found;
}

/** Names a file after each mandate, with names that are distinct on every file system. */
function filesOf(mandates: readonly JsonRecord[], schema: string): ReadonlyMap<string, string> {
  const files = new Map<string, string>();
  for (const mandate of mandates) {
    const plain = textAt(mandate, "name").normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
    const base =
      plain
        .replace(/[^a-z0-9]+/g, "-")
        .slice(0, 60)
        .replace(/^-|-$/g, "") || "mandate";
    let name = `${base}.yaml`;
    for (let count = 2; files.has(name); count++) name = `${base}-${count}.yaml`;
    files.set(name, `# yaml-language-server: $schema=${schema}\n${canonicalYaml(mandate)}`);
  }
  return files;
}

async function writeFiles(folder: string, files: ReadonlyMap<string, string>): Promise<void> {
  try {
    await mkdir(folder, { recursive: true });
    const present = await readdir(folder, { recursive: true });
    const other = present.find((name) => MANDATE_FILE.test(name) && !name.startsWith(".") && !files.has(name));
    if (other !== undefined) {
      throw new CommandError(
        `${join(folder, other)} does not belong to a mandate of the pack: remove it, or export elsewhere`,
      );
    }
    for (const [name, text] of files) await writeFile(join(folder, name), text);
  } catch (error) {
    if (error instanceof CommandError) throw error;
    throw new CommandError(`${folder} cannot be written: ${(error as NodeJS.ErrnoException).code ?? String(error)}`);
  }
}

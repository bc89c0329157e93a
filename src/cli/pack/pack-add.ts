import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { DECLARED } from "../../notation/declared-path.ts";
import { isJsonRecord, type JsonRecord, listAt, textAt, valueAt } from "../../verify/json.ts";
import { type Command, CommandError, type CommandInput, type CommandReport } from "../command.ts";
import { assertConfirmed } from "../confirm.ts";
import { canonicalYaml } from "../mandate-yaml.ts";
import { nameKey } from "../name-key.ts";
import { type CallService, RequestRefusedError, serviceFrom } from "../service.ts";
import { type RegisteredTool, registeredTools } from "./registered-tools.ts";
import { mandatesFrom, type PackMandate, readTemplate } from "./template.ts";
import { type FileTool, faultLines, readToolFile, type ToolFile, type ToolFileFault } from "./tool-file.ts";

/** `agentctl pack add` makes a pack of provenance rules for the tools of a file and puts it in force. */
export const packAdd: Command = {
  name: "pack add",
  arguments: "<pack>",
  summary: "put a pack of provenance rules in force for the tools of a file",
  details: [
    "",
    "<pack> is `standard`, which needs no plan, or `frugal`, which asks less inside plans. --tools is a file such as `pack init` drafts.",
    "Tells errors by file, line and column; then applies the mandates as the pack of that name, all of them or none, and declares what",
    "the results of the tools mean. --dry-run changes nothing; --out writes the mandates to a folder instead. Exit code 1 says that the",
    "file has errors.",
  ],
  options: ["url", "key-file", "tools", "out", "note", "yes", "dry-run"],
  async run(input) {
    const [name = ""] = input.positionals;
    const path = input.option("tools");
    if (path === undefined) throw new CommandError("--tools must name a file such as `agentctl pack init` drafts");
    const template = readTemplate(name);
    const file = readToolFile(path, input.io);
    if (file.faults.length > 0) return faultReport(file, file.faults);
    const call = serviceFrom(input);
    const registered = await registeredTools(call);
    const faults = faultsAgainst(file, registered);
    if (faults.length > 0) return faultReport(file, faults);
    const mandates = mandatesFrom(template, file);
    if (mandates.length === 0)
      throw new CommandError(`${path} has no argument with a kind that pack \`${name}\` asks about`);
    const folder = input.option("out");
    if (folder !== undefined) return writeMandates(mandates, folder);
    return apply(input, call, { name, file, registered, mandates });
  },
};

function faultReport(file: ToolFile, faults: readonly ToolFileFault[]): CommandReport {
  const count = `${faults.length} ${faults.length === 1 ? "error" : "errors"}`;
  return { lines: [...faultLines(file, faults), count], json: { valid: false, faults }, isRefused: true };
}

/** Lists tools that are not registered, and arguments, also of declarations, that their schemas do not declare. */
function faultsAgainst({ tools }: ToolFile, registered: ReadonlyMap<string, RegisteredTool>): readonly ToolFileFault[] {
  return tools.flatMap((tool): ToolFileFault[] => {
    const known = registered.get(nameKey(tool.name));
    if (known === undefined) return [{ ...tool.place, message: `\`${tool.name}\` is not registered` }];
    const made = tool.provenance?.session_arguments?.map((path) => ({ path, place: tool.place })) ?? [];
    return [...tool.arguments, ...made].flatMap(({ path, place }) => {
      if (known.paths.includes(path)) return [];
      const declared = known.paths.length === 0 ? "none" : known.paths.map((each) => `\`${each}\``).join(" ");
      return [{ ...place, message: `\`${tool.name}\` has no argument \`${path}\`; its schema declares ${declared}` }];
    });
  });
}

async function writeMandates(mandates: readonly PackMandate[], folder: string): Promise<CommandReport> {
  const files: string[] = [];
  try {
    await mkdir(folder, { recursive: true });
    for (const { definition } of mandates) {
      const name = textAt(definition, "name")
        .replace(/[^a-z0-9]+/gi, "-")
        .replace(/-$/, "");
      const file = join(folder, `${name}.yaml`);
      await writeFile(file, canonicalYaml(definition), { flag: "wx" });
      files.push(file);
    }
  } catch (error) {
    const { code, message, path } = error as NodeJS.ErrnoException;
    throw new CommandError(`${path ?? folder} cannot be written: ${code ?? message}`);
  }
  return { lines: files.map((file) => `wrote ${file}`), json: { files } };
}

interface Addition {
  readonly name: string;
  readonly file: ToolFile;
  readonly registered: ReadonlyMap<string, RegisteredTool>;
  readonly mandates: readonly PackMandate[];
}

/** Applies the mandates, after a dry run that finds their errors, and declares what the tools' results mean. */
async function apply(input: CommandInput, call: CallService, addition: Addition): Promise<CommandReport> {
  const { name, file, registered, mandates } = addition;
  const note = input.option("note");
  const path = `/v1/enforce/packs/${encodeURIComponent(name)}`;
  const expected_digest = await digestOf(call, path);
  const body = {
    mandates: mandates.map(({ definition }) => definition),
    expected_digest,
    ...(note !== undefined && { note }),
  };
  const dry = await call(path, { method: "PUT", body: { ...body, dry_run: true } }).catch((error: unknown) => {
    const faults = error instanceof RequestRefusedError ? faultsIn(error, mandates) : [];
    if (faults.length === 0) throw error;
    return faults;
  });
  if (Array.isArray(dry)) return faultReport(file, dry);
  const declared = file.tools.filter((tool) => isChanged(tool, registered));
  const changes = ["created", "updated", "archived"].map((list) => [list, listAt(dry as JsonRecord, list)] as const);
  await input.show([
    ...declared.map((tool) => `declare    ${tool.name}`),
    ...changes.flatMap(([list, items]) => items.map((each) => `${list.padEnd(9)}  ${textAt(each, "name")}`)),
  ]);
  const json = { pack: name, declared: declared.map((tool) => tool.name), ...Object.fromEntries(changes) };
  if (input.has("dry-run")) return { lines: ["nothing was changed"], json };
  const isPackChanged = changes.some(([, items]) => items.length > 0);
  if (!isPackChanged && declared.length === 0) return { lines: ["nothing to change"], json };
  await assertConfirmed(input);
  const lines: string[] = [];
  if (isPackChanged) {
    const reply = await call(path, { method: "PUT", body });
    if (isJsonRecord(reply.proposal)) {
      const id = textAt(reply.proposal, "proposal_id");
      const more = declared.length === 0 ? "" : "; add the pack again then, to declare what the results mean";
      return {
        lines: [`proposed as ${id}: others must accept it${more}`],
        json: { ...json, proposal: reply.proposal },
      };
    }
    lines.push(`applied version ${String(valueAt(reply, "pack.version"))} of pack \`${name}\``);
  }
  // After the mandates, because a declaration makes values trusted.
  for (const tool of declared) await declare(call, tool);
  if (declared.length > 0) lines.push(`declared ${declared.length} tools`);
  return { lines, json };
}

/** Returns the digest of a pack, so that nobody's change in between is lost; empty for a pack that does not exist. */
async function digestOf(call: CallService, path: string): Promise<string> {
  try {
    return textAt(await call(path), "pack.digest");
  } catch (error) {
    if (error instanceof RequestRefusedError && error.reason === "PACK_NOT_FOUND") return "";
    throw error;
  }
}

const RULE = /^mandates\[(\d+)\]\.rules\[(\d+)\](?:\.conditions\.arguments\[(\d+)\])?/;

/** Finds the lines of the file for the errors of a refused request; nothing unless all have one. */
function faultsIn({ violations }: RequestRefusedError, mandates: readonly PackMandate[]): readonly ToolFileFault[] {
  const faults = violations.flatMap(({ field, description }): ToolFileFault[] => {
    const [, mandate, rule, argument] = RULE.exec(field) ?? [];
    const tool = mandates[Number(mandate)]?.tools[Number(rule)];
    if (tool === undefined) return [];
    const definition = listAt(mandates[Number(mandate)]?.definition, "rules")[Number(rule)];
    const path = textAt(listAt(definition, "conditions.arguments")[Number(argument)], "path");
    const place = tool.arguments.find((each) => each.path === path)?.place ?? tool.place;
    return [{ ...place, message: `\`${tool.name}\`: ${description}` }];
  });
  return faults.length === violations.length ? faults : [];
}

function isChanged({ name, provenance }: FileTool, registered: ReadonlyMap<string, RegisteredTool>): boolean {
  if (provenance === undefined) return false;
  const now = registered.get(nameKey(name))?.provenance;
  return DECLARED.some((member) => JSON.stringify(provenance[member] ?? []) !== JSON.stringify(now?.[member] ?? []));
}

async function declare(call: CallService, { name, provenance }: FileTool): Promise<void> {
  const path = `/v1/enforce/tools/${name.split("/").map(encodeURIComponent).join("/")}`;
  await call(path, { method: "PATCH", body: { provenance } });
}

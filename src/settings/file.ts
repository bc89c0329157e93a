import { readFileSync } from "node:fs";
import { isMap, isScalar, isSeq, LineCounter, type Pair, parseDocument } from "yaml";

/** A setting in a file. */
export interface FileSetting {
  readonly name: string;
  /** As the environment would hold it. */
  readonly text: string;
  /** File and line, such as `acp.yaml:3`. */
  readonly place: string;
}

/** Settings of a file in its order, and a line for each fault. A fault names file and line, and never repeats a value. */
export interface SettingsFile {
  readonly settings: readonly FileSetting[];
  readonly problems: readonly string[];
}

/** Reads a file of settings: a YAML mapping of names to single values, or to lists that stand for comma-separated ones. */
export function readSettingsFile(path: string): SettingsFile {
  try {
    return parseSettings(path, readFileSync(path, "utf8"));
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    return { settings: [], problems: [`ACP_CONFIG names a file that cannot be read (${code}): \`${path}\``] };
  }
}

/** Does the same with the text of a file; `path` names it in messages. */
export function parseSettings(path: string, text: string): SettingsFile {
  const lines = new LineCounter();
  // Every value is a text here, as in the environment: `0017` and `yes` stay what they are.
  const document = parseDocument(text, { schema: "failsafe", lineCounter: lines, prettyErrors: false });
  const placeAt = (offset: number): string => `${path}:${lines.linePos(offset).line}`;
  const faults = [...document.errors, ...document.warnings];
  // The message of a fault may hold a part of the text.
  if (faults.length > 0) {
    return { settings: [], problems: faults.map(({ code, pos }) => `${placeAt(pos[0])} is not valid YAML (${code})`) };
  }
  const { contents } = document;
  if (contents === null || (isScalar(contents) && contents.value === "")) return { settings: [], problems: [] };
  if (!isMap(contents)) return { settings: [], problems: [`${path} must hold settings, such as \`ACP_WORKERS: 2\``] };
  const settings: FileSetting[] = [];
  const problems: string[] = [];
  for (const pair of contents.items as Pair[]) {
    const name = isScalar(pair.key) ? String(pair.key.value) : "";
    const offset = (isScalar(pair.key) ? pair.key.range?.[0] : undefined) ?? 0;
    const place = placeAt(offset);
    const value = textOf(pair.value);
    if (name === "") problems.push(`${place} must name a setting before the colon`);
    else if (value === undefined) problems.push(`${place} ${name} must be a single value or a list of single values`);
    else settings.push({ name, text: value, place });
  }
  return { settings, problems };
}

function textOf(value: unknown): string | undefined {
  if (value === null) return "";
  if (isScalar(value)) return String(value.value ?? "");
  if (!isSeq(value)) return undefined;
  const items = value.items.map((item) => (isScalar(item) ? String(item.value ?? "") : undefined));
  return items.includes(undefined) ? undefined : items.join(",");
}

import { readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { isMap, isScalar, isSeq, LineCounter, type Node, parseAllDocuments, type Document as YamlDocument } from "yaml";
import { indexAt, offsetInScalar, scalarAt } from "../notation/yaml-place.ts";
import { isJsonRecord, type JsonRecord } from "../verify/json.ts";
import { CommandError } from "./command.ts";

/** A place in a file, from 1. */
export interface FilePlace {
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

/** An error in a file. */
export interface FileViolation extends FilePlace {
  readonly reason: string;
  readonly message: string;
  /** Line of the file, of an error or warning within an expression. */
  readonly excerpt?: string;
}

/** One mandate in a file. */
export interface FileMandate {
  readonly definition: JsonRecord;
  /**
   * Finds the place of a member by its path below the mandate (`rules[0].tool`). For a missing member, returns the nearest
   * existing one.
   */
  placeOf(path: string): FilePlace;
  /**
   * Finds the place of a character in a text at a path, by its line and column in the text, with the line of the file; undefined
   * if there is no text.
   */
  placeInText(path: string, line: number, column: number): PlaceInText | undefined;
}

/** A place in a file, with its line. */
export interface PlaceInText extends FilePlace {
  readonly excerpt: string;
}

/** Mandates of some files, with the errors in these files. */
export interface MandateFiles {
  readonly files: readonly string[];
  readonly mandates: readonly FileMandate[];
  readonly violations: readonly FileViolation[];
}

/** Names of files that hold mandates. */
export const MANDATE_FILE = /\.(ya?ml|json)$/i;
/** Maximum bytes of all files: more than the service accepts in one request by default. */
const MAX_BYTES = 16_777_216;
/** Member in which a file names its schema for editors. */
const SCHEMA_MEMBER = "$schema";

/**
 * Reads the mandates of a file, or of all `.yaml`, `.yml` and `.json` files in a folder and its folders, in the order of their
 * paths. A document is one mandate, a list of mandates, or a list under `mandates`; a YAML file may hold several documents.
 * Throws `CommandError` for files that cannot be read.
 */
export async function readMandateFiles(path: string): Promise<MandateFiles> {
  const files = await filesAt(path);
  const mandates: FileMandate[] = [];
  const violations: FileViolation[] = [];
  let bytes = 0;
  for (const file of files) {
    const text = await readable(file, () => readFile(file, "utf8"));
    bytes += Buffer.byteLength(text);
    if (bytes > MAX_BYTES) throw new CommandError(`the files below ${path} have more than ${MAX_BYTES} bytes`);
    readMandates(file, text, mandates, violations);
  }
  return { files, mandates, violations };
}

async function filesAt(path: string): Promise<readonly string[]> {
  const entry = await readable(path, () => stat(path));
  if (!entry.isDirectory()) return [path];
  const names = await readable(path, () => readdir(path, { recursive: true }));
  const isHidden = (name: string): boolean => name.split(/[\\/]/).some((part) => part.startsWith("."));
  const files = names.filter((name) => MANDATE_FILE.test(name) && !isHidden(name)).sort();
  if (files.length === 0) throw new CommandError(`${path} contains no .yaml, .yml or .json files`);
  return files.map((name) => join(path, name));
}

async function readable<T>(path: string, read: () => Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    throw new CommandError(`${path} cannot be read: ${code ?? message}`);
  }
}

function readMandates(file: string, text: string, mandates: FileMandate[], violations: FileViolation[]): void {
  const lineCounter = new LineCounter();
  // JSON is YAML, so the YAML parser also reads JSON, with the places of its values.
  const documents = parseAllDocuments(text, { lineCounter, prettyErrors: false });
  const placeAt = (offset: number): FilePlace => {
    const { line, col } = lineCounter.linePos(offset);
    return { file, line: Math.max(line, 1), column: Math.max(col, 1) };
  };
  for (const document of Array.isArray(documents) ? documents : []) {
    const faults = [...document.errors, ...document.warnings];
    violations.push(...faults.map(({ pos, code, message }) => ({ ...placeAt(pos[0]), reason: code, message })));
    if (faults.length > 0 || document.contents === null || isEmpty(document.contents)) continue;
    for (const node of mandateNodes(document.contents)) {
      const placeOf = (path: string): FilePlace => placeAt(offsetOf(node, path));
      const placeInText = (path: string, line: number, column: number): PlaceInText | undefined => {
        const scalar = scalarAt(node, path);
        if (scalar === undefined) return undefined;
        const place = placeAt(offsetInScalar(text, scalar, indexAt(String(scalar.value), line, column)));
        return { ...place, excerpt: text.split(/\r?\n/)[place.line - 1] ?? "" };
      };
      const definition = definitionIn(node, document);
      if (typeof definition !== "string") mandates.push({ definition, placeOf, placeInText });
      else violations.push({ ...placeOf(""), reason: "NOT_A_MANDATE", message: definition });
    }
  }
}

const isEmpty = (node: Node): boolean => isScalar(node) && node.value === null;

/** Returns the mandates of a document: itself, its items, or the items of its `mandates`. */
function mandateNodes(node: Node): readonly Node[] {
  if (isSeq(node)) return node.items as Node[];
  const list = isMap(node) ? node.get("mandates", true) : undefined;
  if (!isMap(node) || list === undefined || node.has("name")) return [node];
  return isSeq(list) ? (list.items as Node[]) : isEmpty(list as Node) ? [] : [list as Node];
}

/** Returns the mandate in a node, or the reason for which it is not one. */
function definitionIn(node: Node, document: YamlDocument): JsonRecord | string {
  try {
    const value: unknown = node.toJS(document);
    if (!isJsonRecord(value)) return "expected a mandate: an object with `name` and `rules`";
    const { [SCHEMA_MEMBER]: _, ...definition } = value;
    return definition;
  } catch (error) {
    // Aliases without an anchor, or so many that the text would grow without bound.
    return `cannot be read: ${(error as Error).message}`;
  }
}

/** Finds the start of a member: its value, or its name if the value is a list or object. */
function offsetOf(mandate: Node, path: string): number {
  let node: unknown = mandate;
  let offset = mandate.range?.[0] ?? 0;
  for (const step of path.match(/[^.[\]]+/g) ?? []) {
    if (isMap(node)) {
      const pair = node.items.find(({ key }) => String(isScalar(key) ? key.value : key) === step);
      if (pair === undefined) return offset;
      const [key, value] = [pair.key as Node | null, pair.value as Node | null];
      offset = (isScalar(value) ? value.range?.[0] : key?.range?.[0]) ?? offset;
      node = value;
    } else if (isSeq(node)) {
      node = node.items[Number(step)];
      offset = (node as Node | undefined)?.range?.[0] ?? offset;
    } else return offset;
  }
  return offset;
}

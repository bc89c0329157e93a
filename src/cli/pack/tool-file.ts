import { isMap, isScalar, isSeq, LineCounter, type Node, type Pair, parseDocument, type YAMLMap } from "yaml";
import { DECLARED, type Declared, declaredPath, notDeclaredPath } from "../../notation/declared-path.ts";
import { fold } from "../../text/fold.ts";
import { CommandError, type CommandIo } from "../command.ts";
import { readInput } from "../input-file.ts";
import { EFFECTS, type Effect, isOneOf, KINDS, type Kind } from "./words.ts";

/** A place in a file of tools, from 1. */
export interface Place {
  readonly line: number;
  readonly column: number;
}

/** An error in a file of tools. */
export interface ToolFileFault extends Place {
  readonly message: string;
}

/** An argument of a tool with its kind. */
export interface ToolArgument {
  readonly path: string;
  readonly kind: Kind;
  readonly place: Place;
}

/** One tool of the file. */
export interface FileTool {
  readonly name: string;
  readonly effect: Effect;
  readonly arguments: readonly ToolArgument[];
  /** Meaning of results and arguments; undefined if the file leaves that of the registered tool. */
  readonly provenance: Readonly<Partial<Record<Declared, readonly string[]>>> | undefined;
  /** Words of a prompt on which the tool belongs to its plan, folded; undefined for a tool of every plan. */
  readonly words: readonly string[] | undefined;
  readonly place: Place;
}

/** Lists that are trusted, by name, each with the kinds for which it is. */
export type TrustedLists = ReadonlyMap<string, readonly Kind[]>;

/** A file of tools. */
export interface ToolFile {
  readonly file: string;
  readonly tools: readonly FileTool[];
  readonly lists: TrustedLists;
  readonly faults: readonly ToolFileFault[];
}

/** Kinds of which lists may be trusted. */
const LISTED_KINDS = ["destination", "host"] as const;
/** Maximum characters of a path, and maximum paths of a member, that the service takes. */
const MAX_PATH_LENGTH = 256;
const MAX_PATHS = 100;
const MEMBERS = ["effect", "arguments", "plan_words", ...DECLARED] as const;

/** Reads a file of tools, with every fault in it. Throws `CommandError` for a file that cannot be read. */
export function readToolFile(file: string, io: CommandIo): ToolFile {
  return parseToolFile(readInput(file, io), file);
}

/** Tests whether a text has the shape of a file of tools: tools by name, and not a list of them. */
export function isToolFile(text: string): boolean {
  const { contents } = parseDocument(text, { prettyErrors: false });
  return isMap(contents) && isMap(contents.get("tools", true));
}

/** Parses a file of tools. */
export function parseToolFile(text: string, file: string): ToolFile {
  return new ToolFileReader(file, text).read();
}

/** Writes the faults of a file as lines: "tools.yaml:3:5: …". */
export const faultLines = ({ file }: Pick<ToolFile, "file">, faults: readonly ToolFileFault[]): readonly string[] =>
  faults
    .toSorted((a, b) => a.line - b.line || a.column - b.column)
    .map(({ line, column, message }) => `${file}:${line}:${column}: ${message}`);

/** Throws `CommandError` with the faults of a file, if there are any. */
export function assertSound(read: ToolFile): void {
  const [first, ...more] = faultLines(read, read.faults);
  if (first !== undefined) throw new CommandError(`${first}${more.length === 0 ? "" : ` (and ${more.length} more)`}`);
}

class ToolFileReader {
  readonly #file: string;
  readonly #text: string;
  readonly #lines = new LineCounter();
  readonly #faults: ToolFileFault[] = [];

  constructor(file: string, text: string) {
    this.#file = file;
    this.#text = text;
  }

  read(): ToolFile {
    const document = parseDocument(this.#text, { lineCounter: this.#lines, prettyErrors: false });
    for (const { pos, message } of [...document.errors, ...document.warnings])
      this.#faults.push({ ...this.#placeAt(pos[0]), message });
    const empty = { file: this.#file, tools: [], lists: new Map<string, readonly Kind[]>(), faults: this.#faults };
    if (this.#faults.length > 0) return empty;
    const root = document.contents as Node | null;
    if (!isMap(root) || !root.has("tools")) {
      this.#fault(root, "expected `tools`, an object with a member for each tool");
      return empty;
    }
    const members = this.#members(root as YAMLMap, ["tools", "lists"], "the file");
    return { ...empty, tools: this.#tools(members.get("tools")), lists: this.#lists(members.get("lists")) };
  }

  #tools(node: Node | undefined): readonly FileTool[] {
    if (!isMap(node)) {
      this.#fault(node, "`tools` must be an object with a member for each tool");
      return [];
    }
    const named = new Set<string>();
    return (node as YAMLMap).items.flatMap((pair) => {
      const key = pair.key as Node;
      const name = this.#name(key, "the name of a tool");
      if (name === undefined) return [];
      if (named.has(fold(name))) this.#fault(key, `\`${name}\` is the name of another tool as well`);
      named.add(fold(name));
      const tool = this.#tool(name, key, pair.value as Node | null);
      return tool === undefined ? [] : [tool];
    });
  }

  #tool(name: string, key: Node, node: Node | null): FileTool | undefined {
    if (!isMap(node)) {
      this.#fault(node ?? key, `\`${name}\` must be an object with \`effect\``);
      return undefined;
    }
    const members = this.#members(node as YAMLMap, MEMBERS, `tool \`${name}\``);
    const effectNode = members.get("effect");
    const effect = isScalar(effectNode) ? effectNode.value : undefined;
    if (!isOneOf(EFFECTS, effect)) {
      this.#fault(effectNode ?? key, `\`effect\` of \`${name}\` must be one of ${listText(EFFECTS)}`);
      return undefined;
    }
    const declared = DECLARED.flatMap((member) => {
      const paths = members.get(member);
      return paths === undefined ? [] : [[member, this.#paths(paths, member)] as const];
    });
    const provenance = declared.length === 0 ? undefined : Object.fromEntries(declared);
    if (provenance?.trusted_fields !== undefined && provenance.free_fields !== undefined)
      this.#fault(members.get("free_fields"), "`free_fields` and `trusted_fields` exclude each other");
    const words = members.get("plan_words");
    return {
      name,
      effect,
      arguments: this.#arguments(name, members.get("arguments")),
      provenance,
      words: words === undefined ? undefined : this.#planWords(words),
      place: this.#placeOf(key),
    };
  }

  #arguments(tool: string, node: Node | undefined): readonly ToolArgument[] {
    if (node === undefined || isNull(node)) return [];
    if (!isMap(node)) {
      this.#fault(node, `\`arguments\` of \`${tool}\` must be an object of paths with their kinds`);
      return [];
    }
    return (node as YAMLMap).items.flatMap(({ key, value }) => {
      const path = this.#name(key as Node, "the path of an argument");
      const kind = isScalar(value) ? value.value : undefined;
      if (path === undefined) return [];
      if (isOneOf(KINDS, kind)) return [{ path, kind, place: this.#placeOf(key as Node) }];
      this.#fault((value as Node | null) ?? (key as Node), `the kind of \`${path}\` must be one of ${listText(KINDS)}`);
      return [];
    });
  }

  #lists(node: Node | undefined): TrustedLists {
    const lists = new Map<string, readonly Kind[]>();
    if (node === undefined || isNull(node)) return lists;
    if (!isMap(node))
      this.#fault(node, "`lists` must be an object of names of lists with the kinds they are trusted for");
    else
      for (const { key, value } of (node as YAMLMap).items) {
        const name = this.#name(key as Node, "the name of a list");
        const kinds = this.#texts((value as Node | null) ?? (key as Node), "lists");
        const known = kinds.filter((kind) => isOneOf(LISTED_KINDS, kind));
        if (known.length < kinds.length || known.length === 0)
          this.#fault((value as Node | null) ?? (key as Node), `a list is trusted for ${listText(LISTED_KINDS)} alone`);
        else if (name !== undefined) lists.set(name, known);
      }
    return lists;
  }

  #members(node: YAMLMap, known: readonly string[], of: string): ReadonlyMap<string, Node> {
    const members = new Map<string, Node>();
    for (const { key, value } of node.items as Pair<Node, Node | null>[]) {
      const name = isScalar(key) ? String(key.value) : "";
      if (!known.includes(name)) this.#fault(key, `${of} has no member \`${name}\`, only ${listText(known)}`);
      else if (value !== null && !isNull(value)) members.set(name, value);
    }
    return members;
  }

  /** Reads paths of a declaration, each in the notation in which the service keeps it. */
  #paths(node: Node, member: Declared): readonly string[] {
    const paths = this.#items(node, member).flatMap(({ text, item }) => {
      const path = text.length <= MAX_PATH_LENGTH ? declaredPath(member, text) : undefined;
      if (path === undefined) this.#fault(item, `an item of \`${member}\` ${notDeclaredPath(member)}`);
      return path ?? [];
    });
    if (paths.length > MAX_PATHS) this.#fault(node, `\`${member}\` has more than ${MAX_PATHS} paths`);
    return paths;
  }

  #planWords(node: Node): readonly string[] {
    return this.#items(node, "plan_words").map(({ text, item }) => {
      // Without either, the word would stand in every prompt.
      if (!/[\p{L}\p{N}]/u.test(fold(text))) this.#fault(item, "a word of `plan_words` needs a letter or a digit");
      return fold(text);
    });
  }

  #texts(node: Node, member: string): readonly string[] {
    return this.#items(node, member).map(({ text }) => text);
  }

  #items(node: Node, member: string): readonly { readonly text: string; readonly item: Node }[] {
    if (!isSeq(node)) {
      this.#fault(node, `\`${member}\` must be a list of texts`);
      return [];
    }
    return (node.items as Node[]).flatMap((item) => {
      const text = this.#name(item, `an item of \`${member}\``);
      return text === undefined ? [] : [{ text, item }];
    });
  }

  #name(node: Node, what: string): string | undefined {
    if (isScalar(node) && typeof node.value === "string" && node.value.trim() !== "") return node.value;
    this.#fault(node, `${what} must be a text that is not empty`);
    return undefined;
  }

  #fault(node: Node | null | undefined, message: string): void {
    this.#faults.push({ ...this.#placeOf(node), message });
  }

  #placeOf(node: Node | null | undefined): Place {
    return this.#placeAt(node?.range?.[0] ?? 0);
  }

  #placeAt(offset: number): Place {
    const { line, col } = this.#lines.linePos(offset);
    return { line: Math.max(line, 1), column: Math.max(col, 1) };
  }
}

const isNull = (node: Node): boolean => isScalar(node) && node.value === null;
const listText = (words: readonly string[]): string => words.map((word) => `\`${word}\``).join(" ");

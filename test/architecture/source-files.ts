import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, posix, relative, sep } from "node:path";

/** The top of the project. */
export const ROOT = join(import.meta.dirname, "..", "..");

/** Never part of the project, whatever `.gitignore` says. */
const FOREIGN = [".git", "node_modules"];

/** A file of the project that is text. */
export interface SourceFile {
  /** From the top of the project, with `/` between: `src/main.ts`. */
  readonly path: string;
  readonly text: string;
}

/** One reference from a file to another file or to a package. */
export interface Import {
  /** The importing file. */
  readonly from: string;
  /** The imported file from the top of the project, or the package's specifier as written. */
  readonly to: string;
  readonly isFile: boolean;
  /** Whether types alone are imported, which leaves nothing at run time. */
  readonly isTypeOnly: boolean;
  /** Whether it is a call, made when the program comes to it. */
  readonly isCall: boolean;
}

function ignored(): (name: string) => boolean {
  const lines = readFileSync(join(ROOT, ".gitignore"), "utf8").split("\n");
  const names = new Set([...FOREIGN, ...lines.map((line) => line.replace(/\/$/, ""))]);
  return (name) => names.has(name) || name.endsWith(".log");
}

const isIgnored = ignored();

/** What lies at the top of the project and is not ignored. */
export function topLevelEntries(): readonly string[] {
  return readdirSync(ROOT).filter((name) => !isIgnored(name));
}

function pathsBelow(folder: string): string[] {
  return readdirSync(join(ROOT, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = posix.join(folder, entry.name);
    if (isIgnored(entry.name)) return [];
    return entry.isDirectory() ? pathsBelow(path) : [path];
  });
}

/** Every file below a folder (`.` for all), in the order of their paths, ignored ones left out. */
export function sourceFiles(folder: string, ending = ""): readonly SourceFile[] {
  const paths = pathsBelow(folder).filter((path) => path.endsWith(ending));
  return paths.sort().map((path) => ({ path, text: readFileSync(join(ROOT, path), "utf8") }));
}

/**
 * The text with blanks for comments, templates and strings in single quotes, and line ends where they were. Strings in
 * double quotes stay: specifiers are written in them.
 */
export function codeOf(text: string): string {
  // Strings are part of the pattern so that `//` inside of one begins no comment.
  const pattern = /"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`|\/\/[^\n]*|\/\*[\s\S]*?\*\//g;
  return text.replace(pattern, (found) => (found.startsWith('"') ? found : found.replace(/[^\n]/g, " ")));
}

/** `import … from "…"`, `export … from "…"` and `import "…"`, each at the start of a line as the formatter puts them. */
const STATEMENT = /^(?:import|export)\s+(?:(type\s)?([^;"'`=]*?)\s*from\s*)?"([^"\n]+)"/gm;
/** `import("…")` and `require("…")`, as values and in types. */
const CALL = /\b(?:import|require)\(\s*"([^"\n]+)"/g;

function isTypeClause(typeWord: string | undefined, clause: string | undefined): boolean {
  if (typeWord !== undefined) return true;
  const names = /^\{([\s\S]*)\}$/.exec(clause ?? "")?.[1]?.split(",") ?? [""];
  return names.every((name, index) => /^\s*type\s/.test(name) || (index > 0 && name.trim() === ""));
}

function resolved(from: string, specifier: string): Pick<Import, "to" | "isFile"> {
  if (!specifier.startsWith(".")) return { to: specifier, isFile: false };
  const path = relative(ROOT, join(ROOT, dirname(from), specifier));
  return { to: path.split(sep).join("/"), isFile: true };
}

/** Every import of a file, in no particular order. */
export function importsOf({ path, text }: SourceFile): readonly Import[] {
  const code = codeOf(text);
  const statements = [...code.matchAll(STATEMENT)].map(([, typeWord, clause, specifier = ""]) => ({
    from: path,
    isTypeOnly: isTypeClause(typeWord, clause),
    isCall: false,
    ...resolved(path, specifier),
  }));
  const calls = [...code.matchAll(CALL)].map(([, specifier = ""]) => ({
    from: path,
    isTypeOnly: false,
    isCall: true,
    ...resolved(path, specifier),
  }));
  return [...statements, ...calls];
}

/** The package of a specifier: `@mikro-orm/postgresql` of `@mikro-orm/postgresql/x.js`, `node:fs` of itself. */
export function packageOf(specifier: string): string {
  return specifier.split("/", specifier.startsWith("@") ? 2 : 1).join("/");
}

import { expect } from "chai";
import { codeOf, sourceFiles, topLevelEntries } from "./source-files.ts";

/** Everything that may lie at the top: what a reader looks for, and what tools look for there. */
const TOP_LEVEL = [
  ".ci",
  ".editorconfig",
  ".gitattributes",
  ".gitignore",
  ".npmrc",
  ".nvmrc",
  "AGENTS.md",
  "CHANGELOG.md",
  "CONTRIBUTING.md",
  "LICENSE",
  "README.md",
  "SECURITY.md",
  "biome.json",
  "buf.gen.yaml",
  "buf.yaml",
  "gen",
  "package-lock.json",
  "package.json",
  "proto",
  "src",
  "test",
  "tsconfig.json",
];
/** Written so that this file does not hold what it forbids. */
const FORBIDDEN: readonly { readonly what: string; readonly pattern: RegExp }[] = [
  { what: "open ends", pattern: /\b(TO[D]O|FI[X]ME|X[X]X|HA[C]K)\b/ },
  { what: "paths of one machine", pattern: /(^|[\s"'`(=])\/(work|root|home|Users)\/\w/m },
  { what: "hosts of a package registry", pattern: /\bregistry\.(npm[j]s|yarn[p]kg)\.|"resol[v]ed": "\w+:/ },
];

const SOURCES = sourceFiles("src", ".ts");
/** Names that `src` exports by declaration, with their files. */
function exportedNames(): { readonly path: string; readonly name: string }[] {
  const declaration = /^export (?:async )?(?:abstract )?(?:function|const|let|class|interface|type|enum) (\w+)/gm;
  return SOURCES.flatMap(({ path, text }) =>
    [...codeOf(text).matchAll(declaration)].map(([, name = ""]) => ({ path, name })),
  );
}

describe("the layout", () => {
  it("has nothing at the top but what belongs there.", () => {
    expect(topLevelEntries().filter((name) => !TOP_LEVEL.includes(name))).to.deep.equal([]);
  });

  it("names files in kebab-case.", () => {
    const named = /^(\d{4}-)?[a-z0-9]+(-[a-z0-9]+)*(\.long)?(\.test)?\.ts$/;
    const files = [...SOURCES, ...sourceFiles("test", ".ts")].map(({ path }) => path);
    expect(files.filter((path) => !named.test(path.split("/").at(-1) ?? ""))).to.deep.equal([]);
  });
});

describe("the code", () => {
  it("exports no names that say nothing.", () => {
    expect(exportedNames().filter(({ name }) => /(Manager|Helper|Utils?)$|^I[A-Z][a-z]/.test(name))).to.deep.equal([]);
  });

  for (const { what, pattern } of FORBIDDEN) {
    it(`holds no ${what}.`, () => {
      const holding = sourceFiles(".").filter(({ text }) => pattern.test(text));
      expect(holding.map(({ path }) => path)).to.deep.equal([]);
    });
  }
});

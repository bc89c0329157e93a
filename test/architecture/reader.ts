import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { expect } from "chai";
import { DEFAULT_GRPC_PORT, DEFAULT_HOST, DEFAULT_HTTP_PORT } from "../../src/config.ts";
import { installPythonPackage, PYTHON_PACKAGES, type PythonEnvironment } from "../client/python/python-library.ts";
import { withClient } from "../support/database.ts";
import { missingPackages } from "../support/debian.ts";
import { poolerSettingsOf } from "../support/pooler.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { asFarAsShown, type CodeBlock, isTextAsShown } from "./page.ts";
import { ROOT } from "./source-files.ts";

/** Address of REST, Connect and gRPC-Web in the pages. */
export const DOCUMENTED_HTTP = `http://${DEFAULT_HOST}:${DEFAULT_HTTP_PORT}`;
const DOCUMENTED_GRPC = `${DEFAULT_HOST}:${DEFAULT_GRPC_PORT}`;
/** Ends the output of each block. */
const END = "--- end of block ---";
/** Parts of the checkout that a reader's folder has of its own, or not at all. */
const NOT_LINKED = [".data", ".git", ".generated"];

/** Debian's packages that a reader needs for examples in Python. */
export const missingForPython = (): readonly string[] => missingPackages(PYTHON_PACKAGES);

/** A reader's folder after `npm start`: links to the checkout, `.data` of its own, and the server. */
export interface ReadersFolder {
  readonly path: string;
  readonly server: TestServer;
  /** `DATABASE_URL` of the server. Empty: the embedded PostgreSQL in `.data`. */
  readonly databaseUrl: string;
  /** Builds the client for Python at the first call and installs it; returns the path of Python. */
  python(): Promise<string>;
  remove(): Promise<void>;
}

/** How a reader's folder is made. */
interface ReadersFolderOptions {
  /** Default: the embedded PostgreSQL. */
  readonly databaseUrl?: string;
  /** Packages that commands of MCP servers have without a download. Default none. */
  readonly packages?: readonly string[];
}

/** Links packages of the checkout into a folder, for `npx` in the folders below it. */
async function linkPackages(folder: string, names: readonly string[]): Promise<void> {
  const modules = join(folder, "node_modules");
  await mkdir(join(modules, ".bin"), { recursive: true });
  for (const name of names) {
    const source = join(ROOT, "node_modules", name);
    await mkdir(dirname(join(modules, name)), { recursive: true });
    await symlink(source, join(modules, name));
    const { bin } = JSON.parse(await readFile(join(source, "package.json"), "utf8")) as { bin: Record<string, string> };
    for (const [command, file] of Object.entries(bin))
      await symlink(join(source, file), join(modules, ".bin", command));
  }
}

/** Writes an admin key where a start on the embedded PostgreSQL keeps the one that it generates. */
async function keepAdminKey(dataDir: string): Promise<string> {
  const key = `acp_${randomUUID()}`;
  await mkdir(dataDir, { mode: 0o700 });
  await writeFile(join(dataDir, "admin-key"), `${key}\n`, { mode: 0o600 });
  return key;
}

/** Registers the agent that a start on the embedded PostgreSQL registers. */
async function registerExampleAgent({ http, adminKey }: TestServer): Promise<void> {
  const headers = { "x-api-key": adminKey, "content-type": "application/json" };
  const body = JSON.stringify({ name: "example-agent", framework: "curl" });
  const response = await fetch(`${http}/v1/enforce/agents`, { method: "POST", headers, body });
  expect(response.status, await response.text()).to.equal(200);
}

/** Starts a server. */
export async function createReadersFolder({
  databaseUrl = "",
  packages = [],
}: ReadersFolderOptions = {}): Promise<ReadersFolder> {
  const path = await mkdtemp(join(tmpdir(), "acp-reader-"));
  // Open to the account that PostgreSQL runs under when this is root.
  await chmod(path, 0o755);
  const linked = (await readdir(ROOT)).filter((name) => !NOT_LINKED.includes(name));
  await Promise.all(linked.map((name) => symlink(join(ROOT, name), join(path, name))));
  // An empty variable counts as unset: on the embedded PostgreSQL the start generates the key and keeps it in a file.
  // A command of npx may take long to start beside other work.
  const env = { ACP_DATA_DIR: join(path, ".data"), ACP_ADMIN_KEY: "", ACP_DEFAULT_DEADLINE_MS: "60000" };
  const isEmbedded = databaseUrl === "";
  const own = isEmbedded
    ? { env }
    : { databaseUrl, env: { ...env, ACP_ADMIN_KEY: await keepAdminKey(env.ACP_DATA_DIR) } };
  const homes = join(path, ".homes");
  await linkPackages(homes, packages);
  await chmod(homes, 0o711);
  const folders = [join(homes, "node_modules"), join(ROOT, "node_modules")].join(",");
  const removePath = () => rm(path, { recursive: true, force: true, maxRetries: 20 });
  const startEnv = { ...own.env, ACP_MCP_HOMES: homes, ACP_MCP_FOLDERS: folders };
  const server = await startServer({ ...own, env: startEnv }).catch(async (error) => {
    await removePath();
    throw error;
  });
  if (!isEmbedded) await registerExampleAgent(server);
  let environment: Promise<PythonEnvironment> | undefined;
  return {
    path,
    server,
    databaseUrl,
    async python() {
      environment ??= installPythonPackage();
      return (await environment).python;
    },
    async remove() {
      await server.stop();
      await (await environment)?.remove();
      await removePath();
    },
  };
}

/** Entries of the published client, and their sources. */
const CLIENT_ENTRIES: Readonly<Record<string, string>> = {
  "": "index",
  "/node": "node/index",
  "/plan": "plan",
  "/proto": "proto",
};

/** Has an example import the sources of the client in place of the published package. */
export function withClientSources(example: string): string {
  return example.replace(/"@agent-control-plane\/client(\/[a-z-]+)?"/g, (_, entry = "") => {
    const file = join(ROOT, "src/client", `${CLIENT_ENTRIES[entry] ?? `adapters${entry}`}.ts`);
    return `"${file}"`;
  });
}

/** One shell in which a reader runs blocks one after another: variables, functions and files stay. */
export class ReadersShell {
  readonly #folder: ReadersFolder;
  readonly #shell: ChildProcessWithoutNullStreams;
  readonly #ended: Promise<unknown>;
  /** File with the commands that failed. */
  readonly #failed: string;
  /** File with the answers that `curl` got, printed or not. */
  readonly #answers: string;
  #output = "";
  #errors = "";

  constructor(folder: ReadersFolder) {
    this.#folder = folder;
    this.#failed = join(folder.path, `failed-${randomUUID()}`);
    this.#answers = join(folder.path, `answers-${randomUUID()}`);
    const kept = Object.entries(process.env).filter(([name]) => !/^(ACP_|AGENTCTL_|REDIS_URL|INIT_CWD)/.test(name));
    // A home of their own, in which `agentctl attach` keeps a key. `INIT_CWD` of npm names the folder of the project.
    const { databaseUrl } = folder;
    const pooler = databaseUrl === "" ? {} : poolerSettingsOf(databaseUrl);
    const env = { ...Object.fromEntries(kept), DATABASE_URL: databaseUrl, ...pooler, HOME: folder.path };
    // A process group of its own, so that a command that hangs ends with the shell.
    this.#shell = spawn("bash", ["-Euo", "pipefail"], { cwd: folder.path, env, stdio: "pipe", detached: true });
    this.#ended = once(this.#shell, "exit");
    this.#shell.stdout.setEncoding("utf8").on("data", (text) => {
      this.#output += text;
    });
    this.#shell.stderr.setEncoding("utf8").on("data", (text) => {
      this.#errors += text;
    });
    // A shell that has ended says so by its output.
    this.#shell.stdin.on("error", () => undefined);
    this.#shell.stdin.write(`trap 'echo "$BASH_COMMAND" >> ${this.#failed}' ERR\n`);
    this.#shell.stdin.write(`curl() { command curl "$@" | tee -a '${this.#answers}'; }\n`);
  }

  /** Runs a block for the first time: as `checkAgain`, and the service refuses no call but one whose answer is shown. */
  async check(block: CodeBlock): Promise<void> {
    await this.checkAgain(block);
    if (block.shown?.text.includes('"error":')) return;
    expect(await readFile(this.#answers, "utf8"), block.code).not.to.include('"ok":false');
  }

  /** Runs a block: no command fails, and the output is as shown. */
  async checkAgain({ language, code, shown }: CodeBlock): Promise<void> {
    await Promise.all([writeFile(this.#failed, ""), writeFile(this.#answers, "")]);
    const output = await this.#run(language, this.#served(code));
    expect(await readFile(this.#failed, "utf8"), `${code}\n${this.#errors}`).to.equal("");
    if (shown?.language === "json") assertJsonAsShown(output, shown.text);
    if (shown?.language === "text") assertTextAsShown(output, this.#served(shown.text));
  }

  /** Ends the shell, with a command that still runs in it. */
  async close(): Promise<void> {
    if (this.#shell.exitCode === null && this.#shell.pid !== undefined) process.kill(-this.#shell.pid, "SIGKILL");
    await this.#ended;
  }

  /** Puts the addresses of the server in place of the documented ones. */
  #served(text: string): string {
    const { http, grpc } = this.#folder.server;
    return text.replaceAll(DOCUMENTED_HTTP, http).replaceAll(DOCUMENTED_GRPC, grpc);
  }

  async #run(language: string, code: string): Promise<string> {
    if (language === "sql") return await this.#query(code);
    if (language === "sh") return await this.#source(code);
    if (language === "python") {
      const file = await this.#write("py", code);
      return await this.#source(`'${await this.#folder.python()}' '${file}'`);
    }
    const file = await this.#write("ts", withClientSources(code));
    return await this.#source(`'${process.execPath}' '${file}'`);
  }

  /** Asks the database whose address the page has put into `DATABASE`. */
  async #query(statement: string): Promise<string> {
    const url = await this.#source('echo "$DATABASE"');
    return JSON.stringify(await withClient(url, async (client) => (await client.query(statement)).rows));
  }

  /** Runs commands in the shell. They read no standard input, which holds the commands that follow. */
  async #source(commands: string): Promise<string> {
    const file = await this.#write("sh", commands);
    this.#output = "";
    this.#errors = "";
    this.#shell.stdin.write(`. '${file}' < /dev/null; echo; echo '${END}'\n`);
    const output = await this.#untilEnd(commands);
    return output.trim();
  }

  async #untilEnd(commands: string): Promise<string> {
    while (!this.#output.includes(END)) {
      if (this.#shell.exitCode !== null) {
        throw new Error(`the shell ended in\n${commands}\nand printed\n${this.#output}${this.#errors}`);
      }
      await Promise.race([once(this.#shell.stdout, "data"), this.#ended]);
    }
    return this.#output.slice(0, this.#output.indexOf(END));
  }

  async #write(ending: string, text: string): Promise<string> {
    const file = join(this.#folder.path, `block-${randomUUID()}.${ending}`);
    await writeFile(file, text);
    return file;
  }
}

function assertJsonAsShown(output: string, shown: string): void {
  const want: unknown = JSON.parse(shown);
  expect(asFarAsShown(JSON.parse(output), want)).to.deep.equal(want);
}

function assertTextAsShown(output: string, shown: string): void {
  expect(isTextAsShown(output, shown), `${output}\nis not as shown:\n${shown}`).to.equal(true);
}

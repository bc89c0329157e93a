import { execFile } from "node:child_process";
import { randomUUID } from "node:crypto";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { expect } from "chai";
import { presentationId } from "../../../src/client/request-id.ts";
import { describeWithPackages } from "../../support/debian.ts";
import type { TestService } from "../../support/service.ts";
import { startRuledService } from "../harness.ts";
import { installPythonPackage, PYTHON_PACKAGES, type PythonEnvironment } from "./python-library.ts";

const run = promisify(execFile);
const ROOT = join(import.meta.dirname, "..", "..", "..");

describeWithPackages("the Python package", [...PYTHON_PACKAGES, "mypy"], function () {
  this.timeout(300_000);
  let service: TestService;
  let environment: PythonEnvironment;
  before("builds and installs the wheel, and starts a server", async () => {
    environment = await installPythonPackage();
    service = await startRuledService({ ACP_STREAM_HEARTBEAT_MS: "100" });
  });
  after("stops the server", async () => {
    await service?.stop();
    await environment?.remove();
  });

  const python = async (...args: readonly string[]): Promise<string> => {
    const env = {
      ...process.env,
      ACP_URL: service.grpc,
      ACP_KEY: service.adminKey,
      AGENT: await service.agent(),
      GRPC_VERBOSITY: "NONE",
      PYTHONDONTWRITEBYTECODE: "1",
    };
    const { stdout, stderr } = await run(environment.python, args, { env, cwd: import.meta.dirname }).catch((error) => {
      throw new Error(`${error.stdout}\n${error.stderr}`);
    });
    return stdout + stderr;
  };

  for (const [module, title] of [
    ["blocking", "keeps its promises with the blocking client."],
    ["asyncio", "keeps its promises with the asyncio client."],
    ["outcomes", "claims and reports with both clients."],
    ["plan", "keeps agents to their plans with both clients."],
    ["observation", "has sessions observe prompts and results with both clients."],
    ["frameworks", "guards tools of frameworks."],
  ])
    it(title as string, async () => {
      expect(await python("-m", "unittest", `test_${module}`)).to.match(/^Ran \d+ tests.*\n\nOK$/m);
    });

  it("holds the blocking forms of the asyncio modules, up to date.", async () => {
    const folder = dirname(environment.wheel);
    await run(environment.python, ["-m", "zipfile", "-e", environment.wheel, join(folder, "unpacked")]);
    await run(environment.python, [join(ROOT, "src/client/python/write_blocking.py"), join(folder, "fresh")]);
    const names = await readdir(join(folder, "fresh"), { recursive: true });
    const modules = names.filter((name) => name.endsWith(".py"));
    expect(modules).to.include.members(["client.py", "_sync/escalation.py", "_sync/watch.py", "_sync/intercept.py"]);
    for (const name of modules) {
      const held = await readFile(join(folder, "unpacked/agent_control_plane", name), "utf8");
      expect(held, name).to.equal(await readFile(join(folder, "fresh", name), "utf8"));
    }
  });

  it("presents an approval under the same id as the TypeScript client.", async () => {
    const pairs = Array.from({ length: 20 }, () => [randomUUID(), `esc_${randomUUID()}`] as const);
    const code = "import json, sys; from agent_control_plane._request_id import presentation_id as of";
    const read = "print(json.dumps([of(*pair) for pair in json.loads(sys.argv[1])]))";
    const ids = JSON.parse(await python("-c", `${code}\n${read}`, JSON.stringify(pairs)));
    expect(ids).to.deep.equal(pairs.map(([requestId, escalationId]) => presentationId(requestId, escalationId)));
  });

  it("tells a caller and a model when to try again as the TypeScript client does.", async () => {
    const text = await readFile(join(ROOT, "test/testdata/client/retry-after.json"), "utf8");
    const cases = JSON.parse(text) as readonly { readonly retry_after: string | null; readonly text: string }[];
    const code = [
      "import json, sys",
      "from datetime import datetime",
      "from agent_control_plane import AgentBlockedError",
      "from agent_control_plane.results import InterceptReason",
      "from agent_control_plane._model_text import blocked_text",
      "time = lambda text: None if text is None else datetime.fromisoformat(text.replace('Z', '+00:00'))",
      "told = []",
      "for each in json.loads(sys.argv[1]):",
      "    reasons = [InterceptReason('LIMIT_EXCEEDED', 'too many', resets_at=time(reason.get('resets_at')),",
      "        decision=reason.get('decision')) for reason in each['reasons']]",
      "    after = AgentBlockedError('no', 'block', reasons=reasons).retry_after",
      "    text = blocked_text('pay', reasons, time(each['now']))",
      "    told.append([after and after.isoformat(timespec='milliseconds'), text.endswith(each['text'])])",
      "print(json.dumps(told))",
    ].join("\n");
    const told = JSON.parse(await python("-c", code, text));
    expect(told).to.deep.equal(cases.map((each) => [each.retry_after?.replace("Z", "+00:00") ?? null, true]));
  });

  it("shares a process with the packages that define the same protos.", async () => {
    const protos = join(dirname(environment.wheel), "staged", "protos");
    const others = ["google/rpc/status.proto", "google/rpc/error_details.proto", "google/api/annotations.proto"];
    const files = [...others, "google/api/http.proto", "buf/validate/validate.proto"];
    await run("protoc", ["-I", protos, "-I", join(ROOT, "proto"), `--python_out=${protos}`, ...files]);
    const modules = files.map((path) => path.replace(/\.proto$/, "_pb2").replaceAll("/", "."));
    const path = `import sys, google; sys.path.insert(0, ${JSON.stringify(protos)}); google.__path__.append(${JSON.stringify(join(protos, "google"))})`;
    for (const order of [
      [...modules, "agent_control_plane"],
      ["agent_control_plane", ...modules],
    ])
      await python("-c", `${path}\nimport ${order.join(", ")}`);
  });

  it("is typed: mypy finds no fault in it, and finds those of its callers.", async () => {
    const { staged } = environment;
    const mypy = (...args: readonly string[]) =>
      run("/usr/bin/mypy", ["--config-file", "pyproject.toml", ...args], { cwd: staged }).catch((error) => error);
    expect((await mypy("-p", "agent_control_plane")).stdout).to.match(/^Success/);
    await writeFile(join(staged, "caller.py"), await readFile(join(import.meta.dirname, "typed_caller.py"), "utf8"));
    const { stdout } = await mypy("caller.py");
    const found = [...stdout.matchAll(/^caller\.py:(\d+): error/gm)].map(([, line]) => Number(line));
    const text = await readFile(join(staged, "caller.py"), "utf8");
    const wanted = text.split("\n").flatMap((line, index) => (line.includes("# wrong") ? [index + 1] : []));
    expect([...new Set(found)], stdout).to.deep.equal(wanted);
  });
});

import { execFile, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { chmod, mkdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { createServer as createTlsServer } from "node:https";
import { type AddressInfo, createServer } from "node:net";
import { userInfo } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { expect } from "chai";
import { freePort } from "../../support/free-port.ts";
import { createFolder, type Folder } from "../harness.ts";
import {
  blockReason,
  bodyOf,
  connectionFile,
  EVENT,
  HOOK,
  type HookRun,
  hookLine,
  KEY,
  runCommandLine,
  type StrangeCall,
  sendSigned,
  serve,
  signatureOf,
} from "./hook-run.ts";

const CLIENTS = ["claude-code", "codex"] as const;
const ALLOW = bodyOf({ permissionDecision: "allow" });
const ALLOW_EDITED = bodyOf({ permissionDecision: "allow", updatedInput: { command: "true" } });

/** Asserts that a run blocks the call in its client's form, with the event read to its end. */
function assertBlocked(run: HookRun, why: string, what = ""): void {
  expect(blockReason(run), `${what}: ${JSON.stringify(run)}`).to.contain(why);
  expect(run.stdout + run.stderr, what).not.to.contain(KEY);
}

describe("the hook of a coding agent", () => {
  let folder: Folder;
  before(async () => {
    folder = await createFolder();
  });
  after(() => folder?.remove());

  /** Runs the hook against a service of the test. */
  async function runAgainst(answer: (call: StrangeCall) => void, client: string = "claude-code"): Promise<HookRun> {
    const service = await serve(answer);
    try {
      const connection = await connectionFile(folder, service.url, {}, `${randomUUID()}.json`);
      return await runCommandLine(hookLine(service.url, connection, { client }), EVENT);
    } finally {
      await service.close();
    }
  }

  it("sends event, key, agent and a fresh nonce, and the seconds that a call may wait.", async () => {
    const service = await serve((call) => sendSigned(call, ALLOW));
    const agent = "agt_aaaaaaaaaaaaaaaaaaaaaaaaaa";
    const connection = await connectionFile(folder, service.url, { agent });
    for (const _ of [1, 2]) {
      const run = await runCommandLine(hookLine(service.url, connection, { holdSeconds: 7 }), EVENT);
      expect(run.code, run.stderr).to.equal(0);
      expect(run.stdout).to.equal(JSON.stringify(JSON.parse(ALLOW).output));
    }
    const [first, second] = service.calls;
    expect(first?.request.url).to.equal("/v1/hooks/claude-code?hold_seconds=7");
    expect(first?.request.headers).to.include({ "x-api-key": KEY, "x-agent-id": agent });
    expect(JSON.parse(first?.event.toString() ?? "")).to.deep.equal(EVENT);
    expect(first?.nonce).to.match(/^[0-9a-f]{64}$/);
    expect(first?.nonce).not.to.equal(second?.nonce);
    await service.close();
  });

  const LONG = "x".repeat(300_000);
  const nested = (depth: number): unknown => (depth === 0 ? "x" : [nested(depth - 1)]);
  const TOLD: readonly (readonly [string, unknown, object])[] = [
    ["a short answer as it is", [{ a: 1 }], { tool_response: [{ a: 1 }] }],
    ["a long text as it is", LONG, { tool_response: LONG }],
    ["a long answer as its JSON, and says so", [LONG], { tool_response: JSON.stringify([LONG]), is_text: true }],
    [
      "a deep answer as its JSON, and says so",
      nested(33),
      { tool_response: JSON.stringify(nested(33)), is_text: true },
    ],
    [
      "a long answer of a tool that failed as its JSON, and says so",
      { isError: true, a: LONG },
      { tool_response: { isError: true, text: JSON.stringify({ isError: true, a: LONG }) }, is_text: true },
    ],
  ];
  for (const [what, answer, told] of TOLD)
    it(`tells ${what}.`, async () => {
      const service = await serve((call) => sendSigned(call, JSON.stringify({ output: {} })));
      const connection = await connectionFile(folder, service.url, {}, `${randomUUID()}.json`);
      const event = { hook_event_name: "PostToolUse", tool_use_id: "t", tool_response: answer };
      const run = await runCommandLine(hookLine(service.url, connection, { mode: "after" }), event);
      expect(run, run.stderr).to.include({ code: 0, stdout: "" });
      const { tool_response: _, ...about } = event;
      expect(JSON.parse(service.calls[0]?.event.toString() ?? "")).to.deep.equal({ ...about, ...told });
      await service.close();
    });

  const ANSWERS: readonly [string, string, object | undefined, number, string, string][] = [
    ["an allow", "claude-code", { permissionDecision: "allow" }, 0, "allow", ""],
    ["an edited input", "claude-code", { permissionDecision: "allow", updatedInput: { a: 1 } }, 0, '{"a":1}', ""],
    ["an edited input", "codex", { permissionDecision: "allow", updatedInput: { a: 1 } }, 0, '{"a":1}', ""],
    ["a denial", "claude-code", { permissionDecision: "deny", permissionDecisionReason: "no rm" }, 0, "no rm", ""],
    ["a denial", "codex", { permissionDecision: "deny", permissionDecisionReason: "no rm" }, 2, "", "no rm"],
    ["a question", "claude-code", { permissionDecision: "ask", permissionDecisionReason: "why" }, 0, "ask", ""],
    ["nothing to say", "claude-code", undefined, 0, "", ""],
    ["nothing to say", "codex", undefined, 0, "", ""],
  ];
  for (const [what, client, output, code, stdout, stderr] of ANSWERS) {
    it(`gives ${client} ${what} in its form.`, async () => {
      const body = output === undefined ? '{"output":{}}' : bodyOf(output);
      const run = await runAgainst((call) => sendSigned(call, body), client);
      expect(run.code, run.stderr).to.equal(code);
      expect(run.stdout).to.contain(stdout);
      expect(run.stderr).to.contain(stderr);
      if (stdout === "") expect(run.stdout).to.equal("");
    });
  }

  let earlier: { readonly body: string; readonly signature: string } | undefined;
  const UNSIGNED = "not signed";
  const FORM = "a form that the hook does not know";
  const ATTACKS: readonly [string, (call: StrangeCall) => void, string][] = [
    ["a foreign 200 without a body", ({ response }) => response.end(), UNSIGNED],
    ["a foreign 200 with an empty object", ({ response }) => response.end("{}"), UNSIGNED],
    ["a foreign 200 that allows", ({ response }) => response.end(ALLOW), UNSIGNED],
    ["a page of a captive portal", ({ response }) => response.end("<html>"), UNSIGNED],
    [
      "the event echoed",
      ({ request, response, event }) =>
        response.writeHead(200, { ...request.headers, "content-length": event.length }).end(event),
      UNSIGNED,
    ],
    ["a signature by another key", (call) => sendSigned(call, ALLOW, "acp_another"), UNSIGNED],
    ["a signature by an empty key", (call) => sendSigned(call, ALLOW, ""), UNSIGNED],
    ["a signature over another nonce", (call) => sendSigned({ ...call, nonce: "0".repeat(64) }, ALLOW), UNSIGNED],
    ["a signature over an empty nonce", (call) => sendSigned({ ...call, nonce: "" }, ALLOW), UNSIGNED],
    [
      "an earlier answer with its signature",
      (call) => {
        earlier ??= { body: ALLOW, signature: signatureOf("f".repeat(64), ALLOW) };
        call.response.setHeader("x-hook-signature", earlier.signature);
        call.response.end(earlier.body);
      },
      UNSIGNED,
    ],
    [
      "another body under the signature of a denial",
      ({ response, nonce }) => {
        const denial = bodyOf({ permissionDecision: "deny", permissionDecisionReason: "no" });
        response.setHeader("x-hook-signature", signatureOf(nonce, denial));
        response.end(ALLOW);
      },
      UNSIGNED,
    ],
    [
      "a digit of the nonce moved into the body",
      ({ response, nonce }) => {
        response.setHeader("x-hook-signature", signatureOf(nonce, ALLOW));
        response.end(`${nonce.at(-1)}${ALLOW}`);
      },
      UNSIGNED,
    ],
    [
      "a signature in capital letters",
      ({ response, nonce }) => {
        response.setHeader("x-hook-signature", signatureOf(nonce, ALLOW).toUpperCase());
        response.end(ALLOW);
      },
      UNSIGNED,
    ],
    [
      "the first half of the signature",
      ({ response, nonce }) => {
        response.setHeader("x-hook-signature", signatureOf(nonce, ALLOW).slice(0, 32));
        response.end(ALLOW);
      },
      UNSIGNED,
    ],
    [
      "two signatures of which one is right",
      ({ response, nonce }) => {
        response.setHeader("x-hook-signature", [signatureOf(nonce, ALLOW), "0".repeat(64)]);
        response.end(ALLOW);
      },
      UNSIGNED,
    ],
    [
      "a signature in a trailer",
      ({ response, nonce }) => {
        response.writeHead(200, { trailer: "x-hook-signature" });
        response.write(ALLOW);
        response.addTrailers({ "x-hook-signature": signatureOf(nonce, ALLOW) });
        response.end();
      },
      UNSIGNED,
    ],
    [
      "a signed answer with status 201",
      (call) => {
        call.response.statusCode = 201;
        sendSigned(call, ALLOW);
      },
      "status 201",
    ],
    [
      "a signed answer with status 500",
      (call) => {
        call.response.statusCode = 500;
        sendSigned(call, ALLOW);
      },
      "status 500",
    ],
    ["status 204", ({ response }) => response.writeHead(204).end(), "status 204"],
    ["status 401", ({ response }) => response.writeHead(401).end(), "refuses the key"],
    ["a closed connection", ({ response }) => response.destroy(), "gave no answer"],
    [
      "half of a signed body",
      ({ response, nonce }) => {
        response.writeHead(200, { "content-length": ALLOW.length, "x-hook-signature": signatureOf(nonce, ALLOW) });
        response.write(ALLOW.slice(0, 10), () => response.destroy());
      },
      "broke off",
    ],
    [
      "a chunked body that ends early",
      ({ response, nonce }) => {
        response.writeHead(200, { "x-hook-signature": signatureOf(nonce, ALLOW) });
        response.write(ALLOW, () => response.destroy());
      },
      "broke off",
    ],
    ["an endless body", ({ response }) => flood(response), "larger than"],
    [
      "headers without end",
      ({ response }) => response.writeHead(200, { "x-a": "a".repeat(1_000_000) }).end(),
      "gave no answer",
    ],
    ["signed text", (call) => sendSigned(call, "allow"), "not a JSON object"],
    ["a signed list", (call) => sendSigned(call, "[{}]"), "not a JSON object"],
    ["a signed null", (call) => sendSigned(call, "null"), "not a JSON object"],
    ["a signed answer without output", (call) => sendSigned(call, "{}"), FORM],
    ["a signed list as output", (call) => sendSigned(call, '{"output":[]}'), FORM],
    ["an unknown decision", (call) => sendSigned(call, bodyOf({ permissionDecision: "ALLOW" })), FORM],
    ["a decision of another event", (call) => sendSigned(call, ALLOW.replace("PreToolUse", "PostToolUse")), FORM],
    ["no decision", (call) => sendSigned(call, bodyOf({})), FORM],
    ["a denial without a reason", (call) => sendSigned(call, bodyOf({ permissionDecision: "deny" })), FORM],
    [
      "a denial with a blank reason",
      (call) => sendSigned(call, bodyOf({ permissionDecision: "deny", permissionDecisionReason: " \u2003\n" })),
      FORM,
    ],
    [
      "an input that is no object",
      (call) => sendSigned(call, bodyOf({ permissionDecision: "allow", updatedInput: "rm" })),
      FORM,
    ],
    [
      "a further member",
      (call) => sendSigned(call, '{"output":{"continue":false,"hookSpecificOutput":{"hookEventName":"PreToolUse"}}}'),
      FORM,
    ],
  ];
  for (const [what, answer, why] of ATTACKS) {
    it(`blocks both clients after ${what}.`, async () => {
      const runs = await Promise.all(CLIENTS.map((client) => runAgainst(answer, client)));
      for (const run of runs) assertBlocked(run, why, what);
      // Codex reads no denial of every form; exit code 2 with a text holds in each.
      expect(runs.map(({ code }) => code)).to.deep.equal([0, 2]);
    });
  }

  function flood(response: StrangeCall["response"]): void {
    const more = () => {
      while (!response.destroyed && response.write(Buffer.alloc(65_536, 32)));
    };
    response.on("drain", more).on("error", () => undefined);
    more();
  }

  for (const status of [301, 302, 303, 307, 308]) {
    it(`blocks after a redirect with ${status}, and follows it nowhere.`, async () => {
      const target = await serve((call) => sendSigned(call, ALLOW));
      try {
        for (const client of CLIENTS) {
          const run = await runAgainst(({ response }) => {
            response.writeHead(status, { location: `${target.url}/v1/hooks/${client}` }).end();
          }, client);
          assertBlocked(run, "a redirect");
        }
        expect(target.calls).to.have.length(0);
      } finally {
        await target.close();
      }
    });
  }

  it("blocks what would make Codex run the tool: `allow` without an input, `ask`, and half of a character pair.", async () => {
    for (const output of [
      { permissionDecision: "allow" },
      { permissionDecision: "ask", permissionDecisionReason: "why" },
      { permissionDecision: "allow", updatedInput: { command: "\ud83d" } },
      { permissionDecision: "allow", updatedInput: { "\udc00": 1 } },
    ]) {
      assertBlocked(await runAgainst((call) => sendSigned(call, bodyOf(output)), "codex"), FORM);
    }
    // An endless number is no number for Codex; it leaves the hook as null.
    const large =
      '{"output":{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow","updatedInput":{"a":1e999}}}}';
    expect((await runAgainst((call) => sendSigned(call, large), "codex")).stdout).to.contain('{"a":null}');
  });

  it("blocks when nothing listens, or what listens is no HTTP service.", async () => {
    const closed = `http://127.0.0.1:${await freePort()}`;
    for (const client of CLIENTS) {
      const run = await runCommandLine(hookLine(closed, await connectionFile(folder, closed), { client }), EVENT);
      assertBlocked(run, "gave no answer (ECONNREFUSED)");
    }
    const server = createServer((socket) => socket.end("SSH-2.0-x\r\n"));
    await once(server.listen(0, "127.0.0.1"), "listening");
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    assertBlocked(await runCommandLine(hookLine(url, await connectionFile(folder, url)), EVENT), "gave no answer");
    server.close();
  });

  it("reads an event to its end before it blocks, since Codex runs the tool if it cannot write the event.", async () => {
    const url = "http://127.0.0.1:9";
    const large = JSON.stringify({ ...EVENT, tool_input: { text: "x".repeat(20_000_000) } });
    const missing = folder.path("missing.json");
    for (const client of CLIENTS) {
      const connection = await connectionFile(folder, url);
      assertBlocked(await runCommandLine(hookLine(url, connection, { client }), large), "larger than");
      assertBlocked(await runCommandLine(hookLine(url, missing, { client }), large), "larger than");
      const medium = large.slice(0, 5_000_000);
      assertBlocked(await runCommandLine(hookLine(url, missing, { client }), medium), "cannot be read (ENOENT)");
      const noNode = hookLine(url, connection, { client, node: "/no/such/node" });
      assertBlocked(await runCommandLine(noNode, large), "the hook did not run (exit code 127)");
      const noHook = hookLine(url, connection, { client, hook: folder.path("no-hook.cjs") });
      assertBlocked(await runCommandLine(noHook, large), "the hook did not run (exit code 1)");
    }
  });

  it("blocks if the process is killed, and if its command line is damaged.", async () => {
    const suicide = await folder.file("killed.cjs", "process.kill(process.pid, 'SIGKILL')");
    const silent = await folder.file("throws.cjs", "throw new Error('x')");
    const url = "http://127.0.0.1:9";
    const connection = await connectionFile(folder, url);
    assertBlocked(await runCommandLine(hookLine(url, connection, { hook: suicide }), EVENT), "(exit code 137)");
    assertBlocked(await runCommandLine(hookLine(url, connection, { hook: silent }), EVENT), "(exit code 1)");
    for (const holdSeconds of [-1, 99_999, Number.NaN]) {
      assertBlocked(await runCommandLine(hookLine(url, connection, { holdSeconds }), EVENT), "command line is damaged");
    }
    assertBlocked(
      await runCommandLine(hookLine(url, connection, { endpoint: "nowhere" }), EVENT),
      "command line is damaged",
    );
  });

  describe("keeps the key", () => {
    let connection: string;
    const url = "http://127.0.0.1:9";
    beforeEach(async () => {
      connection = await connectionFile(folder, url);
    });
    const run = (more: Parameters<typeof hookLine>[2] = {}) => runCommandLine(hookLine(url, connection, more), EVENT);

    for (const mode of [0o644, 0o640, 0o604, 0o620, 0o601, 0o666]) {
      it(`and refuses its file with mode ${mode.toString(8)}.`, async () => {
        await chmod(connection, mode);
        assertBlocked(await run(), "other users can read");
      });
    }

    it("and refuses a link, a folder and a pipe in place of its file.", async () => {
      const link = folder.path("link.json");
      await symlink(connection, link);
      assertBlocked(await run({ connection: link }), "cannot be read (ELOOP)");
      await rm(link);
      assertBlocked(await run({ connection: dirname(connection) }), "is not a connection file");
      const pipe = folder.path("pipe");
      await promisify(execFile)("mkfifo", ["-m", "600", pipe]);
      assertBlocked(await run({ connection: pipe }), "is not a connection file");
    });

    it("and refuses the file of another user.", async function () {
      if (process.getuid?.() !== 0) this.skip();
      await promisify(execFile)("chown", ["12345", connection]);
      assertBlocked(await run(), "belongs to another user");
      await rm(connection);
    });

    for (const [what, text] of [
      ["no JSON", "{"],
      ["a list", "[]"],
      ["a key with a line end", JSON.stringify({ url, key: "a\nX-Admin: 1" })],
      ["an empty key", JSON.stringify({ url, key: "" })],
      ["no key", JSON.stringify({ url })],
      ["a key that is no text", JSON.stringify({ url, key: ["a"] })],
    ] as const) {
      it(`and sends nothing with a file that holds ${what}.`, async () => {
        await writeFile(connection, text);
        assertBlocked(await run(), "run `agentctl attach` again");
      });
    }

    it("from every address but the one that it was given for, whatever the settings name.", async () => {
      const stranger = await serve((call) => sendSigned(call, ALLOW));
      const endpoints = [
        `${stranger.url}/v1/hooks/claude-code`,
        `http://127.0.0.1:9@${new URL(stranger.url).host}/v1/hooks/claude-code`,
        `${url}99/v1/hooks/claude-code`,
        `${url}/v1/hooks/claude-code?x=1`,
        `${url}/v1/hooks/codex`,
        `${url}/v1/hooks/claude-code/../../v1/enforce/agents`,
        `HTTP://127.0.0.1:9/v1/hooks/claude-code`,
      ];
      for (const endpoint of endpoints) assertBlocked(await run({ endpoint }), "another control plane", endpoint);
      expect(stranger.calls).to.have.length(0);
      await stranger.close();
    });

    it("from the list of processes while a call waits.", async () => {
      const held = await serve(() => undefined);
      const line = hookLine(held.url, await connectionFile(folder, held.url), { holdSeconds: 5 });
      const child = spawn("sh", ["-c", line], { detached: true, stdio: ["pipe", "ignore", "ignore"] });
      child.stdin.end(JSON.stringify(EVENT));
      while (held.calls.length === 0) await new Promise((resolve) => setTimeout(resolve, 20));
      const { stdout } = await promisify(execFile)("ps", ["axww", "-o", "args"], { maxBuffer: 64 * 1024 * 1024 });
      expect(stdout).to.contain(held.url).and.not.to.contain(KEY);
      process.kill(-(child.pid ?? 0), "SIGKILL");
      await held.close();
    });
  });

  describe("does not listen to the environment of a project", () => {
    it("that preloads code, turns on debugging or names a proxy.", async () => {
      const trace = folder.path("stolen");
      const evil = await folder.file("evil.cjs", `require("node:fs").writeFileSync(${JSON.stringify(trace)}, "x")`);
      const proxy = await serve(({ response }) => response.end("{}"));
      const service = await serve((call) => sendSigned(call, ALLOW));
      const run = await runCommandLine(hookLine(service.url, await connectionFile(folder, service.url)), EVENT, {
        NODE_OPTIONS: `--require ${evil}`,
        NODE_DEBUG: "http,net",
        NODE_USE_ENV_PROXY: "1",
        HTTP_PROXY: proxy.url,
        http_proxy: proxy.url,
        ALL_PROXY: proxy.url,
      });
      expect([run.code, run.stderr]).to.deep.equal([0, ""]);
      expect(existsSync(trace)).to.equal(false);
      expect([proxy.calls.length, service.calls.length]).to.deep.equal([0, 1]);
      await Promise.all([proxy.close(), service.close()]);
    });

    it("that turns the check of certificates off: only authorities of the connection file and of Node.js count.", async () => {
      const [key, cert] = [folder.path("tls.key"), folder.path("tls.crt")];
      await promisify(execFile)("openssl", [
        ..."req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost".split(" "),
        ...["-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", cert],
      ]);
      const ca = await readFile(cert, "utf8");
      let calls = 0;
      const server = createTlsServer({ key: await readFile(key), cert: ca }, (request, response) => {
        calls += 1;
        request.resume();
        sendSigned({ request, response, nonce: String(request.headers["x-hook-nonce"]), event: Buffer.of() }, ALLOW);
      });
      await once(server.listen(0), "listening");
      const { port } = server.address() as AddressInfo;
      const url = `https://localhost:${port}`;
      const env = { NODE_TLS_REJECT_UNAUTHORIZED: "0", NODE_EXTRA_CA_CERTS: cert, SSL_CERT_FILE: cert };
      const refused = await runCommandLine(hookLine(url, await connectionFile(folder, url)), EVENT, env);
      assertBlocked(refused, "SELF_SIGNED");
      const other = `https://127.0.0.1:${port}`;
      const otherName = await runCommandLine(hookLine(other, await connectionFile(folder, other, { ca })), EVENT, env);
      assertBlocked(otherName, "ERR_TLS_CERT_ALTNAME_INVALID");
      expect(calls).to.equal(0);
      const trusting = await runCommandLine(hookLine(url, await connectionFile(folder, url, { ca })), EVENT, env);
      expect([trusting.code, calls], trusting.stderr).to.deep.equal([0, 1]);
      server.close();
    });

    it("that moves the home folder: `~/` is the home that the system has for the user.", async () => {
      const service = await serve((call) => sendSigned(call, ALLOW));
      const own = join(userInfo().homedir, ".config/agent-control-plane/connections", `test-${randomUUID()}.json`);
      const inHome = `~/${own.slice(userInfo().homedir.length + 1)}`;
      const moved = folder.path("moved");
      await mkdir(dirname(join(moved, inHome.slice(2))), { recursive: true });
      await writeFile(join(moved, inHome.slice(2)), JSON.stringify({ url: service.url, key: KEY }), { mode: 0o600 });
      const line = hookLine(service.url, inHome);
      assertBlocked(await runCommandLine(line, EVENT, { HOME: moved }), `\`${own}\` cannot be read (ENOENT)`);
      const made = await mkdir(dirname(own), { recursive: true, mode: 0o700 });
      try {
        await writeFile(own, JSON.stringify({ url: service.url, key: KEY }), { mode: 0o600 });
        expect((await runCommandLine(line, EVENT, { HOME: moved })).code).to.equal(0);
      } finally {
        await rm(made ?? own, { recursive: true, force: true });
        await service.close();
      }
    });
  });

  it("runs from folders whose names a shell would read otherwise.", async () => {
    const service = await serve((call) => sendSigned(call, ALLOW_EDITED));
    for (const name of [
      "a b",
      "it's",
      'say "x"',
      "$(touch pwned)",
      "`id`",
      "a;b&c|d",
      "line\nend",
      "ü*?[a]",
      "-n",
      "\\",
    ]) {
      const odd = folder.path(name);
      await mkdir(odd);
      const hook = join(odd, "hook.cjs");
      await writeFile(hook, await readFile(HOOK));
      const connection = await connectionFile(folder, service.url, {}, join(name, "connection.json"));
      const run = await runCommandLine(hookLine(service.url, connection, { hook }), EVENT);
      expect([run.code, run.stderr], name).to.deep.equal([0, ""]);
    }
    expect(existsSync("pwned")).to.equal(false);
    await service.close();
  });
});

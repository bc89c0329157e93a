/*
 * Cerbos, a policy decision point of another project, beside which the service is measured. Its package is installed into a
 * folder of the run and belongs to no manifest.
 */
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import { Client, credentials } from "@grpc/grpc-js";
import protobuf from "protobufjs";
import { freePort } from "../support/free-port.ts";
import { framed, GRPC_HEADERS, type Posted, type Repeated } from "./tools.ts";

/** A running Cerbos. */
export interface Cerbos {
  readonly version: string;
  /** Returns the check that h2load repeats. */
  grpcCheck(connections: number, inFlight: number): Repeated;
  /** Returns the check that h2load repeats over HTTP/1.1. */
  restCheck(connections: number): Repeated;
  /** Returns the checks that wrk posts. */
  restChecks(callers: number): Posted;
}

/** Milliseconds in which it has to listen. */
const MAX_START_MS = 20_000;

/** Ten rules about every action of the load, as the ten mandates of the service: the first allows, and the others restrict it. */
const POLICY = `apiVersion: api.cerbos.dev/v1
resourcePolicy:
  version: default
  resource: payment
  rules:
    - {actions: ["*"], roles: [agent], effect: EFFECT_ALLOW}
    - {actions: ["payment:*"], roles: [agent], effect: EFFECT_DENY, condition: {match: {expr: "R.attr.amount > 10000"}}}
    - {actions: ["payment:*"], roles: [agent], effect: EFFECT_DENY,
       condition: {match: {expr: "R.attr.amount >= 5000 && R.attr.amount <= 10000"}}}
    - {actions: ["payment:*"], roles: [agent], effect: EFFECT_DENY,
       condition: {match: {expr: '!(R.attr.currency in ["USD", "EUR"])'}}}
    - {actions: ["*"], roles: [agent], effect: EFFECT_DENY, condition: {match: {expr: 'R.attr.environment == "sandbox"'}}}
    - {actions: ["admin:*", "payment:reverse"], roles: [agent], effect: EFFECT_DENY}
    - {actions: ["*"], roles: [agent], effect: EFFECT_DENY,
       condition: {match: {expr: 'R.attr.content.matches("(?i)drop\\\\s+table|ignore (all )?previous instructions")'}}}
    - {actions: ["*"], roles: [agent], effect: EFFECT_DENY, condition: {match: {expr: "P.attr.trust < 5.0"}}}
    - {actions: ["payment:*"], roles: [agent], effect: EFFECT_DENY,
       condition: {match: {expr: 'R.attr.urgent && R.attr.amount > 9000'}}}
    - {actions: ["payment:*"], roles: [agent], effect: EFFECT_DENY,
       condition: {match: {expr: 'R.attr.reference.startsWith("test ")'}}}
`;

/** The part of its interface that the load needs. */
const PROTO = `syntax = "proto3";
message Value { oneof kind { double number_value = 2; string string_value = 3; bool bool_value = 4; } }
message Principal { string id = 1; repeated string roles = 3; map<string, Value> attr = 4; }
message Resource { string kind = 1; string id = 3; map<string, Value> attr = 4; }
message Entry { repeated string actions = 1; Resource resource = 2; }
message Check { string request_id = 1; Principal principal = 3; repeated Entry resources = 4; }
message Result { map<string, int32> actions = 2; }
message Checked { repeated Result results = 2; }`;
const { root } = protobuf.parse(PROTO);
const METHOD = "/cerbos.svc.v1.CerbosService/CheckResources";
const EFFECT_ALLOW = 1;

const ACTION = "payment:send";
const RESOURCE = {
  amount: 120,
  currency: "EUR",
  environment: "production",
  content: "Pay invoice 4000 to the supplier named on it, as agreed in the order of last week",
  recipient: "Supplier 1",
  iban: "DE02120300000000202051",
  reference: "invoice 4000",
  urgent: false,
};
const CHECK = {
  requestId: "bench",
  principal: { id: "agent-1", roles: ["agent"], attr: { trust: 50 } },
  resources: [{ actions: [ACTION], resource: { kind: "payment", id: "4000", attr: RESOURCE } }],
};

type Scalar = string | number | boolean;

function valuesFrom(attributes: Readonly<Record<string, Scalar>>) {
  const valueFrom = (value: Scalar) => {
    if (typeof value === "number") return { numberValue: value };
    return typeof value === "string" ? { stringValue: value } : { boolValue: value };
  };
  return Object.fromEntries(Object.entries(attributes).map(([name, value]) => [name, valueFrom(value)]));
}

function checkBytes(): Buffer {
  const type = root.lookupType("Check");
  const { principal } = CHECK;
  const message = {
    requestId: CHECK.requestId,
    principal: { ...principal, attr: valuesFrom(principal.attr) },
    resources: CHECK.resources.map(({ actions, resource }) => {
      return { actions, resource: { ...resource, attr: valuesFrom(resource.attr) } };
    }),
  };
  return Buffer.from(type.encode(type.fromObject(message)).finish());
}

/** Rejects unless the check is answered with ALLOW over gRPC: h2load could not tell. */
async function assertAllowed(address: string, check: Buffer): Promise<void> {
  const client = new Client(address, credentials.createInsecure());
  const asIs = (bytes: Buffer): Buffer => bytes;
  try {
    const reply = await new Promise<Buffer>((resolve, reject) => {
      client.makeUnaryRequest(METHOD, asIs, asIs, check, (error, bytes = Buffer.alloc(0)) =>
        error === null ? resolve(bytes) : reject(error),
      );
    });
    const type = root.lookupType("Checked");
    const checked = type.toObject(type.decode(reply)) as { results?: { actions?: Record<string, number> }[] };
    if (checked.results?.[0]?.actions?.[ACTION] === EFFECT_ALLOW) return;
    throw new Error(`cerbos does not allow the action: ${JSON.stringify(checked)}`);
  } finally {
    client.close();
  }
}

/** Installs the newest Cerbos of the package registry into a folder of the run. */
async function install(folder: string): Promise<{ readonly program: string; readonly version: string }> {
  const run = promisify(execFile);
  const options = ["--prefix", folder, "--no-save", "--no-audit", "--no-fund", "--loglevel", "error"];
  await run("npm", ["install", ...options, "cerbos"], { cwd: folder });
  const program = join(folder, "node_modules", ".bin", "cerbos");
  const { stdout } = await run(program, ["--version"]);
  return { program, version: stdout.split("\n")[0]?.trim() ?? "" };
}

async function writeFiles(folder: string, http: number, grpc: number): Promise<string> {
  const policies = join(folder, "policies");
  await mkdir(policies);
  await writeFile(join(policies, "payment.yaml"), POLICY);
  const config = {
    server: { httpListenAddr: `127.0.0.1:${http}`, grpcListenAddr: `127.0.0.1:${grpc}` },
    telemetry: { disabled: true },
    storage: { driver: "disk", disk: { directory: policies, watchForChanges: false } },
    audit: {
      enabled: true,
      accessLogsEnabled: false,
      decisionLogsEnabled: true,
      backend: "file",
      file: { path: join(folder, "decisions.log") },
    },
  };
  const path = join(folder, "config.json");
  await writeFile(path, JSON.stringify(config));
  return path;
}

async function listening(child: ChildProcess, url: string): Promise<void> {
  for (const end = Date.now() + MAX_START_MS; Date.now() < end; await delay(50)) {
    if (child.exitCode !== null) throw new Error(`cerbos ended with ${child.exitCode}`);
    const response = await fetch(`${url}/_cerbos/health`).catch(() => undefined);
    if (response?.ok) return;
  }
  throw new Error("cerbos does not listen");
}

/** Starts Cerbos with a log of its decisions in a file. It is stopped and removed by `cleanup`. */
export async function startCerbos(cleanup: AsyncDisposableStack): Promise<Cerbos> {
  const folder = await mkdtemp(join(tmpdir(), "acp-cerbos-"));
  cleanup.defer(() => rm(folder, { recursive: true, force: true }));
  const { program, version } = await install(folder);
  const [http, grpc] = [await freePort(), await freePort()];
  const config = await writeFiles(folder, http, grpc);
  // The program that npm installs starts the binary and hands on no signal: both end as a group.
  const child = spawn(program, ["server", "--config", config], { stdio: "ignore", detached: true });
  cleanup.defer(async () => {
    if (child.pid === undefined || child.exitCode !== null) return;
    const ended = once(child, "exit");
    process.kill(-child.pid, "SIGKILL");
    await ended;
  });
  const url = `http://127.0.0.1:${http}`;
  await listening(child, url);
  const path = "/api/check/resources";
  const json = JSON.stringify(CHECK);
  const headers = ["content-type: application/json"];
  const response = await fetch(url + path, {
    method: "POST",
    body: json,
    headers: { "content-type": "application/json" },
  });
  const reply = await response.text();
  if (!reply.includes('"EFFECT_ALLOW"')) throw new Error(`cerbos does not allow the action: ${reply}`);
  const check = checkBytes();
  await assertAllowed(`127.0.0.1:${grpc}`, check);
  const body = framed(check);
  const method = `http://127.0.0.1:${grpc}${METHOD}`;
  return {
    version,
    grpcCheck: (connections, inFlight) => ({ url: method, headers: GRPC_HEADERS, body, connections, inFlight }),
    restCheck: (connections) => {
      return { url: url + path, headers, body: Buffer.from(json), connections, inFlight: 1, isHttp1: true };
    },
    restChecks: (callers) => ({ url: url + path, bodies: [json], apiKey: "none", callers }),
  };
}

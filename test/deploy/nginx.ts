/* Debian's nginx with the configuration that is delivered, in front of replicas on this machine. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { TEST_TLS } from "../server/tls-pair.ts";
import { freePort } from "../support/free-port.ts";
import "../support/scratch.ts";

/** Debian's package with the program. */
export const NGINX_PACKAGES = ["nginx"];
const PROGRAM = "/usr/sbin/nginx";
const CONFIGURATION = join(import.meta.dirname, "../../src/deploy/nginx/agent-control-plane.conf");
/** Milliseconds for nginx to listen. */
const START_LIMIT_MS = 20_000;
const POLL_MS = 20;

/** A replica, by the addresses that a started service gives. */
interface Replica {
  readonly http: string;
  readonly grpc: string;
}

/** nginx in front of two replicas. */
export interface Nginx {
  /** `https://localhost:port`. */
  readonly url: string;
  /** `http://localhost:port`, the port without TLS. */
  readonly plainUrl: string;
  /** File with the certificate that clients have to trust. */
  readonly certificate: string;
  /** Messages of nginx so far. */
  log(): string;
  close(): Promise<void>;
}

/** Replaces a line of the configuration, which MUST hold it. */
function replaced(text: string, from: string, to: string): string {
  if (!text.includes(from)) throw new Error(`the configuration of nginx lacks \`${from}\``);
  return text.replaceAll(from, to);
}

/** Gives the delivered configuration the addresses of a test: those of the replicas, of its own ports and of its files. */
function configurationOf(
  replicas: readonly [Replica, Replica],
  ports: { tls: number; plain: number },
  dir: string,
): string {
  const changes: [from: string, to: string][] = [
    ["listen 443 ", `listen 127.0.0.1:${ports.tls} `],
    ["listen 80;", `listen 127.0.0.1:${ports.plain};`],
    ["server_name acp.example.com;", "server_name localhost;"],
    ["/etc/ssl/acp/fullchain.pem", join(dir, "cert.pem")],
    ["/etc/ssl/acp/privkey.pem", join(dir, "key.pem")],
  ];
  replicas.forEach(({ http, grpc }, index) => {
    changes.push([`127.0.0.1:708${index + 1}`, new URL(http).host], [`127.0.0.1:709${index + 1}`, grpc]);
  });
  const own = changes.reduce((text, [from, to]) => replaced(text, from, to), readFileSync(CONFIGURATION, "utf8"));
  const folders = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(
    (name) => `${name}_temp_path ${dir}/${name};`,
  );
  return [
    "daemon off;",
    process.geteuid?.() === 0 ? "user root;" : "",
    "worker_processes 2;",
    `pid ${dir}/pid;`,
    "error_log stderr notice;",
    "events { worker_connections 2048; }",
    `http { access_log off; ${folders.join(" ")}\n${own}\n}`,
  ].join("\n");
}

async function isListening(port: number): Promise<boolean> {
  const socket = connect(port, "127.0.0.1");
  const isReached = await new Promise<boolean>((resolve) => {
    socket.once("connect", () => resolve(true)).once("error", () => resolve(false));
  });
  socket.destroy();
  return isReached;
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, "exit");
  child.kill("SIGTERM");
  await ended;
}

/** Starts nginx in front of two replicas and waits until it listens. Rejects with its messages when it does not. */
export async function startNginx(replicas: readonly [Replica, Replica]): Promise<Nginx> {
  const dir = await mkdtemp(join(tmpdir(), "acp-nginx-"));
  const ports = { tls: await freePort(), plain: await freePort() };
  const certificate = join(dir, "cert.pem");
  await writeFile(certificate, TEST_TLS.cert);
  await writeFile(join(dir, "key.pem"), TEST_TLS.key);
  const file = join(dir, "nginx.conf");
  await writeFile(file, configurationOf(replicas, ports, dir));
  const child = spawn(PROGRAM, ["-c", file, "-p", dir, "-e", "stderr"], { stdio: ["ignore", "ignore", "pipe"] });
  process.once("exit", () => child.kill("SIGTERM"));
  let messages = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    messages += text;
  });
  for (const endsAt = performance.now() + START_LIMIT_MS; !(await isListening(ports.tls)); await delay(POLL_MS)) {
    if (child.exitCode !== null || performance.now() > endsAt) throw new Error(`nginx does not listen: ${messages}`);
  }
  return {
    url: `https://localhost:${ports.tls}`,
    plainUrl: `http://localhost:${ports.plain}`,
    certificate,
    log: () => messages,
    async close() {
      await end(child);
      await rm(dir, { recursive: true, force: true });
    },
  };
}

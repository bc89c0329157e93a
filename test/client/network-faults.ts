import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { createServer as createHttpServer } from "node:http";
import { createServer as createHttp2Server } from "node:http2";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createServer as createTlsServer } from "node:tls";
import { promisify } from "node:util";
import { freePort } from "../support/free-port.ts";

/** A way that a network fails, as `testdata/client/README.md` describes it. */
export type Fault =
  | "refused"
  | "unknown_host"
  | "closes"
  | "loses_answer"
  | "silent"
  | "unavailable"
  | "not_found"
  | "no_tls"
  | "untrusted_tls";

/** The ports of a service, `host:port`. */
export interface Ports {
  readonly http: string;
  readonly grpc: string;
}

/** The way from a client to a service. */
export interface Network {
  /** For `baseUrl`. */
  readonly baseUrl: string;
  /** For `grpcUrl`. */
  readonly grpcUrl: string;
  /** Breaks every connection; new ones pass. */
  breakConnections(): void;
  /** Breaks every connection; new ones are refused. */
  takeDown(): Promise<void>;
  close(): Promise<void>;
}

/** What becomes of one connection: it passes unless there is a fault. */
type Treat = () => Fault | undefined;

/** A fault of a network, and how long it lasts. */
export interface NetworkFault {
  readonly fault: Fault;
  /** Number of connections that meet it. Default: all. */
  readonly times?: number;
  /** Refuses every connection after these. */
  readonly then?: "refused";
}

/** Opens the way to a service, with a fault on each of its ports. */
export async function openNetwork(ports: Ports, given?: NetworkFault): Promise<Network> {
  const { fault, times = Number.POSITIVE_INFINITY, then } = given ?? {};
  if (fault === "no_tls") return fixedNetwork(`https://${ports.http}`, `https://${ports.grpc}`);
  if (fault === "unknown_host")
    return fixedNetwork("http://control-plane.invalid:7080", "http://control-plane.invalid:7090");
  if (fault === "refused") {
    const [http, grpc] = [await freePort(), await freePort()];
    return fixedNetwork(`http://127.0.0.1:${http}`, `http://127.0.0.1:${grpc}`);
  }
  let met = 0;
  const treat: Treat = () => {
    if (fault === undefined || met >= times) return undefined;
    met += 1;
    if (met === times && then === "refused") for (const port of [http, grpc]) port.refuse();
    return fault;
  };
  const scheme = fault === "untrusted_tls" ? "https" : "http";
  const http = await openPort(ports.http, fault, treat, false);
  const grpc = await openPort(ports.grpc, fault, treat, true);
  return {
    baseUrl: `${scheme}://${http.address}`,
    grpcUrl: `${scheme}://${grpc.address}`,
    breakConnections() {
      for (const port of [http, grpc]) port.cut();
    },
    async takeDown() {
      await Promise.all([http.close(), grpc.close()]);
    },
    async close() {
      await Promise.all([http.close(), grpc.close()]);
    },
  };
}

function fixedNetwork(baseUrl: string, grpcUrl: string): Network {
  const nothing = () => Promise.resolve();
  return { baseUrl, grpcUrl, breakConnections: () => undefined, takeDown: nothing, close: nothing };
}

interface Port {
  /** `host:port`. */
  readonly address: string;
  cut(): void;
  /** Refuses new connections. */
  refuse(): void;
  close(): Promise<void>;
}

async function openPort(target: string, fault: Fault | undefined, treat: Treat, isHttp2: boolean): Promise<Port> {
  if (fault === "unavailable") return await listen(answering(503, isHttp2));
  if (fault === "not_found") return await listen(answering(404, isHttp2));
  if (fault === "untrusted_tls") return await listen(createTlsServer(await selfSigned(), (near) => pass(near, target)));
  return await listen(
    createServer((near) => {
      const met = treat();
      if (met === "closes") near.destroy();
      else if (met === "silent") near.on("error", () => undefined).resume();
      else if (met === "loses_answer") loseAnswer(near, target, isHttp2);
      else pass(near, target);
    }),
  );
}

async function listen(server: Server): Promise<Port> {
  const sockets = new Set<Socket>();
  for (const event of ["connection", "secureConnection"])
    server.on(event, (socket: Socket) => {
      sockets.add(socket);
      socket.on("close", () => sockets.delete(socket));
    });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const cut = (): void => {
    for (const socket of sockets) socket.destroy();
  };
  return {
    address: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    cut,
    refuse: () => void server.close(),
    async close() {
      const closed = server.listening ? new Promise((resolve) => server.close(resolve)) : undefined;
      cut();
      await closed;
    },
  };
}

function answering(status: number, isHttp2: boolean): Server {
  if (isHttp2) {
    const server = createHttp2Server();
    server.on("stream", (stream) => {
      stream.on("error", () => undefined).resume();
      stream.respond({ ":status": status, "content-type": "text/plain" });
      stream.end("not the service");
    });
    return server as unknown as Server;
  }
  return createHttpServer((request, response) => {
    request.resume();
    response.writeHead(status, { "content-type": "text/plain" }).end("not the service");
  });
}

function far(near: Socket, target: string): Socket {
  const [host = "", port = ""] = target.split(":");
  const socket = connect(Number(port), host);
  for (const [one, other] of [
    [near, socket],
    [socket, near],
  ] as const) {
    one.on("error", () => other.destroy());
    one.on("close", () => other.destroy());
  }
  return socket;
}

function pass(near: Socket, target: string): void {
  const onward = far(near, target);
  near.pipe(onward);
  onward.pipe(near);
}

function loseAnswer(near: Socket, target: string, isHttp2: boolean): void {
  const onward = far(near, target);
  near.pipe(onward);
  const frames = new AnswerFrames();
  onward.on("data", (bytes: Buffer) => {
    if (!isHttp2 || frames.hasAnswer(bytes)) near.destroy();
    else near.write(bytes);
  });
}

const FRAME_HEADER = 9;
const [DATA, HEADERS] = [0, 1];
const END_STREAM = 1;

/** Looks at the HTTP/2 frames of a server for the one that an answer begins with. */
class AnswerFrames {
  #rest = Buffer.alloc(0);

  hasAnswer(bytes: Buffer): boolean {
    this.#rest = Buffer.concat([this.#rest, bytes]);
    while (this.#rest.length >= FRAME_HEADER) {
      const [type, flags] = [this.#rest[3], this.#rest[4] ?? 0];
      if (type === DATA || (type === HEADERS && (flags & END_STREAM) !== 0)) return true;
      const length = FRAME_HEADER + this.#rest.readUIntBE(0, 3);
      if (this.#rest.length < length) return false;
      this.#rest = this.#rest.subarray(length);
    }
    return false;
  }
}

/** Makes a certificate that nobody signed. */
async function selfSigned(): Promise<{ readonly key: Buffer; readonly cert: Buffer }> {
  const folder = await mkdtemp(join(tmpdir(), "acp-cert-"));
  try {
    const [key, cert] = [join(folder, "key.pem"), join(folder, "cert.pem")];
    await promisify(execFile)("openssl", [
      "req",
      "-x509",
      "-newkey",
      "ec",
      "-pkeyopt",
      "ec_paramgen_curve:P-256",
      "-nodes",
      "-days",
      "2",
      "-subj",
      "/CN=localhost",
      "-addext",
      "subjectAltName=DNS:localhost,IP:127.0.0.1",
      "-keyout",
      key,
      "-out",
      cert,
    ]);
    return { key: await readFile(key), cert: await readFile(cert) };
  } finally {
    await rm(folder, { recursive: true });
  }
}

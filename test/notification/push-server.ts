import { createDecipheriv, createECDH, createPublicKey, hkdfSync, randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import { jwtVerify } from "jose";
import { createWatched, type Watched } from "./watched.ts";

/** A message that a push service took: it was signed with the key of the subscription, and decrypted as a browser does. */
export interface ReceivedPush {
  /** Endpoint of the browser. */
  readonly endpoint: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
  /** Claims of the signature (RFC 8292). */
  readonly claims: Readonly<Record<string, unknown>>;
  readonly message: Readonly<Record<string, unknown>>;
}

/** A browser's subscription. */
export interface Subscription {
  readonly endpoint: string;
  readonly p256dh: string;
  readonly auth: string;
}

/** Behaviour of the service toward a browser that cannot be reached: no answer, a refusal without an end, or a status. */
export type PushDeath = "silent" | "endless" | number;

/** A push service with one browser behind it. */
export interface PushServer {
  readonly origin: string;
  readonly host: string;
  readonly pushes: Watched<ReceivedPush>;
  /** Faults of requests that it refused. */
  readonly faults: string[];
  /** Status of its answers. Default 201. */
  answer: number;
  /** Requests to endpoints that take nothing: so far, and those that wait for an answer. */
  readonly lost: number;
  readonly waiting: number;
  /** Takes nothing more for an endpoint. */
  kill(endpoint: string, death: PushDeath): void;
  /** Serves every endpoint again, and breaks off what waits. */
  heal(): void;
  /** Subscribes the browser for a public key. */
  subscribe(publicKey: string): Subscription;
  close(): Promise<void>;
}

const RECORD_HEAD = 21;

/** Keys of one subscription, as the browser holds them. */
interface Browser {
  readonly key: ReturnType<typeof createECDH>;
  readonly auth: Buffer;
  readonly publicKey: string;
}

const derived = (secret: Buffer, salt: Buffer, info: Buffer, bytes: number): Buffer =>
  Buffer.from(hkdfSync("sha256", secret, salt, info, bytes));

/** Decrypts a message (RFC 8291 §3.4, RFC 8188 §2). */
function decrypted({ key, auth }: Browser, body: Buffer): string {
  const salt = body.subarray(0, 16);
  const length = body.readUInt8(20);
  const sender = body.subarray(RECORD_HEAD, RECORD_HEAD + length);
  const record = body.subarray(RECORD_HEAD + length);
  const info = Buffer.concat([Buffer.from("WebPush: info\0"), key.getPublicKey(), sender]);
  const secret = derived(key.computeSecret(sender), auth, info, 32);
  const content = derived(secret, salt, Buffer.from("Content-Encoding: aes128gcm\0"), 16);
  const nonce = derived(secret, salt, Buffer.from("Content-Encoding: nonce\0"), 12);
  const decipher = createDecipheriv("aes-128-gcm", content, nonce);
  decipher.setAuthTag(record.subarray(-16));
  const padded = Buffer.concat([decipher.update(record.subarray(0, -16)), decipher.final()]);
  const end = padded.lastIndexOf(2);
  return padded.subarray(0, end).toString();
}

/** Verifies the signature of a request by the key that the browser subscribed for. */
async function claimsIn(header: string, publicKey: string, origin: string): Promise<Readonly<Record<string, unknown>>> {
  const [, token = "", given = ""] = /^vapid t=([^,\s]+), ?k=([^,\s]+)$/.exec(header) ?? [];
  if (given !== publicKey) throw new Error("another key than that of the subscription");
  const point = Buffer.from(publicKey, "base64url");
  const jwk = {
    kty: "EC",
    crv: "P-256",
    x: point.subarray(1, 33).toString("base64url"),
    y: point.subarray(33).toString("base64url"),
  };
  const key = createPublicKey({ key: jwk, format: "jwk" });
  const { payload } = await jwtVerify(token, key, { audience: origin, algorithms: ["ES256"] });
  if ((payload.exp ?? 0) > Date.now() / 1000 + 86_400) throw new Error("the signature is good for more than a day");
  return payload;
}

/** Starts a push service. It takes only requests that are signed and encrypted as RFC 8292 and RFC 8291 ask. */
export async function startPushServer(): Promise<PushServer> {
  const browsers = new Map<string, Browser>();
  const pushes = createWatched<ReceivedPush>();
  const faults: string[] = [];
  const deaths = new Map<string, PushDeath>();
  const waiting = new Set<ServerResponse>();
  let lost = 0;
  /** Answers a request to a browser that cannot be reached. */
  const fail = (response: ServerResponse, death: PushDeath): void => {
    if (typeof death === "number") return void response.writeHead(death).end();
    waiting.add(response);
    response.once("close", () => waiting.delete(response));
    if (death === "endless") response.writeHead(503).write("x");
  };
  const take = async (request: IncomingMessage): Promise<number> => {
    const body = await buffer(request);
    const browser = browsers.get(request.url ?? "");
    if (browser === undefined) return 404;
    if (server.answer >= 300) return server.answer;
    const { headers } = request;
    const claims = await claimsIn(headers.authorization ?? "", browser.publicKey, server.origin);
    if (headers["content-encoding"] !== "aes128gcm" || headers.ttl === undefined)
      throw new Error("a header is missing");
    if (!/^[\w-]{1,32}$/.test(String(headers.topic))) throw new Error("the topic is none");
    pushes.add({
      endpoint: server.origin + request.url,
      headers,
      body,
      claims,
      message: JSON.parse(decrypted(browser, body)),
    });
    return server.answer;
  };
  const listener = createServer((request, response) => {
    const death = deaths.get(server.origin + request.url);
    if (death !== undefined) {
      lost += 1;
      return fail(response, death);
    }
    take(request).then(
      (status) => response.writeHead(status).end(),
      (error: Error) => {
        faults.push(error.message);
        response.writeHead(400).end();
      },
    );
  });
  listener.listen(0, "127.0.0.1");
  await once(listener, "listening");
  const { port } = listener.address() as AddressInfo;
  const server: PushServer = {
    origin: `http://127.0.0.1:${port}`,
    host: "127.0.0.1",
    pushes,
    faults,
    answer: 201,
    get lost() {
      return lost;
    },
    get waiting() {
      return waiting.size;
    },
    kill: (endpoint, death) => void deaths.set(endpoint, death),
    heal() {
      deaths.clear();
      for (const response of waiting) response.destroy();
    },
    subscribe(publicKey) {
      const key = createECDH("prime256v1");
      key.generateKeys();
      const auth = randomBytes(16);
      const path = `/push/${randomBytes(12).toString("base64url")}`;
      browsers.set(path, { key, auth, publicKey });
      const p256dh = key.getPublicKey().toString("base64url");
      return { endpoint: server.origin + path, p256dh, auth: auth.toString("base64url") };
    },
    async close() {
      listener.closeAllConnections();
      await new Promise((resolve) => listener.close(resolve));
    },
  };
  return server;
}

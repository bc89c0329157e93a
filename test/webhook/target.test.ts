import { type AddressInfo, createServer, type Server } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { createServer as createTlsServer } from "node:tls";
import { expect } from "chai";
import { ControlPlaneError, ErrorReason } from "../../src/errors.ts";
import { createAddressTest } from "../../src/webhook/address-ranges.ts";
import { createTargets, type Lookup, type Targets } from "../../src/webhook/target.ts";
import { type Receiver, startReceiver } from "./receiver.ts";
import { ALLOW } from "./replica.ts";

const REFUSED_ADDRESSES = [
  "0.0.0.0",
  "10.1.2.3",
  "100.64.0.1",
  "100.127.255.255",
  "127.0.0.1",
  "169.254.169.254",
  "172.31.255.255",
  "192.0.0.8",
  "192.88.99.1",
  "192.168.1.1",
  "198.19.0.1",
  "224.0.0.1",
  "240.0.0.1",
  "255.255.255.255",
  "::",
  "::1",
  "::7f00:1",
  "::ffff:127.0.0.1",
  "::ffff:8.8.8.8",
  "64:ff9b::7f00:1",
  "64:ff9b:1::1",
  "2001::1",
  "2002:7f00:1::",
  "fc00::1",
  "fdff::1",
  "fe80::1",
  "fe80::1%lo",
  "fec0::1",
  "ff02::1",
  "localhost",
  "",
];
const PUBLIC_ADDRESSES = ["8.8.8.8", "100.63.255.255", "100.128.0.1", "172.32.0.1", "2606:4700::1111", "2a00::1"];

const REFUSED_URLS = [
  { url: "ftp://example.com/", want: "must be an `http` or `https` URL" },
  { url: "/hook", want: "must be an `http` or `https` URL" },
  { url: "https://user:word@example.com/", want: "must not carry credentials" },
  { url: "https://user@example.com/", want: "must not carry credentials" },
  { url: "https://no-such-host.invalid/", want: "names a host that cannot be resolved" },
];
const PRIVATE_URLS = [
  "http://127.0.0.1/",
  "http://2130706433/",
  "http://0x7f.1/",
  "http://[::1]/",
  "http://[::ffff:127.0.0.1]/",
  "http://169.254.169.254/latest/meta-data",
  "http://inside.example.com/",
  "http://mixed.example.com/",
];

const RAW_REPLIES = [
  { name: "no answer", reply: "" },
  { name: "an answer that is no HTTP", reply: "hello\r\n\r\n" },
  {
    name: "a change of protocols",
    reply: "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n",
  },
];

const NAMES: Readonly<Record<string, readonly string[]>> = {
  "outside.example.com": ["8.8.8.8"],
  "inside.example.com": ["10.0.0.1"],
  "mixed.example.com": ["8.8.8.8", "10.0.0.1"],
};

const lookup: Lookup = async (hostname) => {
  const addresses = NAMES[hostname];
  if (addresses === undefined) throw new Error("not found");
  return addresses.map((address) => ({ address, family: 4 }));
};

async function failureOf(call: Promise<unknown>): Promise<ControlPlaneError> {
  const error = await call.then(
    () => undefined,
    (each: unknown) => each,
  );
  expect(error).to.be.instanceOf(ControlPlaneError);
  return error as ControlPlaneError;
}

async function listenLocally(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return (server.address() as AddressInfo).port;
}

const post = (targets: Targets, url: string, timeoutMs = 5_000) =>
  targets.post({ url, headers: { "Content-Type": "application/json" }, body: "{}", timeoutMs });

describe("createAddressTest", () => {
  for (const address of REFUSED_ADDRESSES) {
    it(`refuses \`${address}\`.`, () => {
      expect(createAddressTest([])(address)).to.equal(false);
    });
  }

  for (const address of PUBLIC_ADDRESSES) {
    it(`admits ${address}.`, () => {
      expect(createAddressTest([])(address)).to.equal(true);
    });
  }

  it("admits a private address inside an allowed block, and no other.", () => {
    const isAllowed = createAddressTest(["10.0.0.0/8", "fd00::/8"]);
    const addresses = ["10.255.0.1", "fd00::1", "127.0.0.1", "fc00::1", "::ffff:10.0.0.1"];
    expect(addresses.map(isAllowed)).to.deep.equal([true, true, false, false, false]);
  });
});

describe("createTargets", () => {
  let receiver: Receiver;

  before(async () => {
    receiver = await startReceiver();
  });

  beforeEach(() => {
    receiver.received.length = 0;
    receiver.answer = () => ({});
  });

  after(() => receiver.close());

  describe("check", () => {
    for (const { url, want } of REFUSED_URLS) {
      it(`refuses ${url}: it ${want}.`, async () => {
        const error = await failureOf(createTargets({ allow: [], lookup }).check(url));
        expect(error.reason).to.equal(ErrorReason.INVALID_FIELD);
        expect(error.message).to.equal(`\`url\` ${want}`);
        expect(error.message).not.to.include("word");
      });
    }

    for (const url of PRIVATE_URLS) {
      it(`refuses ${url} as a target that is not allowed.`, async () => {
        const error = await failureOf(createTargets({ allow: [], lookup }).check(url));
        expect(error.reason).to.equal(ErrorReason.TARGET_NOT_ALLOWED);
        expect(error.message).not.to.include("10.0.0.1");
      });
    }

    it("takes a public host.", async () => {
      await createTargets({ allow: [], lookup }).check("https://outside.example.com:8443/hook?a=b");
    });
  });

  describe("post", () => {
    it("connects to the checked address under the name of the URL.", async () => {
      const targets = createTargets({ allow: ALLOW, lookup: async () => [{ address: "127.0.0.1", family: 4 }] });
      const answer = await post(targets, `http://receiver.example.com:${receiver.port}/hook`);
      expect(answer).to.deep.equal({ kind: "answer", status: 204, retryAfter: undefined });
      expect(receiver.received[0]?.headers.host).to.equal(`receiver.example.com:${receiver.port}`);
    });

    it("resolves once, so that a name which changes its address after the check leads nowhere else.", async () => {
      const answers = ["127.0.0.1", "127.0.0.2"];
      let asked = 0;
      const rebinding: Lookup = async () => [{ address: answers[asked++] ?? "", family: 4 }];
      const targets = createTargets({ allow: ["127.0.0.1/32"], lookup: rebinding });
      expect(await post(targets, `http://rebind.example.com:${receiver.port}/`)).to.include({ status: 204 });
      expect(asked).to.equal(1);
      const second = await post(targets, `http://rebind.example.com:${receiver.port}/`);
      expect(second).to.deep.equal({
        kind: "fault",
        error: "`rebind.example.com` leads to an address that is not allowed for webhooks",
      });
      expect(receiver.received).to.have.length(1);
    });

    it("does not follow a redirect.", async () => {
      receiver.answer = () => ({ status: 307, headers: { location: "/elsewhere" } });
      expect(await post(createTargets({ allow: ALLOW }), receiver.url)).to.include({ status: 307 });
      expect(receiver.received.map(({ path }) => path)).to.deep.equal(["/hook"]);
    });

    it("takes the status of an answer whose body is longer than it reads.", async () => {
      receiver.answer = () => ({ status: 200, body: "x".repeat(5_000_000) });
      expect(await post(createTargets({ allow: ALLOW }), receiver.url)).to.include({ status: 200 });
    });

    it("gives up when there is no answer in time.", async () => {
      receiver.answer = () => delay(1_000, {});
      expect(await post(createTargets({ allow: ALLOW }), receiver.url, 50)).to.deep.equal({
        kind: "fault",
        error: "no answer within 50 ms",
      });
    });

    it("gives up when a name is not resolved in time.", async () => {
      const targets = createTargets({ allow: [], lookup: () => new Promise(() => undefined) });
      expect(await post(targets, "http://slow.example.com/", 50)).to.include({ error: "no answer within 50 ms" });
    });

    it("ends a request that its caller gives up.", async () => {
      receiver.answer = () => delay(1_000, {});
      const ending = new AbortController();
      const posted = createTargets({ allow: ALLOW }).post({
        url: receiver.url,
        headers: {},
        body: "{}",
        timeoutMs: 5_000,
        signal: ending.signal,
      });
      await receiver.waitFor(1);
      ending.abort();
      expect(await posted).to.deep.equal({ kind: "fault", error: "the request was cancelled" });
    });

    for (const { name, reply } of RAW_REPLIES) {
      it(`takes ${name} for a fault.`, async () => {
        const server = createServer((socket) => {
          socket.on("error", () => undefined);
          socket.once("data", () => socket.end(reply));
        });
        const port = await listenLocally(server);
        const answer = await post(createTargets({ allow: ALLOW }), `http://127.0.0.1:${port}/`);
        expect(answer).to.include({ kind: "fault" });
        await new Promise((resolve) => server.close(resolve));
      });
    }

    it("takes the status of an answer that breaks off.", async () => {
      const server = createServer((socket) => {
        socket.on("error", () => undefined);
        socket.once("data", () => socket.end("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort"));
      });
      const port = await listenLocally(server);
      const answer = await post(createTargets({ allow: ALLOW }), `http://127.0.0.1:${port}/`);
      expect(answer).to.include({ kind: "answer", status: 200 });
      await new Promise((resolve) => server.close(resolve));
    });

    it("asks for the certificate of the name of the URL.", async () => {
      const names: string[] = [];
      const server = createTlsServer({
        SNICallback(name, callback) {
          names.push(name);
          callback(null);
        },
      });
      server.on("tlsClientError", () => undefined);
      const port = await listenLocally(server);
      const targets = createTargets({ allow: ALLOW, lookup: async () => [{ address: "127.0.0.1", family: 4 }] });
      expect(await post(targets, `https://receiver.example.com:${port}/`)).to.include({ kind: "fault" });
      expect(names).to.deep.equal(["receiver.example.com"]);
      await new Promise((resolve) => server.close(resolve));
    });

    it("tells of a refused connection without the address.", async () => {
      const closed = await startReceiver();
      await closed.close();
      expect(await post(createTargets({ allow: ALLOW }), closed.url)).to.deep.equal({
        kind: "fault",
        error: "the connection was refused",
      });
    });
  });
});

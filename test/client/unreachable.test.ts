import { createServer, type Server } from "node:http";
import { type AddressInfo, createServer as createTcpServer } from "node:net";
import { expect } from "chai";
import {
  AgentBlockedError,
  type ControlPlaneOptions,
  ControlPlaneRequestError,
  createControlPlane,
} from "../../src/client/index.ts";
import { createNodeControlPlane } from "../../src/client/node/index.ts";
import { NOWHERE, rejection } from "./harness.ts";

const KEY = "acp_some_key";

/** A function guarded to run unchecked when the control plane cannot be reached. */
function forbidden(options: Partial<ControlPlaneOptions>) {
  const faults: ControlPlaneRequestError[] = [];
  const controlPlane = createControlPlane({ baseUrl: NOWHERE, apiKey: KEY, timeoutMs: 400, ...options });
  let runs = 0;
  const call = controlPlane.guard(() => ++runs, {
    agentId: "agt_1",
    actionType: "files.delete",
    toArguments: () => ({}),
    onUnreachable: "allow",
    onUnchecked: (fault) => void faults.push(fault),
    abortWhenRevoked: false,
  });
  return { call, faults, runs: () => runs };
}

async function listening(server: Pick<Server, "listen" | "address" | "once">): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", () => resolve()));
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** The address of a server that gives every call the same status. */
async function answering(status: number, body = "") {
  const server = createServer((request, response) => {
    request.resume();
    response.writeHead(status, { "content-type": "text/plain" }).end(body);
  });
  const baseUrl = `http://${await listening(server)}`;
  return { baseUrl, [Symbol.asyncDispose]: async () => void server.close() };
}

/** Addresses that cannot be right, with what the message says after the option. */
const WRONG_ADDRESSES: readonly (readonly [unknown, RegExp])[] = [
  [undefined, /, not undefined$/],
  [null, /, not null$/],
  ["", /, not ``$/],
  ["not an address", /, not `not an address`$/],
  ["control.example.com", /: `control\.example\.com` has neither a port nor a scheme$/],
  ["localhost", /: `localhost` has neither a port nor a scheme$/],
  ["[::1]", /: `\[::1\]` has neither a port nor a scheme$/],
  ["localhost:0", /, not `localhost:0`$/],
  ["localhost:99999", /, not `localhost:99999`$/],
  ["ftp://control.example.com", /, not `ftp:\/\/control\.example\.com`$/],
  ["constructor://control.example.com", /, not `constructor:/],
  ["https://", /, not `https:\/\/`$/],
  ["https://control.example.com?key=1", /, not `https:/],
];

describe("the client's options", () => {
  for (const [address, says] of WRONG_ADDRESSES) {
    it(`take no address \`${address}\`.`, () => {
      const wrong = address as string;
      const http = () => createControlPlane({ baseUrl: wrong, apiKey: KEY });
      expect(http).to.throw(TypeError, /^`baseUrl` must be an address such as `control\.example\.com:7080` or /);
      expect(http).to.throw(TypeError, says);
      if (address === undefined) return;
      const grpc = () => createNodeControlPlane({ baseUrl: NOWHERE, grpcUrl: wrong, apiKey: KEY });
      expect(grpc).to.throw(TypeError, /^`grpcUrl` must be an address such as `control\.example\.com:7090` or /);
      expect(grpc).to.throw(TypeError, says);
    });
  }

  it("take `host:port` as an address without TLS.", async () => {
    await using server = await answering(404);
    const address = server.baseUrl.replace("http://", "");
    const { call } = forbidden({ baseUrl: address });
    expect(await rejection(call())).to.include({ code: "UNIMPLEMENTED" });
    for (const grpcUrl of [address, `http://${address}`, `grpc://${address}`, "[::1]:7090", "grpcs://a.b"])
      createNodeControlPlane({ baseUrl: NOWHERE, grpcUrl, apiKey: KEY }).close();
  });

  for (const apiKey of [undefined, "", "acp key", "acp_kéy€", "acp\n"]) {
    it(`take no key ${JSON.stringify(apiKey)}, and do not show it.`, () => {
      const create = () => createControlPlane({ baseUrl: NOWHERE, apiKey: apiKey as string });
      expect(create).to.throw(TypeError, /^`apiKey` (is missing|holds)/);
      if (apiKey) expect(create).not.to.throw(new RegExp(apiKey));
      expect(() =>
        createNodeControlPlane({ baseUrl: NOWHERE, grpcUrl: "127.0.0.1:1", apiKey: apiKey as string }),
      ).to.throw(TypeError);
    });
  }

  it("take no password of an address into a message, and no time that is none.", () => {
    const create = () => createControlPlane({ baseUrl: "ftp://me:secret@control.example.com", apiKey: KEY });
    expect(create).to.throw(TypeError, "ftp://…@control.example.com");
    expect(create).not.to.throw(/secret/);
    const known = () => createControlPlane({ baseUrl: "https://me:secret@control.example.com", apiKey: KEY });
    expect(known).to.throw(TypeError, "https://…@control.example.com");
    for (const timeoutMs of [0, -1, Number.NaN])
      expect(() => createControlPlane({ baseUrl: NOWHERE, apiKey: KEY, timeoutMs })).to.throw(
        TypeError,
        /^`timeoutMs`/,
      );
  });
});

describe("a guarded function that may run unchecked", () => {
  it("runs when nothing listens, and says so each time.", async () => {
    const { call, faults } = forbidden({});
    expect([await call(), await call()]).to.deep.equal([1, 2]);
    expect(faults.map(({ code, reached }) => [code, reached])).to.deep.equal([
      ["UNAVAILABLE", false],
      ["UNAVAILABLE", false],
    ]);
  });

  it("runs when the name of the host is not known.", async () => {
    // The resolver of the machine may take longer than the other calls may.
    const { call } = forbidden({ baseUrl: "http://control-plane.invalid", timeoutMs: 20_000 });
    expect(await call()).to.equal(1);
  });

  it("does not run when the connection breaks or nothing answers, since the action may have been decided.", async () => {
    const cutting = createTcpServer((socket) => void socket.destroy());
    const silent = createTcpServer(() => undefined);
    try {
      for (const server of [cutting, silent]) {
        const { call, runs, faults } = forbidden({ baseUrl: `http://${await listening(server as never)}` });
        const error = await rejection(call());
        expect(error).to.be.instanceOf(AgentBlockedError).with.property("decision", null);
        expect(error.cause).to.include({ reached: true });
        expect([runs(), faults.length]).to.deep.equal([0, 0]);
      }
    } finally {
      cutting.close();
      silent.close();
    }
  });

  it("does not run when nothing listens any more after a request was lost.", async () => {
    const cutting = createTcpServer((socket) => {
      cutting.close();
      socket.destroy();
    });
    const { call, runs } = forbidden({ baseUrl: `http://${await listening(cutting as never)}` });
    const { cause } = await rejection(call());
    expect(cause).to.include({ code: "UNAVAILABLE", reached: true });
    expect((cause as Error).message).to.match(
      /ECONNREFUSED 127\.0\.0\.1:\d+; an earlier attempt may have been served$/,
    );
    expect(runs()).to.equal(0);
  });

  for (const status of [200, 301, 400, 401, 403, 404, 405, 409, 418, 429, 500, 501, 502, 503, 504, 505]) {
    it(`does not run when something answers ${status}.`, async () => {
      await using proxy = await answering(status, "<html>");
      const { call, runs, faults } = forbidden(proxy);
      await rejection(call());
      expect([runs(), faults.length]).to.deep.equal([0, 0]);
    });
  }

  it("does not run over https to a server without TLS, or to one that speaks another protocol.", async () => {
    await using plain = await answering(200);
    const mail = createTcpServer((socket) => void socket.end("220 mail.example.com ESMTP\r\n"));
    try {
      const baseUrls = [plain.baseUrl.replace("http:", "https:"), `http://${await listening(mail as never)}`];
      for (const baseUrl of baseUrls) {
        const { call, runs } = forbidden({ baseUrl });
        const error = await rejection(call());
        expect(error).to.be.instanceOf(ControlPlaneRequestError).and.not.instanceOf(AgentBlockedError);
        expect(runs()).to.equal(0);
      }
    } finally {
      mail.close();
    }
  });

  it("does not run when the own fetch throws anything else, or when the hook throws.", async () => {
    for (const fault of [new TypeError("x is not a function"), new Error("no proxy is set")]) {
      const fetch = () => Promise.reject(fault);
      const { call, runs } = forbidden({ fetch });
      await rejection(call());
      expect(runs()).to.equal(0);
    }
    const controlPlane = createControlPlane({ baseUrl: NOWHERE, apiKey: KEY, timeoutMs: 200 });
    let runs = 0;
    const call = controlPlane.guard(() => ++runs, {
      agentId: "agt_1",
      actionType: "files.delete",
      toArguments: () => ({}),
      onUnreachable: "allow",
      onUnchecked: () => {
        throw new Error("nobody is told");
      },
    });
    expect((await rejection(call())).message).to.equal("nobody is told");
    expect(runs).to.equal(0);
  });
});

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

describe("the client's options", () => {
  for (const baseUrl of [
    undefined,
    null,
    "",
    "control.example.com",
    "localhost:7080",
    "ftp://control.example.com",
    "https://",
  ]) {
    it(`take no address \`${baseUrl}\`.`, () => {
      expect(() => createControlPlane({ baseUrl: baseUrl as string, apiKey: KEY })).to.throw(
        TypeError,
        /^`baseUrl` must be/,
      );
    });
  }

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
    expect(faults.map(({ code }) => code)).to.deep.equal(["UNAVAILABLE", "UNAVAILABLE"]);
  });

  it("runs when the name of the host is not known.", async () => {
    expect(await forbidden({ baseUrl: "http://control-plane.invalid" }).call()).to.equal(1);
  });

  it("runs when the connection breaks or nothing answers.", async () => {
    const cutting = createTcpServer((socket) => void socket.destroy());
    const silent = createTcpServer(() => undefined);
    try {
      for (const server of [cutting, silent])
        expect(await forbidden({ baseUrl: `http://${await listening(server as never)}` }).call()).to.equal(1);
    } finally {
      cutting.close();
      silent.close();
    }
  });

  for (const status of [502, 503, 504]) {
    it(`runs when a proxy answers ${status}.`, async () => {
      await using proxy = await answering(status);
      expect(await forbidden(proxy).call()).to.equal(1);
    });
  }

  for (const status of [200, 301, 400, 401, 403, 404, 405, 409, 418, 429, 500, 501, 505]) {
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

import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { createWatched, type Watched } from "./watched.ts";

/** A mail as a server got it. */
export interface ReceivedMail {
  readonly from: string;
  readonly to: readonly string[];
  /** Header and body as they came. */
  readonly raw: string;
  /** Names of headers, lower case, with their unfolded values. */
  readonly headers: ReadonlyMap<string, string>;
  /** The decoded body. */
  readonly text: string;
}

/** A mail server (RFC 5321) on this machine, without encryption. */
export interface SmtpServer {
  readonly port: number;
  readonly mails: Watched<ReceivedMail>;
  /** Connections so far. */
  readonly connections: number;
  /** Code with which recipients are answered. Default 250. */
  answer: number;
  close(): Promise<void>;
}

function decodedWords(text: string): string {
  return text.replaceAll(/=\?utf-8\?(Q|B)\?([^?]*)\?=(?:\s+(?==\?))?/gi, (_, how: string, word: string) =>
    how.toUpperCase() === "B"
      ? Buffer.from(word, "base64").toString()
      : Buffer.from(
          word
            .replaceAll("_", " ")
            .replaceAll(/=([0-9A-F]{2})/gi, (__, hex: string) => String.fromCharCode(Number.parseInt(hex, 16))),
          "latin1",
        ).toString(),
  );
}

function mailFrom(from: string, to: readonly string[], raw: string): ReceivedMail {
  const end = raw.indexOf("\r\n\r\n");
  const head = raw.slice(0, end).replaceAll(/\r\n[ \t]+/g, " ");
  const headers = new Map(
    head.split("\r\n").map((line) => {
      const colon = line.indexOf(":");
      return [line.slice(0, colon).toLowerCase(), decodedWords(line.slice(colon + 1).trim())] as const;
    }),
  );
  const body = raw.slice(end + 4);
  const isBase64 = headers.get("content-transfer-encoding") === "base64";
  const text = isBase64 ? Buffer.from(body, "base64").toString() : body;
  return { from, to, raw, headers, text: text.replaceAll("\r\n", "\n") };
}

function serve(socket: Socket, server: { readonly answer: number }, mails: Watched<ReceivedMail>): void {
  let buffer = "";
  let from = "";
  let to: string[] = [];
  let isData = false;
  const say = (line: string): void => void socket.write(`${line}\r\n`);
  const command = (line: string): void => {
    const [word = ""] = line.toUpperCase().split(/[ :]/);
    const address = /<([^>]*)>/.exec(line)?.[1] ?? "";
    if (word === "EHLO" || word === "HELO") say("250 mail.test");
    else if (word === "STARTTLS") say("502 not here");
    else if (word === "MAIL") {
      from = address;
      to = [];
      say("250 ok");
    } else if (word === "RCPT") {
      if (server.answer === 250) to.push(address);
      say(`${server.answer} ${address}`);
    } else if (word === "DATA") {
      isData = true;
      say("354 go on");
    } else if (word === "QUIT") {
      say("221 bye");
      socket.end();
    } else say("250 ok");
  };
  socket.on("error", () => undefined);
  socket.on("data", (chunk) => {
    buffer += chunk.toString("latin1");
    for (;;) {
      const mark = isData ? "\r\n.\r\n" : "\r\n";
      const end = buffer.indexOf(mark);
      if (end < 0) return;
      const part = buffer.slice(0, end);
      buffer = buffer.slice(end + mark.length);
      if (!isData) {
        command(part);
        continue;
      }
      isData = false;
      mails.add(mailFrom(from, to, Buffer.from(part.replaceAll("\r\n..", "\r\n."), "latin1").toString()));
      say("250 taken");
    }
  });
  say("220 mail.test");
}

/** Starts a mail server. */
export async function startSmtpServer(): Promise<SmtpServer> {
  const mails = createWatched<ReceivedMail>();
  const sockets = new Set<Socket>();
  let connections = 0;
  const listener = createServer((socket) => {
    connections += 1;
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
    serve(socket, server, mails);
  });
  listener.listen(0, "127.0.0.1");
  await once(listener, "listening");
  const server: SmtpServer = {
    port: (listener.address() as AddressInfo).port,
    mails,
    get connections() {
      return connections;
    },
    answer: 250,
    async close() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => listener.close(resolve));
    },
  };
  return server;
}

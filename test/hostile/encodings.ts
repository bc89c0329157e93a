/* Hostile bytes on the wire: JSON, HTTP and character encodings that two readers may read differently. */

import { brotliCompressSync, deflateSync, gzipSync } from "node:zlib";
import { disguised, ODD_MEMBERS } from "./disguises.ts";
import type { Draw } from "./draw.ts";
import { SECRET } from "./lab.ts";
import type { PlainBody, RawRequest, WireLab } from "./wire-lab.ts";

const REST_PATH = "/v1/enforce/intercept";
const CONNECT_PATH = "/agentcontrol.v1.EnforcementService/Intercept";
/** White space that unpacks to far more than a request may have. */
const BOMB = gzipSync(Buffer.alloc(20_000_000, 32));
const JSON_TYPE = "application/json";

/** How a request is sent, where it differs from the plain form. */
interface Sent {
  readonly line?: string;
  readonly type?: string | undefined;
  readonly headers?: readonly string[];
  /** Sent in place of the length and the body. */
  readonly framed?: Buffer;
}

function rawRequest(body: Buffer, sent: Sent): RawRequest {
  const { line = `POST ${REST_PATH} HTTP/1.1`, headers = [], framed } = sent;
  const type = "type" in sent ? sent.type : JSON_TYPE;
  const typed = type === undefined ? [] : [`content-type: ${type}`];
  const length = framed === undefined ? [`content-length: ${body.length}`] : [];
  return { head: [line, "host: a.example", ...typed, ...headers, ...length], body: framed ?? body };
}

const escapedText = (text: string): string =>
  [...text].map((each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, "0")}`).join("");
const quoted = (draw: Draw, name: string): string => (draw.once(2) ? `"${escapedText(name)}"` : JSON.stringify(name));

/** The JSON text of a request in a form that another reader may take for something else. */
function hostileText(draw: Draw, body: PlainBody): string {
  const text = JSON.stringify(body);
  const inside = text.slice(1, -1);
  const harmless = draw.pick([
    `${quoted(draw, "action_type")}:"harmless"`,
    `"actionType":"harmless"`,
    `"ACTION_TYPE":"harmless"`,
    `${quoted(draw, "metadata")}:{}`,
    `${quoted(draw, "metadata")}:null`,
    `${quoted(draw, "tool")}:"read"`,
    `${JSON.stringify(draw.pick(ODD_MEMBERS))}:${JSON.stringify({ ...body, action_type: "harmless" })}`,
  ]);
  return draw.pick<() => string>([
    () => `{${harmless},${inside}}`,
    () => `{${inside},${harmless}}`,
    () => text.replace(/"(\w+)":/g, (whole, name: string) => (draw.once(2) ? `${quoted(draw, name)}:` : whole)),
    () => text.replace(/:"([\w.]+)"/g, (_, value: string) => `:"${escapedText(value)}"`),
    () =>
      text.replace(
        `"${body.action_type}"`,
        `"${body.action_type}${draw.pick(["\\ud800", "\\udc00", "\\u0000", "\\u200b", "\\u0085", "\\x41"])}"`,
      ),
    () =>
      text.replace(
        /900|60000/,
        draw.pick([
          "9e5",
          "9E+5",
          "900000.000",
          "1e999",
          "0900",
          "0x384",
          "9_000",
          "+900",
          "NaN",
          "Infinity",
          ".9e9",
          '"900000"',
        ]),
      ),
    () => text + draw.pick(["{}", "\u0000", ",", "x", text, "//", "\n\n", `{"action_type":"harmless"}`]),
    () => draw.pick(["\ufeff", "\u00a0", " \n\t", "\u0000", "/**/", ")]}'\n", "["]) + text,
    () => text.replace("{", `{"metadata":${bracketed(draw)},`),
    () => text.replace(SECRET, draw.pick(["\u2028", "\\/", "\\'", "\t", "\u007f", "\\ud83d\\ude00"])),
    () => text.replaceAll('"', "'"),
    () => `{${inside},}`,
    () => `[${text}]`,
    () => JSON.stringify(text),
    () => JSON.stringify({ ...body, action_type: disguised(draw, body.action_type) }),
    () => draw.pick(["", "null", "5", '""', "{}", "[]", text.slice(0, draw.below(text.length))]),
  ])();
}

function bracketed(draw: Draw): string {
  const depth = draw.pick([10, 62, 65, 1_000, 100_000]);
  return draw.once(2) ? "[".repeat(depth) + "]".repeat(depth) : `${'{"a":'.repeat(depth)}1${"}".repeat(depth)}`;
}

/** The plain text in bytes that are no UTF-8, or another's. */
function hostileBytes(draw: Draw, text: string): RawRequest {
  const utf16 = Buffer.from(text, "utf16le");
  const bytes = Buffer.from(text);
  return draw.pick<() => RawRequest>([
    () =>
      rawRequest(utf16, {
        type: draw.pick([JSON_TYPE, `${JSON_TYPE}; charset=utf-16le`, `${JSON_TYPE}; charset=utf-16`]),
      }),
    () => rawRequest(Buffer.concat([Buffer.from([0xff, 0xfe]), utf16]), {}),
    () => rawRequest(Buffer.from(utf16).swap16(), { type: `${JSON_TYPE}; charset=utf-16be` }),
    () => rawRequest(Buffer.from(text.replace("vendor", "vend\u00f6r"), "latin1"), {}),
    () =>
      rawRequest(
        Buffer.from(
          text.replace("6", draw.pick(["\xc0\xb6", "\xed\xa0\x80", "\xf8\x88\x80\x80\xb6", "\xff", "\xe2\x80"])),
          "latin1",
        ),
        {},
      ),
    () =>
      rawRequest(bytes, {
        type: `${JSON_TYPE}; charset=${draw.pick(["utf-7", "shift_jis", "ebcdic-us", "utf-8", "UTF8", '"utf-8"'])}`,
      }),
    () => rawRequest(Buffer.from(text.replaceAll('"', "+ACI-")), { type: `${JSON_TYPE}; charset=utf-7` }),
  ])();
}

/** The plain body in an odd HTTP request. */
function hostileHttp(draw: Draw, text: string): RawRequest {
  const bytes = Buffer.from(text);
  const hex = bytes.length.toString(16);
  const types = [
    "text/plain",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
    "application/proto",
    "application/jsonp",
  ];
  const oddTypes = [
    ...types,
    "application/json, text/plain",
    "APPLICATION/JSON",
    "application/json;",
    "json",
    "",
    "application/vnd.a+json",
  ];
  const paths = [
    ...[
      "/v1/enforce/%69ntercept",
      "/v1//enforce/intercept",
      "/v1/./enforce/intercept",
      "/v1/x/../enforce/intercept",
      "//v1/enforce/intercept",
    ],
    ...[
      "/v1/enforce/intercept/",
      "/V1/enforce/Intercept",
      "/v1/enforce/intercept%00",
      "/v1/enforce/intercept;a=b",
      "/v1\\enforce\\intercept",
    ],
    ...[
      "/v1/enforce/intercept?action_type=harmless",
      "/v1/enforce/intercept?dry_run=true",
      "/v1/enforce/intercept#x",
      "/v1%2fenforce%2fintercept",
    ],
    ...[
      "http://a.example/v1/enforce/intercept",
      "http://evil.example:1/v1/enforce/intercept?x=1",
      "https://u:p@a/v1/enforce/intercept",
    ],
    ...[
      "*",
      "/v1/enforce/intercept%",
      "/v1/enforce/%c0%ae%c0%ae/intercept",
      "http://",
      "v1/enforce/intercept",
      "/v1/enforce/intercept:batch",
    ],
  ];
  const methods = ["GET", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "post", "TRACE", "PROPFIND"];
  return draw.pick<() => RawRequest>([
    () => rawRequest(bytes, { type: draw.pick([...oddTypes, undefined]) }),
    () => rawRequest(gzipSync(bytes), { headers: ["content-encoding: gzip"] }),
    () => rawRequest(deflateSync(bytes), { headers: ["content-encoding: deflate"] }),
    () => rawRequest(brotliCompressSync(bytes), { headers: ["content-encoding: br"] }),
    () => rawRequest(BOMB, { headers: ["content-encoding: gzip"] }),
    () =>
      rawRequest(bytes, {
        headers: [`content-encoding: ${draw.pick(["gzip", "identity", "identity, gzip", "x", ""])}`],
      }),
    () => rawRequest(bytes, { line: `POST ${draw.pick(paths)} HTTP/1.1` }),
    () => rawRequest(bytes, { line: `${draw.pick(methods)} ${REST_PATH} HTTP/1.1` }),
    () =>
      rawRequest(bytes, {
        headers: [
          draw.pick(["x-http-method-override: GET", "x-original-url: /healthz", "x-rewrite-url: /", "expect: x"]),
        ],
      }),
    () => rawRequest(bytes, { headers: ["transfer-encoding: chunked"], framed: chunked(bytes, 1 + draw.below(9)) }),
    () =>
      rawRequest(bytes, {
        headers: ["transfer-encoding: chunked"],
        framed: Buffer.from(`${hex};a="b"\r\n${text}\r\n0\r\nx-api-key: x\r\n\r\n`),
      }),
    () =>
      rawRequest(bytes, {
        headers: [`transfer-encoding: ${draw.pick(["gzip, chunked", "identity", "xchunked", "chunked, chunked"])}`],
      }),
    () =>
      rawRequest(bytes, {
        headers: ["transfer-encoding: chunked"],
        framed: Buffer.from(
          draw.pick([`-1\r\n${text}`, `${hex}0000000000000000\r\n${text}`, `0x${hex}\r\n${text}\r\n0\r\n\r\n`]),
        ),
      }),
    () =>
      rawRequest(bytes, {
        headers: ["transfer-encoding: chunked", `content-length: ${bytes.length}`],
        framed: chunked(bytes, 8),
      }),
    () => rawRequest(bytes, { headers: [`content-length: ${draw.below(bytes.length)}`], framed: bytes }),
    () =>
      rawRequest(bytes, {
        headers: [`content-length: ${draw.pick(["-1", "1e3", "0x10", "5, 6", "99999999999"])}`],
        framed: bytes,
      }),
    () => rawRequest(bytes, { headers: [`x-big: ${"x".repeat(draw.pick([10_000, 40_000]))}`] }),
  ])();
}

function chunked(bytes: Buffer, size: number): Buffer {
  const parts: string[] = [];
  for (let at = 0; at < bytes.length; at += size) {
    const part = bytes.subarray(at, at + size).toString("latin1");
    parts.push(`${part.length.toString(16)}\r\n${part}\r\n`);
  }
  return Buffer.from(`${parts.join("")}0\r\n\r\n`, "latin1");
}

/** The same over Connect, whose JSON names may be in either form. */
function overConnect(draw: Draw, body: PlainBody): RawRequest {
  const text = hostileText(draw, body);
  const type = draw.pick([
    JSON_TYPE,
    JSON_TYPE,
    "application/proto",
    "application/connect+json",
    "application/grpc-web+json",
  ]);
  return rawRequest(Buffer.from(text), { line: `POST ${CONNECT_PATH} HTTP/1.1`, type });
}

type Encode = (draw: Draw, body: PlainBody) => RawRequest;

const send = (encode: Encode) => async (lab: WireLab, draw: Draw) => {
  const { verdict, body } = draw.pick(lab.plains);
  await lab.attempt(verdict, encode(draw, body));
};

/** Cases of encodings, by what is hostile about them. */
export const ENCODING_CASES = {
  "json texts": send((draw, body) => rawRequest(Buffer.from(hostileText(draw, body)), {})),
  "character encodings": send((draw, body) => hostileBytes(draw, JSON.stringify(body))),
  "http requests": send((draw, body) => hostileHttp(draw, JSON.stringify(body))),
  "connect requests": send(overConnect),
};

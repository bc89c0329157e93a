/* Hostile bytes on the wire: JSON, HTTP and character encodings that two readers may read differently. */

import { brotliCompressSync, deflateSync, gzipSync } from "node:zlib";
import { disguised, ODD_MEMBERS } from "./disguises.ts";
import type { Draw } from "./draw.ts";
import { SECRET } from "./lab.ts";
import { chunked } from "./raw-http.ts";
import { type Right, refused, SAME } from "./rights.ts";
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

const MALFORMED: readonly Right[] = ["MALFORMED_JSON *"];
const ODD_JSON: readonly Right[] = [...SAME, ...MALFORMED];
/** Right for JSON that is no request. */
const NO_BODY: readonly Right[] = ["INVALID_FIELD body", "INVALID_FIELD -", "INVALID_FIELD action_type"];
const UNKNOWN: readonly Right[] = ["UNKNOWN_FIELD *"];
const TWICE: readonly Right[] = ["DUPLICATE_FIELD *"];
/** Right for a number that is none, or too great. */
const NO_NUMBER: readonly Right[] = [...MALFORMED, ...refused("metadata")];

/** The JSON text of a request in a form that another reader may take for something else. */
function hostileText(draw: Draw, body: PlainBody): string {
  const text = JSON.stringify(body);
  const inside = text.slice(1, -1);
  const beside = (member: string): string => (draw.once(2) ? `{${inside},${member}}` : `{${member},${inside}}`);
  const number = (spelled: string): string => text.replace(/900|60000/, spelled);
  const hasNumber = body.metadata !== undefined;
  const ofNumber = (rights: readonly Right[]): readonly Right[] => (hasNumber ? rights : SAME);
  return draw.disguise("json", [
    ["escaped names", SAME, () => text.replace(/"(\w+)":/g, (_, name: string) => `${quoted(draw, name)}:`)],
    ["escaped values", SAME, () => text.replace(/:"([\w.]+)"/g, (_, value: string) => `:"${escapedText(value)}"`)],
    ["a member twice", TWICE, () => beside(`${quoted(draw, "action_type")}:"harmless"`)],
    ["a member in two spellings", [...TWICE, ...UNKNOWN], () => beside(`"actionType":"harmless"`)],
    ["a member in capitals", UNKNOWN, () => beside(`"ACTION_TYPE":"harmless"`)],
    [
      "metadata twice",
      hasNumber ? TWICE : SAME,
      () => beside(`${quoted(draw, "metadata")}:${draw.pick(["{}", "null"])}`),
    ],
    ["a tool twice", body.tool === undefined ? SAME : TWICE, () => beside(`${quoted(draw, "tool")}:"read"`)],
    [
      "an odd member",
      [...UNKNOWN, ...MALFORMED],
      () => beside(`${JSON.stringify(draw.pick(ODD_MEMBERS))}:${JSON.stringify({ ...body, action_type: "harmless" })}`),
    ],
    [
      "an invisible character in an escape",
      refused("action_type"),
      () =>
        text.replace(`"${body.action_type}"`, `"${body.action_type}${draw.pick(["\\u0000", "\\u200b", "\\u0085"])}"`),
    ],
    [
      "half a surrogate pair in an escape",
      [...MALFORMED, ...refused("action_type")],
      () => text.replace(`"${body.action_type}"`, `"${body.action_type}${draw.pick(["\\ud800", "\\udc00"])}"`),
    ],
    ["no escape", MALFORMED, () => text.replace(`"${body.action_type}"`, `"${body.action_type}\\x41"`)],
    ["a number in another form", SAME, () => number(draw.pick(["9e5", "9E+5", "900000.000", '"900000"']))],
    ["a great number", ofNumber(NO_NUMBER), () => number("1e999")],
    [
      "no number",
      ofNumber(MALFORMED),
      () => number(draw.pick(["0900", "0x384", "9_000", "+900", "NaN", "Infinity", ".9e9"])),
    ],
    ["white space around", SAME, () => draw.pick([" \n\t", "\r\n"]) + text + draw.pick(["\n\n", " "])],
    [
      "something after it",
      MALFORMED,
      () => text + draw.pick(["{}", "\u0000", ",", "x", text, "//", `{"action_type":"harmless"}`]),
    ],
    ["something before it", MALFORMED, () => draw.pick(["\u00a0", "\u0000", "/**/", ")]}'\n", "["]) + text],
    ["a mark of the byte order", MALFORMED, () => `\ufeff${text}`],
    [
      "metadata that is nested",
      hasNumber ? TWICE : ODD_JSON,
      () => text.replace("{", `{"metadata":{"a":${nestedText(draw, 10)}},`),
    ],
    [
      "metadata that is deep",
      [...TWICE, "BODY_TOO_DEEP *"],
      () => text.replace("{", `{"metadata":${nestedText(draw, draw.pick([70, 1_000, 100_000]))},`),
    ],
    ["another content", SAME, () => text.replace(SECRET, draw.pick(["\u2028", "\\/", "\u007f", "\\ud83d\\ude00"]))],
    ["a content that is no text", MALFORMED, () => text.replace(SECRET, draw.pick(["\\'", "\t", "\n"]))],
    ["single quotes", MALFORMED, () => text.replaceAll('"', "'")],
    ["a comma at the end", MALFORMED, () => `{${inside},}`],
    ["in a list", [...MALFORMED, ...NO_BODY], () => `[${text}]`],
    ["in a text", [...MALFORMED, ...NO_BODY], () => JSON.stringify(text)],
    ["a disguised type", SAME, () => JSON.stringify({ ...body, action_type: disguised(draw, body.action_type) })],
    ["cut off", MALFORMED, () => text.slice(0, 1 + draw.below(text.length - 1))],
    ["no object", [...MALFORMED, ...NO_BODY], () => draw.pick(["null", "5", '""', "[]"])],
    ["nothing in it", refused("action_type", "agent_id"), () => "{}"],
    ["nothing", [...MALFORMED, ...refused("action_type", "agent_id")], () => ""],
  ]);
}

function nestedText(draw: Draw, depth: number): string {
  return draw.once(2) ? "[".repeat(depth) + "]".repeat(depth) : `${'{"a":'.repeat(depth)}1${"}".repeat(depth)}`;
}

const NO_TYPE: readonly Right[] = ["UNSUPPORTED_MEDIA_TYPE *"];
const NO_REQUEST: readonly Right[] = ["MALFORMED_REQUEST *"];
const NO_ROUTE: readonly Right[] = ["ROUTE_NOT_FOUND *", "METHOD_NOT_ALLOWED *"];

/** The plain text in bytes that are no UTF-8, or another's. */
function hostileBytes(draw: Draw, text: string): RawRequest {
  const utf16 = Buffer.from(text, "utf16le");
  const bytes = Buffer.from(text);
  const latin = (changed: string): RawRequest => rawRequest(Buffer.from(changed, "latin1"), {});
  const noText = ["\xc0\xb6", "\xed\xa0\x80", "\xf8\x88\x80\x80\xb6", "\xff", "\xe2\x80"];
  const typed = (body: Buffer, charset: string): RawRequest =>
    rawRequest(body, { type: `${JSON_TYPE}; charset=${charset}` });
  return draw.disguise("bytes", [
    ["utf-16", MALFORMED, () => rawRequest(utf16, {})],
    ["utf-16 that is named", [...MALFORMED, ...NO_TYPE], () => typed(utf16, draw.pick(["utf-16le", "utf-16"]))],
    ["utf-16 with its mark", MALFORMED, () => rawRequest(Buffer.concat([Buffer.from([0xff, 0xfe]), utf16]), {})],
    ["utf-16 of another order", [...MALFORMED, ...NO_TYPE], () => typed(Buffer.from(utf16).swap16(), "utf-16be")],
    ["latin-1", MALFORMED, () => latin(text.replace(SECRET, "vend\u00f6r"))],
    ["no utf-8", MALFORMED, () => latin(text.replace(SECRET, draw.pick(noText)))],
    ["utf-8 that is named", SAME, () => typed(bytes, draw.pick(["utf-8", "UTF8", '"utf-8"']))],
    ["another charset named", NO_TYPE, () => typed(bytes, draw.pick(["utf-7", "shift_jis", "ebcdic-us"]))],
    ["utf-7", [...MALFORMED, ...NO_TYPE], () => typed(Buffer.from(text.replaceAll('"', "+ACI-")), "utf-7")],
  ]);
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
    "json",
    "",
    "application/vnd.a+json",
    undefined,
  ];
  const aliases = [
    "/v1/enforce/%69ntercept",
    "/api/v1/enforce/intercept",
    "http://a.example/v1/enforce/intercept",
    "https://u:p@a/v1/enforce/intercept",
  ];
  const queries = ["?action_type=harmless", "?dry_run=true", "?x=1"];
  const paths = [
    "/v1/enforce/intercept#x",
    "/v1//enforce/intercept",
    "/v1/./enforce/intercept",
    "/v1/x/../enforce/intercept",
    "//v1/enforce/intercept",
    "/v1/enforce/intercept/",
    "/V1/enforce/Intercept",
    "/v1/enforce/intercept%00",
    "/v1/enforce/intercept;a=b",
    "/v1\\enforce\\intercept",
    "/v1%2fenforce%2fintercept",
    "*",
    "/v1/enforce/intercept%",
    "/v1/enforce/%c0%ae%c0%ae/intercept",
    "http://",
    "v1/enforce/intercept",
    "/v1/enforce/intercept:batch",
  ];
  const headers = ["x-http-method-override: GET", "x-original-url: /healthz", "x-rewrite-url: /"];
  const to = (path: string): RawRequest => rawRequest(bytes, { line: `POST ${path} HTTP/1.1` });
  const by = (method: string): RawRequest => rawRequest(bytes, { line: `${method} ${REST_PATH} HTTP/1.1` });
  const encoded = (name: string, body: Buffer): RawRequest =>
    rawRequest(body, { headers: [`content-encoding: ${name}`] });
  const transferred = (coding: string, framed?: Buffer): RawRequest =>
    rawRequest(bytes, { headers: [`transfer-encoding: ${coding}`], ...(framed !== undefined && { framed }) });
  const sized = (length: string): RawRequest =>
    rawRequest(bytes, { headers: [`content-length: ${length}`], framed: bytes });
  const broken = [`-1\r\n${text}`, `${hex}0000000000000000\r\n${text}`, `0x${hex}\r\n${text}\r\n0\r\n\r\n`];
  return draw.disguise("http", [
    [
      "another spelling of the type",
      SAME,
      () => rawRequest(bytes, { type: draw.pick(["APPLICATION/JSON", "application/json;"]) }),
    ],
    ["another type", [...NO_TYPE, "ROUTE_NOT_FOUND *"], () => rawRequest(bytes, { type: draw.pick(types) })],
    ["two types", NO_TYPE, () => rawRequest(bytes, { type: "application/json, text/plain" })],
    ["gzip", NO_TYPE, () => encoded("gzip", gzipSync(bytes))],
    ["deflate", NO_TYPE, () => encoded("deflate", deflateSync(bytes))],
    ["brotli", NO_TYPE, () => encoded("br", brotliCompressSync(bytes))],
    ["a bomb", NO_TYPE, () => encoded("gzip", BOMB)],
    ["gzip that is none", NO_TYPE, () => encoded("gzip", bytes)],
    ["identity", SAME, () => encoded("identity", bytes)],
    ["an unknown encoding", NO_TYPE, () => encoded(draw.pick(["x", "identity, gzip"]), bytes)],
    ["another path to the same", SAME, () => to(draw.pick(aliases))],
    ["a query", refused("action_type", "dry_run", "x"), () => to(REST_PATH + draw.pick(queries))],
    ["another path", [...NO_ROUTE, ...NO_REQUEST], () => to(draw.pick(paths))],
    ["another method", NO_ROUTE, () => by(draw.pick(["GET", "PUT", "PATCH", "DELETE", "PROPFIND"]))],
    ["no method", NO_REQUEST, () => by(draw.pick(["post", "XYZZY"]))],
    ["headers that redirect", SAME, () => rawRequest(bytes, { headers: [draw.pick(headers)] })],
    ["an expectation", ["EXPECTATION_FAILED *"], () => rawRequest(bytes, { headers: ["expect: x"] })],
    ["chunks", SAME, () => transferred("chunked", chunked(bytes, 1 + draw.below(9)))],
    [
      "chunks with trailers",
      SAME,
      () => transferred("chunked", Buffer.from(`${hex};a="b"\r\n${text}\r\n0\r\nx-api-key: x\r\n\r\n`)),
    ],
    [
      "an unknown coding",
      NO_REQUEST,
      () => transferred(draw.pick(["gzip, chunked", "identity", "xchunked", "chunked, chunked"])),
    ],
    ["broken chunks", NO_REQUEST, () => transferred("chunked", Buffer.from(draw.pick(broken)))],
    [
      "a length beside chunks",
      NO_REQUEST,
      () =>
        rawRequest(bytes, {
          headers: ["transfer-encoding: chunked", `content-length: ${bytes.length}`],
          framed: chunked(bytes, 8),
        }),
    ],
    [
      "a length that is too short",
      [...MALFORMED, ...NO_REQUEST],
      () => sized(String(1 + draw.below(bytes.length - 1))),
    ],
    ["no length", NO_REQUEST, () => sized(draw.pick(["-1", "1e3", "0x10", "5, 6"]))],
    ["a great length", ["BODY_TOO_LARGE *"], () => sized("99999999999")],
    ["great headers", SAME, () => rawRequest(bytes, { headers: [`x-big: ${"x".repeat(10_000)}`] })],
    [
      "headers that are too great",
      ["HEADERS_TOO_LARGE *"],
      () => rawRequest(bytes, { headers: [`x-big: ${"x".repeat(40_000)}`] }),
    ],
  ]);
}

/** The same over Connect, whose JSON names may be in either form. */
function overConnect(draw: Draw, body: PlainBody): RawRequest {
  const text = hostileText(draw, body);
  const [name, type, rights, isFramed = false] = draw.pick<readonly [string, string, readonly Right[], boolean?]>([
    ["JSON", JSON_TYPE, SAME],
    ["gRPC-Web", "application/grpc-web+json", SAME, true],
    ["JSON as a message", "application/proto", ["INVALID_FIELD -"]],
    ["JSON as a stream", "application/connect+json", NO_TYPE],
    ["gRPC-Web without a frame", "application/grpc-web+json", ["BODY_TOO_LARGE *", "INVALID_FIELD -"]],
  ]);
  draw.use(`connect: ${name}`, rights);
  const bytes = Buffer.from(text);
  return rawRequest(isFramed ? framed(bytes) : bytes, { line: `POST ${CONNECT_PATH} HTTP/1.1`, type });
}

/** A message of gRPC-Web: no flags, and its length. */
function framed(bytes: Buffer): Buffer {
  const head = Buffer.alloc(5);
  head.writeUInt32BE(bytes.length, 1);
  return Buffer.concat([head, bytes]);
}

type Encode = (draw: Draw, body: PlainBody) => RawRequest;

function family(encode: Encode, isPlainOverConnect = false) {
  return {
    async run(lab: WireLab, draw: Draw): Promise<void> {
      const { verdict, body } = draw.pick(lab.plains);
      await lab.attempt(draw, verdict, encode(draw, body));
    },
    /** The bytes of plain requests, one of which is refused and one allowed. */
    async control(lab: WireLab, draw: Draw): Promise<void> {
      const { verdict, body, allowed } = draw.pick(lab.plains);
      const sent = isPlainOverConnect ? { line: `POST ${CONNECT_PATH} HTTP/1.1` } : {};
      await lab.attempt(draw, verdict, rawRequest(Buffer.from(JSON.stringify(body)), sent));
      await lab.attempt(draw, "allow", rawRequest(Buffer.from(JSON.stringify(allowed)), sent));
    },
  };
}

/** Families of cases of encodings, by what is hostile about them. */
export const ENCODING_CASES = {
  "json texts": family((draw, body) => rawRequest(Buffer.from(hostileText(draw, body)), {})),
  "character encodings": family((draw, body) => hostileBytes(draw, JSON.stringify(body))),
  "http requests": family((draw, body) => hostileHttp(draw, JSON.stringify(body))),
  "connect requests": family(overConnect, true),
};

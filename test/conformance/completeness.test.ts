import { readFileSync } from "node:fs";
import { join } from "node:path";
import { type DescField, type DescMessage, getOption, hasOption, ScalarType } from "@bufbuild/protobuf";
import { field as fieldRules } from "@bufbuild/protovalidate/gen/buf/validate/validate_pb.js";
import { expect } from "chai";
import { access } from "../../gen/agentcontrol/v1/access_pb.js";
import { http } from "../../gen/google/api/annotations_pb.js";
import { CODE_BY_REASON, codeFromReason, codeName, ErrorReason, httpStatusFromReason } from "../../src/errors.ts";
import { enumWords } from "../support/plain-json.ts";
import { routeOf } from "../support/wires.ts";
import { reasonsElsewhere, restCases, streamCases, UNARY_FILES, unaryCases } from "./cases.ts";
import { ENUMS, METHODS, nameOf } from "./methods.ts";
import { openService } from "./service.ts";

const UNARY = UNARY_FILES.flatMap(unaryCases);
const STREAMS = streamCases();
const REST = restCases();
const TESTS = join(import.meta.dirname, "..");
const REASONS = Object.entries(ErrorReason)
  .filter(([, value]) => typeof value === "number" && value !== ErrorReason.UNSPECIFIED)
  .map(([word, value]) => ({ word, reason: value as ErrorReason }));
/** Served over gRPC alone, and tested in a file of its own. */
const ONLY_GRPC = "EnforcementService.InterceptStream";

/** What the comment of a reason says: `INVALID_ARGUMENT, 400.` or `…over gRPC, 413 over HTTP.` */
const DOCUMENTED = /^ {2}\/\/ .*?(?:([A-Z_]+) over gRPC, |([A-Z_]+), )?(\d{3})(?: over HTTP)?\.$/;

function documentedReasons(): Map<string, { code: string | undefined; status: number }> {
  const text = readFileSync(join(TESTS, "..", "proto", "agentcontrol", "v1", "error_reason.proto"), "utf8");
  const found = new Map<string, { code: string | undefined; status: number }>();
  let comment = "";
  for (const line of text.split("\n")) {
    const [, word] = /^ {2}ERROR_REASON_(\w+) = /.exec(line) ?? [];
    if (line.startsWith("  //")) comment = line;
    if (word === undefined) continue;
    const [, overGrpc, plain, status] = DOCUMENTED.exec(comment) ?? [];
    if (status !== undefined) found.set(word, { code: overGrpc ?? plain, status: Number(status) });
  }
  return found;
}

const errorsWanted = [...UNARY, ...STREAMS].flatMap(({ error }) => (error?.reason === undefined ? [] : [error.reason]));
const reasonsInRest = REST.flatMap(({ want }) => JSON.stringify(want).match(/(?<="reason":")[A-Z_]+/g) ?? []);

/** The request of every method, with the messages inside. */
function requestMessages(): DescMessage[] {
  const found = new Set<DescMessage>();
  const add = (desc: DescMessage) => {
    if (found.has(desc)) return;
    found.add(desc);
    for (const { message } of desc.fields) if (message?.typeName.startsWith("agentcontrol.")) add(message);
  };
  for (const { input } of METHODS) add(input);
  return [...found];
}

function refusesNul(field: DescField): boolean {
  const { type } = getOption(field, fieldRules);
  if (type.case !== "string") return false;
  const { pattern, wellKnown } = type.value;
  return wellKnown.case === "uuid" || (pattern !== "" && !new RegExp(pattern, "u").test("a\u0000b"));
}

describe("the interface and its conformance cases", () => {
  it("give every method a REST route, streams of both directions excepted", () => {
    const without = METHODS.filter((method) => !hasOption(method, http)).map(nameOf);
    expect(without).to.deep.equal([ONLY_GRPC]);
    for (const method of METHODS.filter((each) => nameOf(each) !== ONLY_GRPC)) {
      expect(routeOf(method).template, nameOf(method)).to.match(/^\/(v1|api)\//);
    }
  });

  it("refuse U+0000, which PostgreSQL cannot keep, in every id of a request", () => {
    const open = requestMessages().flatMap((desc) =>
      desc.fields
        .filter((field) => /_id$|^on_behalf_of$/.test(field.name) && field.scalar === ScalarType.STRING)
        .filter((field) => !refusesNul(field))
        .map((field) => `${desc.name}.${field.name}`),
    );
    expect(open).to.deep.equal([]);
  });

  it("say of every method who may call it", () => {
    const open = METHODS.filter((method) => !hasOption(method, access) || getOption(method, access).roles.length === 0);
    expect(open.map(nameOf)).to.deep.equal([]);
  });

  it("show of every method that it succeeds", () => {
    const succeeding = new Set(
      [...UNARY, ...STREAMS].flatMap(({ call, error }) => (error === undefined ? [call] : [])),
    );
    const missing = METHODS.map(nameOf).filter((name) => name !== ONLY_GRPC && !succeeding.has(name));
    expect(missing).to.deep.equal([]);
  });

  it("show of every method that takes an id how it fails", () => {
    const failing = new Set([...UNARY, ...STREAMS].flatMap(({ call, error }) => (error === undefined ? [] : [call])));
    const missing = METHODS.map(nameOf).filter((name) => name !== ONLY_GRPC && !failing.has(name));
    expect(missing).to.deep.equal([]);
  });

  it("ask for every REST path as it is written", () => {
    const asked = REST.map(({ request }) =>
      request.replace(/\?.*/, "").replace(/\{\{[^}]*\}\}|(agt|esc)_unknown/g, "*"),
    );
    const missing = METHODS.filter(({ methodKind }) => methodKind === "unary").flatMap((method) => {
      const { verb, template } = routeOf(method);
      const pattern = `${verb} ${template.replace(/\{\w+\}/g, "*")}`.replace(/\{\w+=\*\*\}/, "unknown");
      return asked.includes(pattern) ? [] : [pattern];
    });
    expect(missing).to.deep.equal([]);
  });

  it("give every reason a gRPC code and the HTTP status that its comment promises", () => {
    const documented = documentedReasons();
    for (const { word, reason } of REASONS) {
      expect(CODE_BY_REASON.has(reason), word).to.equal(true);
      const { code, status } = documented.get(word) ?? {};
      expect(httpStatusFromReason(reason), word).to.equal(status);
      if (code !== undefined) expect(codeName(codeFromReason(reason)), word).to.equal(code);
    }
  });

  it("provoke every reason in a case, or in the test that is named for it", () => {
    const elsewhere = reasonsElsewhere();
    const provoked = new Set([...errorsWanted, ...reasonsInRest]);
    const missing = REASONS.map(({ word }) => word).filter((word) => !provoked.has(word) && !(word in elsewhere));
    expect(missing).to.deep.equal([]);
    for (const [word, file] of Object.entries(elsewhere)) {
      expect(readFileSync(join(TESTS, file), "utf8"), file).to.match(new RegExp(`\\b${word}\\b`));
    }
  });

  it("name no reason that does not exist", () => {
    const known = REASONS.map(({ word }) => word);
    expect(errorsWanted.filter((word) => !known.includes(word))).to.deep.equal([]);
  });

  it("write every enum over REST as lower-case words without prefix", async () => {
    const { server } = await openService();
    const document = JSON.stringify(await (await fetch(`${server.http}/openapi.json`)).json());
    const published = ENUMS.filter(({ name }) => name !== "ErrorReason");
    const missing = published.filter((desc) => {
      const words = enumWords(desc);
      expect(words, desc.name).to.satisfy((all: string[]) => all.every((word) => /^[a-z][a-z_]*$/.test(word)));
      return !document.includes(`[${words.map((word) => `"${word}"`).join(",")}`);
    });
    expect(missing.map(({ name }) => name)).to.deep.equal([]);
    for (const { sharedPrefix = "", values } of published) {
      for (const { name } of values) expect(document, sharedPrefix).not.to.include(`"${name}"`);
    }
  });
});

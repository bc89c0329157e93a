import type { JsonValue } from "@bufbuild/protobuf";
import { expect } from "chai";
import { type CaseRun, createCaseRun } from "./case-run.ts";
import { type RestCase, restCases } from "./cases.ts";
import { expectPart } from "./compare.ts";
import { openService, type SharedService } from "./service.ts";

async function send(service: SharedService, caseRun: CaseRun, each: RestCase, prefix: string): Promise<Response> {
  const [method = "", path = ""] = caseRun.fill(each.request).split(" ");
  const { body } = each;
  const given = Object.entries({
    "x-api-key": await caseRun.keyOf({}),
    ...(body === undefined ? {} : { "content-type": "application/json" }),
    ...each.headers,
  });
  const headers = given.flatMap(([name, value]): [string, string][] =>
    value === null ? [] : [[name, caseRun.fill(value)]],
  );
  const text = typeof body === "string" ? body : JSON.stringify(body);
  const init = { method, headers, ...(body === undefined ? {} : { body: caseRun.fill(text) }) };
  return fetch(service.server.http + prefix + path, init);
}

async function check(response: Response, caseRun: CaseRun, { want }: RestCase): Promise<void> {
  const text = await response.text();
  expect(response.status, text).to.equal(want.status);
  for (const [name, value] of Object.entries(want.headers ?? {})) {
    expect(response.headers.get(name), name).to.equal(value);
  }
  if (want.text !== undefined) expect(text).to.equal(want.text);
  if (want.body === undefined && want.part === undefined) return;
  expect(response.headers.get("content-type")).to.match(/^application\/json/);
  const body = caseRun.normalise(JSON.parse(text) as JsonValue);
  if (want.body !== undefined) expect(body).to.deep.equal(want.body);
  if (want.part !== undefined) expectPart(body, want.part);
}

async function run(each: RestCase, prefix: string): Promise<void> {
  const service = await openService();
  const [rest] = service.wires.all;
  if (rest === undefined) throw new Error("the service has no wires");
  const caseRun = await createCaseRun(service, rest);
  await caseRun.prepare(each.given ?? []);
  await check(await send(service, caseRun, each, prefix), caseRun, each);
}

describe("REST as it is documented", () => {
  for (const each of restCases()) {
    // Only the documented prefix stands for another path.
    const prefixes = /^[A-Z]+ \/v1\//.test(each.request) ? ["", "/api"] : [""];
    it(each.description, () => Promise.all(prefixes.map((prefix) => run(each, prefix))));
  }
});

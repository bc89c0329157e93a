import type { JsonValue } from "@bufbuild/protobuf";
import { expect } from "chai";
import { type RestCase, restCases } from "./cases.ts";
import { expectPart } from "./compare.ts";
import { createScene, type Scene } from "./scene.ts";
import { openStage, type Stage } from "./stage.ts";

async function send(stage: Stage, scene: Scene, each: RestCase, prefix: string): Promise<Response> {
  const [method = "", path = ""] = scene.fill(each.request).split(" ");
  const { body } = each;
  const given = Object.entries({
    "x-api-key": await scene.keyOf({}),
    ...(body === undefined ? {} : { "content-type": "application/json" }),
    ...each.headers,
  });
  const headers = given.flatMap(([name, value]): [string, string][] =>
    value === null ? [] : [[name, scene.fill(value)]],
  );
  const text = typeof body === "string" ? body : JSON.stringify(body);
  const init = { method, headers, ...(body === undefined ? {} : { body: scene.fill(text) }) };
  return fetch(stage.server.http + prefix + path, init);
}

async function check(response: Response, scene: Scene, { want }: RestCase): Promise<void> {
  const text = await response.text();
  expect(response.status, text).to.equal(want.status);
  for (const [name, value] of Object.entries(want.headers ?? {})) {
    expect(response.headers.get(name), name).to.equal(value);
  }
  if (want.text !== undefined) expect(text).to.equal(want.text);
  if (want.body === undefined && want.part === undefined) return;
  expect(response.headers.get("content-type")).to.match(/^application\/json/);
  const body = scene.normalise(JSON.parse(text) as JsonValue);
  if (want.body !== undefined) expect(body).to.deep.equal(want.body);
  if (want.part !== undefined) expectPart(body, want.part);
}

async function run(each: RestCase, prefix: string): Promise<void> {
  const stage = await openStage();
  const [rest] = stage.wires.all;
  if (rest === undefined) throw new Error("the stage has no wires");
  const scene = await createScene(stage, rest);
  await scene.prepare(each.given ?? []);
  await check(await send(stage, scene, each, prefix), scene, each);
}

describe("REST as it is documented", () => {
  for (const each of restCases()) {
    // Only the documented prefix stands for another path.
    const prefixes = /^[A-Z]+ \/v1\//.test(each.request) ? ["", "/api"] : [""];
    it(each.description, () => Promise.all(prefixes.map((prefix) => run(each, prefix))));
  }
});

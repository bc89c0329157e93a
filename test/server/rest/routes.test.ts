import { expect } from "chai";
import { createRestTranscoder } from "../../../src/server/rest/transcoder.ts";
import { serviceWithRules } from "./descriptors.ts";
import { echo, errorBody } from "./harness.ts";

describe("createRestTranscoder", () => {
  const build = (...args: Parameters<typeof serviceWithRules>) =>
    createRestTranscoder({ services: [serviceWithRules(...args)], dispatcher: echo, errorBody, maxBodyBytes: 1 });

  const BAD: readonly [string, Record<string, string>, string][] = [
    [
      "two RPCs on one route",
      { One: 'get: "/v1/{a}/x"', Two: 'get: "/v1/{b}/x"' },
      "rpc t.S.One and rpc t.S.Two both claim GET /v1/{b}/x",
    ],
    [
      "an RPC on the additional route of another",
      { One: 'get: "/x" additional_bindings {post: "/y"}', Two: 'post: "/y"' },
      "both claim POST /y",
    ],
    ["a template that does not parse", { One: 'get: "/v1/{a"' }, "path template `/v1/{a`"],
    [
      "a path variable that is no field",
      { One: 'get: "/v1/{x}"' },
      "path variable `x` is not a singular scalar field of t.M",
    ],
    ["a path variable that is a message", { One: 'get: "/v1/{c}"' }, "path variable `c`"],
    ["a path variable that is a list", { One: 'get: "/v1/{d}"' }, "path variable `d`"],
    ["a body that is no field", { One: 'post: "/v1" body: "x"' }, "unknown field `x`"],
    ["a response body that is no field", { One: 'get: "/v1" response_body: "x"' }, "unknown field `x`"],
    ["a rule without a path", { One: 'body: "*"' }, "has no path"],
  ];
  for (const [description, rules, error] of BAD) {
    it(`refuses ${description}.`, () => {
      expect(() => build(rules)).to.throw(error);
    });
  }

  it("refuses a rule on a method with a request stream.", () => {
    expect(() => build({ One: 'get: "/x"' }, { input: "stream M", output: "M" })).to.throw(
      "only unary and server-streaming",
    );
  });

  it("takes one path under several methods, nested variables, custom and repeated rules.", () => {
    const transcoder = build({
      One: 'get: "/v1/{c.a}" additional_bindings {get: "/v1/{c.a}"}',
      Two: 'custom: {kind: "LOCK" path: "/v1/{a}"}',
      Three: 'custom: {kind: "*" path: "/any"}',
    });
    expect(transcoder.routes().map(({ httpMethod, template }) => `${httpMethod} ${template}`)).to.deep.equal([
      "GET /v1/{c.a}",
      "LOCK /v1/{a}",
      ...["GET", "POST", "PUT", "PATCH", "DELETE"].map((method) => `${method} /any`),
    ]);
  });
});

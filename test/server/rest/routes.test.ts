import { create, createFileRegistry, type DescService, type MessageInitShape, setExtension } from "@bufbuild/protobuf";
import {
  type FieldDescriptorProto_Label,
  FieldDescriptorProto_Type,
  FileDescriptorProtoSchema,
  file_google_protobuf_duration,
  file_google_protobuf_struct,
  MethodOptionsSchema,
} from "@bufbuild/protobuf/wkt";
import { expect } from "chai";
import { http } from "../../../gen/google/api/annotations_pb.js";
import { HttpRuleSchema } from "../../../gen/google/api/http_pb.js";
import { RouteTable, routesOfServices } from "../../../src/server/rest/routes.ts";
import { createRestTranscoder } from "../../../src/server/rest/transcoder.ts";
import { SERVICES } from "../../conformance/methods.ts";
import { apiAliases } from "./harness.ts";

type Rule = MessageInitShape<typeof HttpRuleSchema>;
type Field = NonNullable<
  NonNullable<MessageInitShape<typeof FileDescriptorProtoSchema>["messageType"]>[number]["field"]
>[number];

const { STRING, BYTES, INT64, MESSAGE } = FieldDescriptorProto_Type;
const REPEATED = 3 satisfies FieldDescriptorProto_Label;

const get = (value: string): Rule => ({ pattern: { case: "get", value } });
const post = (value: string, body = "*"): Rule => ({ pattern: { case: "post", value }, body });

/** As the option comes with `response_body: "a"`, which the http.proto of the generated code does not know. */
function withResponseBody(rule: Rule): Rule {
  const made = create(HttpRuleSchema, rule);
  made.$unknown = [{ no: 12, wireType: 2, data: new Uint8Array([1, 97]) }];
  return made;
}

interface Shape {
  /** Fields of the message beside the strings `a` and `b`. */
  readonly fields?: readonly Field[];
  readonly clientStreaming?: boolean;
}

/** A service of methods with the rules given, from and to the same message. */
function serviceOf(rules: Readonly<Record<string, Rule>>, { fields = [], clientStreaming = false }: Shape = {}) {
  const strings = ["a", "b"].map((name, index): Field => ({ name, number: index + 1, type: STRING }));
  const method = Object.entries(rules).map(([name, rule]) => {
    const options = create(MethodOptionsSchema);
    setExtension(options, http, create(HttpRuleSchema, rule));
    return { name, inputType: ".t.M", outputType: ".t.M", options, clientStreaming };
  });
  const file = create(FileDescriptorProtoSchema, {
    name: "t.proto",
    package: "t",
    syntax: "proto3",
    dependency: ["google/protobuf/struct.proto", "google/protobuf/duration.proto"],
    messageType: [{ name: "M", field: [...strings, ...fields], oneofDecl: [{ name: "choice" }] }],
    service: [{ name: "S", method }],
  });
  const known = new Map([file_google_protobuf_struct, file_google_protobuf_duration].map((each) => [each.name, each]));
  const service = createFileRegistry(file, (name) => known.get(name.replace(/\.proto$/, ""))).getService("t.S");
  if (service === undefined) throw new Error("the service was not made");
  return service;
}

function build(services: readonly DescService[]) {
  const never = () => Promise.reject(new Error("nothing is called"));
  return createRestTranscoder({
    pipeline: {
      services: services.map((service) => ({ service, functions: {} })),
      maxDepth: 64,
      unary: never,
      serverStream: never,
      admit: never,
    },
    maxBodyBytes: 1,
    aliases: apiAliases,
  });
}

describe("createRestTranscoder", () => {
  it("serves the whole interface.", () => {
    expect(() => build(SERVICES)).not.to.throw();
  });

  const BAD: readonly [string, Record<string, Rule>, string][] = [
    [
      "two RPCs on one route",
      { One: get("/v1/{a}/x"), Two: get("/v1/{b}/x") },
      "rpc t.S.One and rpc t.S.Two both claim GET /v1/{b}/x",
    ],
    [
      "an RPC on the additional route of another",
      { One: { pattern: { case: "get", value: "/x" }, additionalBindings: [post("/y")] }, Two: post("/y") },
      "both claim POST /y",
    ],
    ["an RPC on the alias of another", { One: get("/v1/x"), Two: get("/api/v1/x") }, "both claim GET /api/v1/x"],
    ["two RPCs that take the rest of one path", { One: get("/x/{a=**}"), Two: get("/x/{b=**}") }, "both claim GET"],
    ["a path variable that is no field", { One: get("/v1/{x}") }, "names the unknown field `x`"],
    ["a body that is no field", { One: post("/v1", "x") }, "names the unknown field `x`"],
    ["a rule without a path", { One: { body: "*" } }, "has no path"],
    ["a custom method", { One: { pattern: { case: "custom", value: { kind: "LOCK", path: "/x" } } } }, "`custom`"],
    ["a response body of one field", { One: withResponseBody(get("/x")) }, "`response_body`"],
  ];
  for (const [description, rules, error] of BAD) {
    it(`refuses ${description}.`, () => {
      expect(() => build([serviceOf(rules)])).to.throw(error);
    });
  }

  for (const template of [
    "",
    "v1",
    "/",
    "/v1/",
    "/v1//x",
    "/v1/{}",
    "/v1/{a",
    "/v1/{a}b",
    "/v1/a b",
    "/v1/*",
    "/v1/{a=x/*}",
    "/v1/{a.b}",
    "/v1/x:",
    "/v1/x:y:z",
    "/v1/{a=**}/x",
    "/v1/{a=**}:x",
  ]) {
    it(`refuses the template \`${template}\`.`, () => {
      expect(() => build([serviceOf({ One: get(template) })])).to.throw(`\`${template}\` is malformed`);
    });
  }

  it("refuses a rule on a method with a request stream.", () => {
    const service = serviceOf({ One: post("/x") }, { clientStreaming: true });
    expect(() => build([service])).to.throw("only unary and server-streaming");
  });

  const FIELDS: readonly [string, Field, Rule, string][] = [
    ["a path variable that is a list", { type: STRING, label: REPEATED }, get("/v1/{c}"), "`c` is not a string"],
    ["a list of numbers in a query", { type: INT64, label: REPEATED }, get("/x"), "cannot be query parameters"],
    ["bytes in a request", { type: BYTES }, post("/x"), "no known JSON form"],
    ["a path variable of a oneof", { type: STRING, oneofIndex: 0 }, get("/v1/{c}"), "`c` is not a string"],
    ["a duration", { type: MESSAGE, typeName: ".google.protobuf.Duration" }, post("/x"), "no known JSON form"],
    [
      "a list of Structs",
      { type: MESSAGE, typeName: ".google.protobuf.Struct", label: REPEATED },
      post("/x"),
      "no known JSON form",
    ],
    ["64-bit integers held as text", { type: INT64, options: { jstype: 1 } }, post("/x"), "no known JSON form"],
  ];
  for (const [description, field, rule, error] of FIELDS) {
    it(`refuses ${description}, which no proto of ours has.`, () => {
      const service = serviceOf({ One: rule }, { fields: [{ name: "c", number: 3, ...field }] });
      expect(() => build([service])).to.throw(error);
    });
  }
});

describe("the routes", () => {
  const templates = ["/x/{a}", "/x/best", "/{a}/best/end", "/x/{a}/y", "/x/{a}:go", "/files/{a=**}", "/files/own"];
  const rules = Object.fromEntries(templates.map((template, index) => [`M${index}`, get(template)]));
  const table = new RouteTable(routesOfServices([serviceOf(rules)], () => []));

  for (const [path, template, captured] of [
    ["/x/b", "/x/{a}", "b"],
    ["/x/best", "/x/best", undefined],
    ["/x/best/end", "/{a}/best/end", "x"],
    ["/x/best/y", "/x/{a}/y", "best"],
    ["/x/b:go", "/x/{a}:go", "b"],
    ["/x/best:go", "/x/{a}:go", "best"],
    ["/x/b:stop", "/x/{a}", "b:stop"],
    ["/files/own", "/files/own", undefined],
    ["/files/own/c", "/files/{a=**}", "own/c"],
    ["/files/a%20b/c%2Fd", "/files/{a=**}", "a b/c/d"],
    ["/files/a%252Fb", "/files/{a=**}", "a%2Fb"],
    ["/files/%2e%2e/own", "/files/{a=**}", "../own"],
    ["/files/../x", "/files/{a=**}", "../x"],
    ["/files%2Fown", undefined, undefined],
    ["/x/b%2Fc", "/x/{a}", "b/c"],
    ["/x/b%252Fc", "/x/{a}", "b%2Fc"],
    ["/x/%2e%2e", "/x/{a}", ".."],
    ["/x/", undefined, undefined],
    ["/x/b/z", undefined, undefined],
  ] as const) {
    it(`lead \`${path}\` to ${template === undefined ? "nothing" : `\`${template}\``}.`, () => {
      const match = table.match("GET", path);
      expect([match?.route.template, match?.captured[0]]).to.deep.equal([template, captured]);
    });
  }
});

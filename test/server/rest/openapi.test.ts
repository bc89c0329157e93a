import { clone, create, setExtension } from "@bufbuild/protobuf";
import { FieldOptionsSchema, FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import {
  type FieldRules,
  FieldRulesSchema,
  field as fieldRules,
} from "@bufbuild/protovalidate/gen/buf/validate/validate_pb.js";
import { expect } from "chai";
import { openApiFromServices } from "../../../src/server/rest/openapi.ts";
import { type Library, library, libraryFrom } from "./descriptors.ts";
import { apiAliases } from "./harness.ts";

type Init = Parameters<typeof create<typeof FieldRulesSchema>>[1];

/** The library with `buf.validate` rules on some fields, by `Message.field`. */
function libraryWithRules(rules: Readonly<Record<string, Init>>): Library {
  const set = clone(FileDescriptorSetSchema, library().set);
  const file = set.file.find((each) => each.package === "resttest.v1");
  for (const [path, init] of Object.entries(rules)) {
    const [messageName, fieldName] = path.split(".");
    const field = file?.messageType
      .find(({ name }) => name === messageName)
      ?.field.find(({ name }) => name === fieldName);
    if (field === undefined) throw new Error(`there is no ${path}`);
    field.options ??= create(FieldOptionsSchema);
    setExtension(field.options, fieldRules, create(FieldRulesSchema, init) as FieldRules);
  }
  return libraryFrom(set);
}

interface Operation {
  readonly operationId: string;
  readonly parameters: readonly { readonly name: string; readonly in: string }[];
}

const OPTIONS = { title: "Library", version: "1.2.3", aliases: apiAliases };

function documentOf(source: Library) {
  // Through text, as a client gets it.
  return JSON.parse(JSON.stringify(openApiFromServices([source.service], OPTIONS)));
}

function refsIn(node: unknown): string[] {
  if (typeof node !== "object" || node === null) return [];
  return Object.entries(node).flatMap(([key, value]) => (key === "$ref" ? [String(value)] : refsIn(value)));
}

function resolveRef(root: unknown, ref: string): unknown {
  const steps = ref.replace("#/", "").split("/");
  return steps.reduce((node, step) => (node as Record<string, unknown> | undefined)?.[step], root);
}

describe("openApiFromServices", () => {
  const document = documentOf(library());

  it("names the version of OpenAPI, the interface and its services.", () => {
    expect(document.openapi).to.equal("3.1.0");
    expect(document.info).to.deep.equal({ title: "Library", version: "1.2.3" });
    expect(document.tags).to.deep.equal([
      { name: "LibraryService", description: "Lends books. It exists to exercise the transcoder." },
    ]);
  });

  it("resolves every reference.", () => {
    const refs = new Set(refsIn(document));
    expect(refs.size).to.be.greaterThan(5);
    for (const ref of refs) expect(resolveRef(document, ref), ref).to.be.an("object");
  });

  it("has every route with an id of its own and all its path parameters.", () => {
    const ids: string[] = [];
    for (const [path, item] of Object.entries<Record<string, Operation>>(document.paths)) {
      for (const operation of Object.values(item)) {
        ids.push(operation.operationId);
        const named = operation.parameters.filter((each) => each.in === "path").map((each) => `{${each.name}}`);
        expect(path.match(/\{[^}]+\}/g) ?? []).to.deep.equal(named);
      }
    }
    expect(ids).to.have.length(21);
    expect(new Set(ids).size).to.equal(ids.length);
    expect(document.paths["/api/v1/books/{book.book_id}"]).to.have.property("patch");
    expect(document.paths["/v1/books/{book_id}:archive"]).to.have.property("post");
    expect(document.paths).not.to.have.property("/api/api/watch/books");
  });

  it("describes responses with every field required and null where a field can be unset.", () => {
    const book = document.components.schemas["resttest.v1.Book"];
    expect(book.required).to.have.length(43);
    expect(book.description).to.equal("A book, with a field of every kind.");
    expect(book.properties.book_id).to.deep.equal({ type: "string", description: "Names the book." });
    expect(book.properties.subtitle).to.deep.equal({ type: ["string", "null"] });
    expect(book.properties.genre.anyOf).to.deep.include({ type: "null" });
    expect(book.properties.lamp).to.deep.equal({ type: "string", enum: ["off", "on"] });
    expect(book.properties.sequel.anyOf[0]).to.deep.equal({ $ref: "#/components/schemas/resttest.v1.Book" });
    expect(book.properties.sold.type).to.deep.equal(["integer", "string"]);
    expect(book.properties.published_at).to.deep.equal({ type: ["string", "null"], format: "date-time" });
    expect(book.properties.stock.additionalProperties.type).to.equal("integer");
  });

  it("describes requests as closed objects whose fields may be left out.", () => {
    const book = document.components.schemas["resttest.v1.Book-request"];
    expect(book.additionalProperties).to.equal(false);
    expect(book).not.to.have.property("required");
    const put = document.paths["/v1/books/{book_id}"].put.requestBody.content["application/json"].schema;
    expect(put.properties).to.have.property("title");
    expect(put.properties).not.to.have.property("book_id");
  });

  it("lists query parameters, nested ones once around.", () => {
    const names = document.paths["/v1/books"].get.parameters.map((each: { name: string }) => each.name);
    expect(names).to.include.members(["page_size", "genre", "filter.author", "by_filter.lent", "since", "lent"]);
    expect(names).not.to.include.members(["filter.nested.author", "labels", "chapters", "metadata"]);
  });

  it("describes streams in both their forms, and errors.", () => {
    const { responses } = document.paths["/api/watch/books"].get;
    expect(Object.keys(responses["200"].content)).to.deep.equal(["application/x-ndjson", "text/event-stream"]);
    expect(resolveRef(document, responses.default.$ref)).to.have.nested.property("content.application/json.schema");
  });

  it("says the rules that JSON Schema can say.", () => {
    const title = { type: { case: "string" as const, value: { minLen: 1n, maxLen: 9n, pattern: "^a" } } };
    const ruled = documentOf(
      libraryWithRules({
        "Book.title": { required: true, ...title },
        "Book.subtitle": { type: { case: "string", value: { wellKnown: { case: "uuid", value: true } } } },
        "Book.note": { type: { case: "string", value: { in: ["x", "y"] } } },
        "Book.pages": {
          type: {
            case: "int32",
            value: { greaterThan: { case: "gte", value: 1 }, lessThan: { case: "lt", value: 500 } },
          },
        },
        "Book.tags": { type: { case: "repeated", value: { minItems: 1n, maxItems: 3n, unique: true, items: title } } },
        "Book.stock": { type: { case: "map", value: { maxPairs: 4n } } },
        "ListBooksRequest.page_size": {
          required: true,
          type: { case: "int32", value: { lessThan: { case: "lte", value: 500 } } },
        },
      }),
    );
    const { properties, required } = ruled.components.schemas["resttest.v1.Book-request"];
    expect(required).to.deep.equal(["title"]);
    expect(properties.title).to.include({ minLength: 1, maxLength: 9, pattern: "^a" });
    expect(properties.subtitle).to.deep.equal({ type: "string", format: "uuid" });
    expect(properties.note).to.deep.equal({ type: "string", enum: ["x", "y"] });
    expect(properties.pages).to.include({ minimum: 1, exclusiveMaximum: 500 });
    expect(properties.tags).to.deep.equal({
      type: "array",
      minItems: 1,
      maxItems: 3,
      uniqueItems: true,
      items: { type: "string", minLength: 1, maxLength: 9, pattern: "^a" },
    });
    expect(properties.stock.maxProperties).to.equal(4);
    const size = ruled.paths["/v1/books"].get.parameters.find((each: { name: string }) => each.name === "page_size");
    expect(size).to.deep.include({ required: true, schema: { type: "integer", format: "int32", maximum: 500 } });
  });

  it("leaves descriptions out where descriptors carry no comments.", () => {
    const set = clone(FileDescriptorSetSchema, library().set);
    for (const file of set.file) delete file.sourceCodeInfo;
    const { service } = libraryFrom(set);
    const [tag] = openApiFromServices([service], OPTIONS).tags;
    expect(tag).to.deep.equal({ name: "LibraryService" });
  });
});

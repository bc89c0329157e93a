/**
 * Plugin of `buf generate` that prints the comments of the interface into `comments.js`, so that the running service can describe
 * itself in their words. The descriptors that protoc-gen-es prints have none.
 */
import type { AnyDesc, DescEnum, DescExtension, DescFile, DescMessage, DescService } from "@bufbuild/protobuf";
import { createEcmaScriptPlugin, getComments, runNodeJs, type Schema } from "@bufbuild/protoplugin";

const PACKAGE = "agentcontrol.v1";

type Commented = Exclude<AnyDesc, DescFile>;

/** Returns a type with its fields, values or methods. */
function withMembers(type: DescEnum | DescExtension | DescMessage | DescService): readonly Commented[] {
  if (type.kind === "message") return [type, ...type.fields];
  if (type.kind === "enum") return [type, ...type.values];
  return type.kind === "service" ? [type, ...type.methods] : [type];
}

const keyOf = (desc: Commented): string =>
  "typeName" in desc ? desc.typeName : `${desc.parent.typeName}.${desc.name}`;

/** Joins the lines of each paragraph. */
function textOf(desc: Commented): string {
  const lines = (getComments(desc).leading ?? "").split("\n").map((line) => line.trim());
  return lines
    .join("\n")
    .trim()
    .split(/\n{2,}/)
    .map((paragraph) => paragraph.replaceAll("\n", " "))
    .join("\n\n");
}

function printComments(schema: Schema, target: "js" | "dts"): void {
  const file = schema.generateFile(`agentcontrol/v1/comments.${target === "js" ? "js" : "d.ts"}`);
  if (target === "dts") {
    file.print(
      "/** Comments of services, methods, messages, fields, enums and values, by full name; paragraphs apart. */",
    );
    file.print("export declare const comments: Readonly<Record<string, string>>;");
    return;
  }
  file.print("export const comments = {");
  for (const desc of schema.files.filter(({ proto }) => proto.package === PACKAGE)) {
    for (const each of [...schema.typesInFile(desc)].flatMap(withMembers)) {
      const text = textOf(each);
      if (text !== "") file.print("  ", JSON.stringify(keyOf(each)), ": ", JSON.stringify(text), ",");
    }
  }
  file.print("};");
}

runNodeJs(
  createEcmaScriptPlugin({
    name: "protoc-gen-comments",
    version: "v1",
    generateTs: () => {
      throw new Error("protoc-gen-comments prints js and dts; set `target=js+dts`");
    },
    generateJs: (schema) => printComments(schema, "js"),
    generateDts: (schema) => printComments(schema, "dts"),
  }),
);

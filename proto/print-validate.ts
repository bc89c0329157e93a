/**
 * Prints `buf/validate/validate.proto` from the descriptor that @bufbuild/protovalidate carries, so that `buf` can
 * resolve the import without a schema registry. The output is an intermediate file and is never committed.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { type DescEnum, type DescExtension, type DescField, type DescMessage, ScalarType } from "@bufbuild/protobuf";
import type { FileOptions } from "@bufbuild/protobuf/wkt";
import { file_buf_validate_validate as file } from "@bufbuild/protovalidate/gen/buf/validate/validate_pb.js";

const OUTPUT = ".generated/proto/buf/validate/validate.proto";

const scalarName = (scalar: ScalarType): string => ScalarType[scalar].toLowerCase();

function typeOf(field: DescField | DescExtension): string {
  if (field.fieldKind === "map") {
    return `map<${scalarName(field.mapKey)}, ${field.message?.typeName ?? field.enum?.typeName ?? scalarName(field.scalar as ScalarType)}>`;
  }
  const name = field.message ?? field.enum;
  return name === undefined ? scalarName(field.scalar as ScalarType) : `.${name.typeName}`;
}

function printField(field: DescField | DescExtension): string {
  const repeated = field.fieldKind === "list" ? "repeated " : "";
  const inOneof = field.kind === "field" && field.oneof !== undefined;
  const label = repeated || inOneof || field.fieldKind === "map" ? repeated : "optional ";
  return `${label}${typeOf(field)} ${field.name} = ${field.number};`;
}

function printMessage(message: DescMessage): string {
  const body = [
    ...message.nestedEnums.map(printEnum),
    ...message.nestedMessages.map(printMessage),
    ...message.fields.filter((field) => field.oneof === undefined).map(printField),
    ...message.oneofs.map((oneof) => `oneof ${oneof.name} { ${oneof.fields.map(printField).join(" ")} }`),
    ...message.proto.extensionRange.map(
      (range) => `extensions ${range.start} to ${range.end === 536870912 ? "max" : (range.end ?? 1) - 1};`,
    ),
  ];
  return `message ${message.name} {\n${body.join("\n")}\n}`;
}

function printEnum(desc: DescEnum): string {
  return `enum ${desc.name} { ${desc.values.map((value) => `${value.name} = ${value.number};`).join(" ")} }`;
}

/** Prints the options that name the package in Go and Java, so that a copy gives the types of the official one. */
function printOptions(options: FileOptions | undefined): string[] {
  const { goPackage, javaMultipleFiles, javaOuterClassname, javaPackage } = options ?? {};
  return Object.entries({
    go_package: goPackage,
    java_multiple_files: javaMultipleFiles,
    java_outer_classname: javaOuterClassname,
    java_package: javaPackage,
  }).map(([name, value]) => `option ${name} = ${JSON.stringify(value)};`);
}

/** Returns the text of `buf/validate/validate.proto`. */
export function printValidate(): string {
  const parts = [
    'syntax = "proto2";',
    "package buf.validate;",
    ...file.dependencies.map((dependency) => `import "${dependency.name}.proto";`),
    ...printOptions(file.proto.options),
    ...file.enums.map(printEnum),
    ...file.messages.map(printMessage),
    ...file.extensions.map((extension) => `extend .${extension.extendee.typeName} { ${printField(extension)} }`),
  ];
  return `${parts.join("\n")}\n`;
}

if (import.meta.main) {
  mkdirSync(dirname(OUTPUT), { recursive: true });
  writeFileSync(OUTPUT, printValidate());
}

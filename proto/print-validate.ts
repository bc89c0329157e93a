/**
 * Prints `buf/validate/validate.proto` from the descriptor that @bufbuild/protovalidate carries, so that `buf` can
 * resolve the import without a schema registry. The output is an intermediate file and is never committed.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { type DescEnum, type DescExtension, type DescField, type DescMessage, ScalarType } from "@bufbuild/protobuf";
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

const text = [
  'syntax = "proto2";',
  "package buf.validate;",
  ...file.dependencies.map((dependency) => `import "${dependency.name}.proto";`),
  ...file.enums.map(printEnum),
  ...file.messages.map(printMessage),
  ...file.extensions.map((extension) => `extend .${extension.extendee.typeName} { ${printField(extension)} }`),
].join("\n");

mkdirSync(dirname(OUTPUT), { recursive: true });
writeFileSync(OUTPUT, `${text}\n`);

import type { AnyDesc, DescFile } from "@bufbuild/protobuf";

type Commented = Extract<AnyDesc, { readonly kind: "message" | "enum" | "field" | "service" | "rpc" }>;

/** Reads the comments of proto elements from one or more files; remembers each file's index. */
export interface CommentReader {
  /** The comment before an element, as plain text; `""` when the descriptor has none, as that of generated code. */
  commentOf(desc: Commented): string;
}

// Field numbers in google/protobuf/descriptor.proto, which spell the place of an element in its file.
const FILE_MESSAGE = 4;
const FILE_ENUM = 5;
const FILE_SERVICE = 6;
const MESSAGE_FIELD = 2;
const MESSAGE_MESSAGE = 3;
const MESSAGE_ENUM = 4;
const SERVICE_METHOD = 2;

/** Creates a comment reader. */
export function createCommentReader(): CommentReader {
  const indexes = new Map<DescFile, ReadonlyMap<string, string>>();
  return {
    commentOf(desc) {
      const file = fileOf(desc);
      const index = indexes.get(file) ?? commentsByPlace(file);
      indexes.set(file, index);
      return index.get(placeOf(desc).join(".")) ?? "";
    },
  };
}

function fileOf(desc: Commented): DescFile {
  return desc.kind === "field" || desc.kind === "rpc" ? desc.parent.file : desc.file;
}

function commentsByPlace(file: DescFile): ReadonlyMap<string, string> {
  const locations = file.proto.sourceCodeInfo?.location ?? [];
  return new Map(locations.map((location) => [location.path.join("."), plainText(location.leadingComments)]));
}

function plainText(comment: string): string {
  const lines = comment.split("\n").map((line) => line.trim());
  return lines.join("\n").trim();
}

function placeOf(desc: Commented): number[] {
  switch (desc.kind) {
    case "service":
      return [FILE_SERVICE, desc.file.services.indexOf(desc)];
    case "rpc":
      return [...placeOf(desc.parent), SERVICE_METHOD, desc.parent.methods.indexOf(desc)];
    case "field":
      return [...placeOf(desc.parent), MESSAGE_FIELD, desc.parent.fields.indexOf(desc)];
    case "message":
      if (desc.parent === undefined) return [FILE_MESSAGE, desc.file.proto.messageType.indexOf(desc.proto)];
      return [...placeOf(desc.parent), MESSAGE_MESSAGE, desc.parent.proto.nestedType.indexOf(desc.proto)];
    case "enum":
      if (desc.parent === undefined) return [FILE_ENUM, desc.file.proto.enumType.indexOf(desc.proto)];
      return [...placeOf(desc.parent), MESSAGE_ENUM, desc.parent.proto.enumType.indexOf(desc.proto)];
  }
}

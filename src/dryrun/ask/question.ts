import { create, toJsonString } from "@bufbuild/protobuf";
import { type AskedQuestion, AskRequestSchema } from "../../../gen/agentcontrol/v1/dry_run_service_pb.js";
import { ControlPlaneError, ErrorReason } from "../../errors.ts";
import { plain } from "./answer.ts";

/** A question in fields: the oneof `form` of the messages `AskRequest` and `AskedQuestion`. */
export type Asked = Exclude<AskedQuestion["form"], { readonly case: undefined }>;

/** The kinds of question, by the local names of the oneof's members. */
export type Form = Asked["case"];

/** Fields of `AskRequest` that hold a question in fields. */
export const FORM_FIELDS: readonly string[] = AskRequestSchema.oneofs.flatMap(({ fields }) =>
  fields.map(({ name }) => name),
);

/** Creates an error about a question as text, which lists the fields that it can be asked by. */
export function textError(
  reason: ErrorReason,
  why: string,
  metadata: Readonly<Record<string, string>> = {},
): ControlPlaneError {
  const description = `${why}; ask by one of the fields ${FORM_FIELDS.map((name) => `\`${name}\``).join(", ")}`;
  return new ControlPlaneError(
    reason,
    `\`question\` ${description}`,
    { field: "question", forms: FORM_FIELDS.join(", "), ...metadata },
    { violations: [{ field: "question", description, reason: ErrorReason[reason] as string }] },
  );
}

/** Moves violations of a question in fields to the text from which a model made it. Other errors stay as they are. */
export function aboutText(asked: Asked, error: unknown): unknown {
  if (!(error instanceof ControlPlaneError) || error.violations.length === 0) return error;
  const understood = plain(toJsonString(AskRequestSchema, create(AskRequestSchema, { form: asked }), PROTO_NAMES));
  const description = `was understood as \`${understood}\`: ${error.message}`;
  const violations = [{ field: "question", description, reason: ErrorReason[error.reason] as string }];
  const metadata = { ...error.metadata, field: "question", understood };
  return new ControlPlaneError(error.reason, `\`question\` ${description}`, metadata, { cause: error, violations });
}

const PROTO_NAMES = { useProtoFieldName: true } as const;

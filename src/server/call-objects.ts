import type { DescField, DescMessage, Message } from "@bufbuild/protobuf";
import { type ReflectMessage, reflect } from "@bufbuild/protobuf/reflect";

/** Objects of a call, by kind: ids, or names of what has no id. A paste has several tools. */
export type CallObjects = Readonly<Record<string, string | readonly string[]>>;

/** Form of the ids that the service gives, which hold nothing that a caller wrote. */
const OWN_ID = /^[a-z]{2,3}_[a-z2-7]{26}$/;
/** Form of an RFC 7638 thumbprint. */
const THUMBPRINT = /^[A-Za-z0-9_-]{43}$/;
/** Identifiers. Tools may also be called by texts with spaces and `@`, which the log leaves out. */
const NAME = /^[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,127}$/;
/** Digits as in a number of a card, an account or a telephone. */
const LONG_NUMBER = /\d(?:[-_.:/]?\d){6}/;
/** Maximum number of objects of one kind. */
const MAX_OF_KIND = 20;

const isName = (text: string): boolean => NAME.test(text) && !LONG_NUMBER.test(text);
const isOwnId = (text: string): boolean => OWN_ID.test(text);
const isThumbprint = (text: string): boolean => THUMBPRINT.test(text);

/** Field that identifies an object in a message. */
interface Identity {
  /** Kind under which the log names the object. */
  readonly kind: string;
  readonly isLogged: (text: string) => boolean;
}

const MCP_SERVER: Identity = { kind: "mcp_server", isLogged: isName };
const LIST: Identity = { kind: "list", isLogged: isName };
const APPROVER_GROUP: Identity = { kind: "approver_group", isLogged: isName };

/** Fields that identify an object by something else than an `…_id` that the service gave, by message. */
const IDENTITIES: Readonly<Record<string, Readonly<Record<string, Identity>>>> = {
  "agentcontrol.v1.Tool": { name: { kind: "tool", isLogged: isName } },
  "agentcontrol.v1.Pack": { name: { kind: "pack", isLogged: isName } },
  "agentcontrol.v1.PutListRequest": { name: LIST },
  "agentcontrol.v1.DeleteListRequest": { name: LIST },
  "agentcontrol.v1.AddListValuesRequest": { name: LIST },
  "agentcontrol.v1.RemoveListValuesRequest": { name: LIST },
  "agentcontrol.v1.PutApproverGroupRequest": { name: APPROVER_GROUP },
  "agentcontrol.v1.DeleteApproverGroupRequest": { name: APPROVER_GROUP },
  "agentcontrol.v1.McpServer": { name: MCP_SERVER },
  "agentcontrol.v1.RefreshMcpServerRequest": { name: MCP_SERVER },
  "agentcontrol.v1.AcceptMcpToolRequest": { name: MCP_SERVER, tool_name: { kind: "tool", isLogged: isName } },
  "agentcontrol.v1.AcceptMcpDefinitionRequest": { name: MCP_SERVER },
  "agentcontrol.v1.Workspace": { workspace_id: { kind: "workspace_id", isLogged: isName } },
  "agentcontrol.v1.SigningKey": { key_id: { kind: "key_id", isLogged: isThumbprint } },
  "agentcontrol.v1.RedactionWebhook": { id: { kind: "webhook_id", isLogged: isOwnId } },
  "agentcontrol.v1.PersonalValue": { id: { kind: "value_id", isLogged: isOwnId } },
};

/** Returns the ids that the service gave, of a message and of the messages in it, by the names of their fields. */
export function objectIdsOf(schema: DescMessage, message: Message): CallObjects {
  return objectsOf(schema, message, 1, (_message, { name }) =>
    name.endsWith("_id") ? { kind: name, isLogged: isOwnId } : undefined,
  );
}

/**
 * Returns the other objects of a message. MUST be called for a call that has succeeded: the service has checked these names and knows
 * them, so none is a free text of the caller.
 */
export function objectNamesOf(schema: DescMessage, message: Message): CallObjects {
  return objectsOf(schema, message, 2, ({ typeName }, { name }) => IDENTITIES[typeName]?.[name]);
}

function objectsOf(
  schema: DescMessage,
  message: Message,
  maxDepth: number,
  identityOf: (message: DescMessage, field: DescField) => Identity | undefined,
): CallObjects {
  const objects: Record<string, string | readonly string[]> = {};
  eachText(schema, message, maxDepth, (desc, field, text) => {
    const identity = identityOf(desc, field);
    if (identity === undefined || !identity.isLogged(text)) return;
    const known = [objects[identity.kind] ?? []].flat();
    if (known.includes(text) || known.length === MAX_OF_KIND) return;
    objects[identity.kind] = known.length === 0 ? text : [...known, text];
  });
  return objects;
}

/** Visits the texts of a message and of the messages in it, `maxDepth` deep; lists of messages count like messages. */
function eachText(
  schema: DescMessage,
  message: Message,
  maxDepth: number,
  visit: (message: DescMessage, field: DescField, text: string) => void,
): void {
  const reflected = reflect(schema, message);
  for (const field of schema.fields) {
    if (!reflected.isSet(field)) continue;
    if (field.fieldKind === "scalar") {
      const text = reflected.get(field);
      if (typeof text === "string") visit(schema, field, text);
    } else if (maxDepth > 0 && field.fieldKind === "message") {
      eachText(field.message, reflected.get(field).message, maxDepth - 1, visit);
    } else if (maxDepth > 0 && field.fieldKind === "list" && field.listKind === "message") {
      for (const each of reflected.get(field))
        eachText(field.message, (each as ReflectMessage).message, maxDepth - 1, visit);
    }
  }
}

import { fromJson, type MessageInitShape } from "@bufbuild/protobuf";
import { ListValueSchema } from "@bufbuild/protobuf/wkt";
import {
  type McpServer,
  McpServerService,
  type UpdateMcpServerRequestSchema,
} from "../../../../gen/agentcontrol/v1/mcp_server_service_pb.js";
import { ChangeDialog } from "../../kit/change-dialog.tsx";
import { TextField } from "../../kit/form.tsx";
import type { FormValues } from "../../kit/form-values.ts";
import { LimitFields } from "./limit-fields.tsx";

const { getMcpServer, listMcpServers, updateMcpServer } = McpServerService.method;

type Request = MessageInitShape<typeof UpdateMcpServerRequestSchema>;

const LISTS = ["passMethods", "passMeta", "scrub"] as const;
const CONTROLS = { passMethods: "pass_methods", passMeta: "pass_meta", scrub: "scrub" } as const;

/** Returns the changed settings alone, so that nothing else is overwritten. */
function changesOf(server: McpServer, values: FormValues): Request {
  const changes: Request = { name: server.name };
  const url = values.optional("url");
  const drift = values.text("drift");
  const idleSeconds = values.integer("idle_seconds");
  const authorization = values.text("headers");
  for (const list of LISTS) {
    const lines = values.lines(CONTROLS[list]);
    if (lines.join("\n") !== server[list].join("\n")) changes[list] = fromJson(ListValueSchema, lines);
  }
  if (url !== undefined && url !== server.url) changes.url = url;
  if (drift !== server.drift) changes.drift = drift;
  if (idleSeconds !== undefined && idleSeconds !== server.idleSeconds) changes.idleSeconds = idleSeconds;
  if (authorization !== "") changes.headers = [{ name: "Authorization", value: authorization }];
  return changes;
}

/** Dialog that changes a server's settings. */
export function EditServer({ server, onClose }: { readonly server: McpServer; readonly onClose: () => void }) {
  return (
    <ChangeDialog
      title={`Change MCP server ${server.name}`}
      submit="Save"
      change={(call, values) => call(updateMcpServer, changesOf(server, values))}
      refreshes={[getMcpServer, listMcpServers]}
      onClose={onClose}
    >
      {server.url === undefined ? null : (
        <>
          <TextField name="url" label="URL" hint="Its endpoint for Streamable HTTP." defaultValue={server.url} />
          <TextField
            name="headers"
            label="Authorization"
            hint="A new value of this header; empty leaves it as it is."
            isSecret
          />
        </>
      )}
      <LimitFields server={server} />
    </ChangeDialog>
  );
}

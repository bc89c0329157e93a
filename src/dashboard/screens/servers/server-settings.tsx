import { fromJson, type MessageInitShape } from "@bufbuild/protobuf";
import { ListValueSchema } from "@bufbuild/protobuf/wkt";
import { useState } from "react";
import {
  type McpServer,
  McpServerMode,
  McpServerService,
  type UpdateMcpServerRequestSchema,
  type UpdateMcpServerResponse,
} from "../../../../gen/agentcontrol/v1/mcp_server_service_pb.js";
import { ChangeDialog } from "../../kit/change-dialog.tsx";
import { TextField } from "../../kit/form.tsx";
import type { FormValues } from "../../kit/form-values.ts";
import { LimitFields } from "./limit-fields.tsx";

const { getMcpServer, listMcpServers, listMcpDefinitions, updateMcpServer } = McpServerService.method;

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

/** Tests whether a URL has another origin than a server. */
function hasOtherOrigin(server: McpServer, url: string): boolean {
  if (server.url === undefined || !URL.canParse(url)) return false;
  return new URL(url).origin !== new URL(server.url).origin;
}

/** Says what a URL of another origin takes away. */
function OriginWarning({ server: { headerNames, mode } }: { readonly server: McpServer }) {
  const dropped =
    headerNames.length === 0
      ? ""
      : `Its stored headers (${headerNames.join(", ")}) are dropped; enter them again if it needs them. `;
  const becomes = mode === McpServerMode.OPEN ? ", and its mode becomes quarantine" : "";
  return (
    <p className="fault-text" role="status" data-origin>
      {`This URL has another origin. ${dropped}Its definitions wait to be accepted again${becomes}.`}
    </p>
  );
}

/** Says what was saved, and what a new origin took away. */
function savedText({ droppedHeaders, quarantined }: UpdateMcpServerResponse): string {
  const dropped = droppedHeaders.length === 0 ? "" : ` Dropped headers: ${droppedHeaders.join(", ")}.`;
  return `Saved.${dropped}${quarantined === 0 ? "" : ` ${quarantined} definitions wait to be accepted again.`}`;
}

/** Dialog that changes a server's settings. */
export function EditServer({ server, onClose }: { readonly server: McpServer; readonly onClose: () => void }) {
  const [url, setUrl] = useState(server.url ?? "");
  return (
    <ChangeDialog
      title={`Change MCP server ${server.name}`}
      submit="Save"
      change={(call, values) => call(updateMcpServer, changesOf(server, values))}
      refreshes={[getMcpServer, listMcpServers, listMcpDefinitions]}
      done={savedText}
      onClose={onClose}
    >
      {server.url === undefined ? null : (
        <>
          <TextField
            name="url"
            label="URL"
            hint="Its endpoint for Streamable HTTP."
            defaultValue={server.url}
            onChange={setUrl}
          />
          {hasOtherOrigin(server, url.trim()) ? <OriginWarning server={server} /> : null}
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

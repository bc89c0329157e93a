import { useQuery } from "@connectrpc/connect-query";
import { keepPreviousData } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { type Agent, AgentOrder, AgentService, AgentStatus } from "../../../gen/agentcontrol/v1/agent_service_pb.js";
import { MandateService, MandateStatus } from "../../../gen/agentcontrol/v1/mandate_service_pb.js";
import { McpServerService } from "../../../gen/agentcontrol/v1/mcp_server_service_pb.js";
import { ToolService } from "../../../gen/agentcontrol/v1/tool_service_pb.js";
import { shownText } from "../kit/shown.tsx";
import { useMayChange, useSession } from "../session.ts";
import { type Finding, findingById, matching, screenFindings } from "./findings.ts";
import { useCommands } from "./use-commands.ts";

/** Milliseconds after the last key press at which the service is asked. */
const TYPED_MS = 150;
/** Names that are read, of which those that begin with the text come first. */
const MAX_NAMES = 50;
const MAX_QUERY = 200;
const MAX_OF_A_KIND = 6;
const REVOKE = /^revoke(?:\s+|$)/i;

/** Returns a text once it has stayed the same for a moment. */
function useSettled(text: string): string {
  const [settled, setSettled] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(text), TYPED_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return settled;
}

const agentFinding = ({ agentId, name }: Agent): Finding => ({
  id: agentId,
  kind: "Agents",
  icon: "agents",
  title: name,
  detail: agentId,
  act: `/agents/${agentId}`,
});

const revokeFinding = ({ agentId, name }: Agent): Finding => ({
  id: `revoke-${agentId}`,
  kind: "Commands",
  icon: "action",
  title: `Revoke ${name} …`,
  act: `/agents/${agentId}?revoke`,
});

/** Findings of a text. */
export interface Found {
  readonly findings: readonly Finding[];
  /** True while the service is still asked. */
  readonly isPending: boolean;
  /** Errors of lists that could not be read. */
  readonly errors: readonly unknown[];
}

/** Finds screens, commands, agents, mandates, tools and MCP servers by a text. An empty text finds screens and commands. */
export function useFindings(text: string): Found {
  const { role } = useSession().session;
  const mayChange = useMayChange();
  const commands = useCommands();
  const isRevoking = REVOKE.test(text);
  const name = text.replace(REVOKE, "").trim().slice(0, MAX_QUERY);
  const settled = useSettled(name);
  const byId = findingById(text);
  const enabled = name !== "" && byId === undefined;
  const agents = useQuery(
    AgentService.method.listAgents,
    { q: settled, orderBy: AgentOrder.NAME, pageSize: MAX_OF_A_KIND * 2 },
    { enabled: (enabled || isRevoking) && settled === name, placeholderData: keepPreviousData },
  );
  const searched = { search: settled, pageSize: MAX_NAMES };
  const asked = { enabled: enabled && !isRevoking && settled === name, placeholderData: keepPreviousData };
  const mandates = useQuery(MandateService.method.listMandates, { ...searched, status: MandateStatus.ACTIVE }, asked);
  const tools = useQuery(ToolService.method.listTools, searched, asked);
  const servers = useQuery(McpServerService.method.listMcpServers, searched, asked);
  if (byId !== undefined) return { findings: [byId], isPending: false, errors: [] };

  const isNamed = ({ name: each }: { readonly name: string }): boolean =>
    each.toLowerCase().startsWith(name.toLowerCase());
  const named = (agents.data?.agents ?? []).filter(isNamed);
  const revocable = mayChange ? named.filter(({ status }) => status !== AgentStatus.REVOKED) : [];
  const lists = isRevoking ? [agents] : [agents, mandates, tools, servers];
  const isPending = name === settled ? lists.some(({ isFetching }) => isFetching) : true;
  const errors = lists.flatMap(({ error }) => (error === null ? [] : [error]));
  if (isRevoking) {
    return { findings: revocable.slice(0, MAX_OF_A_KIND).map(revokeFinding), isPending, errors };
  }
  const own = [...matching(commands, text), ...matching(screenFindings(role), text)];
  if (name === "") return { findings: own, isPending: false, errors: [] };
  const found = [
    named.map(agentFinding),
    matching(
      (mandates.data?.mandates ?? []).map(({ mandateId, name: title }) => ({
        id: mandateId,
        kind: "Mandates",
        icon: "mandates",
        title,
        act: `/mandates/${mandateId}`,
      })),
      name,
    ),
    matching(
      (tools.data?.tools ?? []).map(({ name: title, description }) => ({
        id: `tool-${title}`,
        kind: "Tools",
        icon: "tools",
        title,
        detail: shownText(description, 80),
        act: `/tools/${encodeURIComponent(title)}`,
      })),
      name,
    ),
    matching(
      (servers.data?.servers ?? []).map(({ name: title }) => ({
        id: `server-${title}`,
        kind: "MCP servers",
        icon: "servers",
        title,
        act: `/servers/${encodeURIComponent(title)}`,
      })),
      name,
    ),
  ];
  return { findings: [...own, ...found.flatMap((each) => each.slice(0, MAX_OF_A_KIND))], isPending, errors };
}

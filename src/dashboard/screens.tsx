import { type ComponentType, lazy } from "react";
import type { RoleWord } from "./session.ts";

/** Properties of every screen: the id in its address, if its path has one. */
export interface ScreenProps {
  readonly id: string | undefined;
}

/** A screen and its address. */
export interface ScreenRoute {
  readonly path: string;
  readonly screen: ComponentType<ScreenProps>;
}

/** An entry of the navigation. */
export interface NavEntry {
  readonly name: string;
  readonly title: string;
  readonly group: "watch" | "govern" | "administer";
  /** Roles that see the entry; absent for all roles. */
  readonly roles?: readonly RoleWord[];
}

/** Navigation entries, in order. */
export const NAVIGATION: readonly NavEntry[] = [
  { name: "overview", title: "Overview", group: "watch" },
  { name: "escalations", title: "Escalations", group: "watch" },
  { name: "decisions", title: "Decisions", group: "watch" },
  { name: "limits", title: "Limits", group: "watch" },
  { name: "agents", title: "Agents", group: "govern" },
  { name: "tools", title: "Tools", group: "govern" },
  { name: "servers", title: "MCP servers", group: "govern" },
  { name: "mandates", title: "Mandates", group: "govern" },
  { name: "vault", title: "Vault", group: "govern" },
  { name: "webhooks", title: "Webhooks", group: "administer" },
  { name: "keys", title: "Keys", group: "administer", roles: ["admin"] },
  { name: "workspaces", title: "Workspaces", group: "administer", roles: ["admin"] },
];

const OverviewScreen = lazy(() =>
  import("./screens/overview/overview.tsx").then(({ Overview }) => ({ default: Overview })),
);
const AgentsScreen = lazy(() => import("./screens/agents/agents.tsx").then(({ Agents }) => ({ default: Agents })));
const AgentScreen = lazy(() => import("./screens/agents/agent.tsx").then(({ Agent }) => ({ default: Agent })));

const EscalationsScreen = lazy(() =>
  import("./screens/escalations/escalations.tsx").then(({ Escalations }) => ({ default: Escalations })),
);
const ToolsScreen = lazy(() => import("./screens/tools/tools.tsx").then(({ Tools }) => ({ default: Tools })));
const ServersScreen = lazy(() => import("./screens/servers/servers.tsx").then(({ Servers }) => ({ default: Servers })));
const MandatesScreen = lazy(() =>
  import("./screens/mandates/mandates.tsx").then(({ Mandates }) => ({ default: Mandates })),
);
const LimitsScreen = lazy(() => import("./screens/limits/limits.tsx").then(({ Limits }) => ({ default: Limits })));
const WebhooksScreen = lazy(() =>
  import("./screens/webhooks/webhooks.tsx").then(({ Webhooks }) => ({ default: Webhooks })),
);

const DecisionsScreen = lazy(() =>
  import("./screens/decisions/decisions.tsx").then(({ Decisions }) => ({ default: Decisions })),
);

const DecisionDetail = lazy(() =>
  import("./screens/decision/decision.tsx").then(({ DecisionScreen }) => ({ default: DecisionScreen })),
);
const VaultScreen = lazy(() => import("./screens/vault/vault.tsx").then(({ Vault }) => ({ default: Vault })));
const KeysScreen = lazy(() => import("./screens/keys/keys.tsx").then(({ Keys }) => ({ default: Keys })));
const WorkspacesScreen = lazy(() =>
  import("./screens/workspaces/workspaces.tsx").then(({ Workspaces }) => ({ default: Workspaces })),
);

/** All screens. Each loads on first use. */
export const SCREENS: readonly ScreenRoute[] = [
  { path: "/overview", screen: OverviewScreen },
  { path: "/decisions", screen: DecisionsScreen },
  { path: "/escalations/:id", screen: EscalationsScreen },
  { path: "/escalations", screen: EscalationsScreen },
  { path: "/decisions/:id", screen: DecisionDetail },
  { path: "/vault", screen: VaultScreen },
  { path: "/tools/:id", screen: ToolsScreen },
  { path: "/tools", screen: ToolsScreen },
  { path: "/servers/:id", screen: ServersScreen },
  { path: "/servers", screen: ServersScreen },
  { path: "/mandates/:id", screen: MandatesScreen },
  { path: "/mandates", screen: MandatesScreen },
  { path: "/limits", screen: LimitsScreen },
  { path: "/webhooks/:id", screen: WebhooksScreen },
  { path: "/webhooks", screen: WebhooksScreen },
  { path: "/agents", screen: AgentsScreen },
  { path: "/agents/:id", screen: AgentScreen },
  { path: "/keys", screen: KeysScreen },
  { path: "/workspaces", screen: WorkspacesScreen },
];

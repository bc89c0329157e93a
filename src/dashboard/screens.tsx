import { type ComponentType, lazy } from "react";
import type { IconName } from "./kit/icon.tsx";
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
  readonly icon: IconName;
  /** Key that opens it after `g`. */
  readonly key: string;
  /** True for a page of the entry above it. */
  readonly isSub?: boolean;
  /** Roles that see the entry; absent for all roles. */
  readonly roles?: readonly RoleWord[];
}

/** Navigation entries, in order. */
export const NAVIGATION: readonly NavEntry[] = [
  { name: "overview", title: "Overview", group: "watch", icon: "overview", key: "o" },
  { name: "escalations", title: "Escalations", group: "watch", icon: "escalations", key: "e" },
  { name: "decisions", title: "Decisions", group: "watch", icon: "decisions", key: "d" },
  { name: "outcomes", title: "Outcomes", group: "watch", icon: "outcomes", key: "u" },
  { name: "limits", title: "Limits", group: "watch", icon: "limits", key: "l" },
  { name: "agents", title: "Agents", group: "govern", icon: "agents", key: "a" },
  { name: "tools", title: "Tools", group: "govern", icon: "tools", key: "t" },
  { name: "servers", title: "MCP servers", group: "govern", icon: "servers", key: "s" },
  { name: "mandates", title: "Mandates", group: "govern", icon: "mandates", key: "m" },
  { name: "lists", title: "Lists", group: "govern", icon: "lists", key: "n" },
  { name: "proposals", title: "Proposals", group: "govern", icon: "proposals", key: "b" },
  { name: "vault", title: "Vault", group: "govern", icon: "vault", key: "v" },
  { name: "evidence", title: "Evidence", group: "govern", icon: "evidence", key: "p" },
  { name: "settings", title: "Settings", group: "administer", icon: "settings", key: "c" },
  { name: "webhooks", title: "Webhooks", group: "administer", icon: "webhooks", key: "w", isSub: true },
  {
    name: "notifications",
    title: "Notifications",
    group: "administer",
    icon: "notifications",
    key: "i",
    isSub: true,
    roles: ["admin", "operator"],
  },
  { name: "keys", title: "Keys", group: "administer", icon: "keys", key: "k", isSub: true, roles: ["admin"] },
  { name: "people", title: "People", group: "administer", icon: "people", key: "h", isSub: true, roles: ["admin"] },
  { name: "approver-groups", title: "Approvers", group: "administer", icon: "approvers", key: "y", isSub: true },
  {
    name: "workspaces",
    title: "Workspaces",
    group: "administer",
    icon: "workspaces",
    key: "r",
    isSub: true,
    roles: ["admin"],
  },
];

const OverviewScreen = lazy(() =>
  import("./screens/overview/overview.tsx").then(({ Overview }) => ({ default: Overview })),
);
const AgentsScreen = lazy(() => import("./screens/agents/agents.tsx").then(({ Agents }) => ({ default: Agents })));
const AgentScreen = lazy(() => import("./screens/agents/agent.tsx").then(({ Agent }) => ({ default: Agent })));
const SessionScreen = lazy(() =>
  import("./screens/sessions/session.tsx").then(({ Session }) => ({ default: Session })),
);

const IncidentScreen = lazy(() =>
  import("./screens/incident/incident.tsx").then(({ Incident }) => ({ default: Incident })),
);
const EscalationsScreen = lazy(() =>
  import("./screens/escalations/escalations.tsx").then(({ Escalations }) => ({ default: Escalations })),
);
const ToolsScreen = lazy(() => import("./screens/tools/tools.tsx").then(({ Tools }) => ({ default: Tools })));
const ServersScreen = lazy(() => import("./screens/servers/servers.tsx").then(({ Servers }) => ({ default: Servers })));
const MandatesScreen = lazy(() =>
  import("./screens/mandates/mandates.tsx").then(({ Mandates }) => ({ default: Mandates })),
);
const ListsScreen = lazy(() => import("./screens/lists/lists.tsx").then(({ Lists }) => ({ default: Lists })));
const ProposalsScreen = lazy(() =>
  import("./screens/proposals/proposals.tsx").then(({ Proposals }) => ({ default: Proposals })),
);
const BacktestsScreen = lazy(() =>
  import("./screens/backtests/backtests.tsx").then(({ Backtests }) => ({ default: Backtests })),
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
const OutcomesScreen = lazy(() =>
  import("./screens/outcomes/outcomes.tsx").then(({ Outcomes }) => ({ default: Outcomes })),
);
const VaultScreen = lazy(() => import("./screens/vault/vault.tsx").then(({ Vault }) => ({ default: Vault })));
const EvidenceScreen = lazy(() =>
  import("./screens/vault/evidence.tsx").then(({ Evidence }) => ({ default: Evidence })),
);
const SettingsScreen = lazy(() =>
  import("./screens/settings/settings.tsx").then(({ Settings }) => ({ default: Settings })),
);
const NotificationsScreen = lazy(() =>
  import("./screens/notifications/notifications.tsx").then(({ Notifications }) => ({ default: Notifications })),
);
const KeysScreen = lazy(() => import("./screens/keys/keys.tsx").then(({ Keys }) => ({ default: Keys })));
const PeopleScreen = lazy(() => import("./screens/people/people.tsx").then(({ People }) => ({ default: People })));
const ApproverGroupsScreen = lazy(() =>
  import("./screens/approver-groups/approver-groups.tsx").then(({ ApproverGroups }) => ({ default: ApproverGroups })),
);
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
  { path: "/outcomes", screen: OutcomesScreen },
  { path: "/vault", screen: VaultScreen },
  { path: "/evidence", screen: EvidenceScreen },
  { path: "/tools/:id", screen: ToolsScreen },
  { path: "/tools", screen: ToolsScreen },
  { path: "/servers/:id", screen: ServersScreen },
  { path: "/servers", screen: ServersScreen },
  { path: "/mandates/:id", screen: MandatesScreen },
  { path: "/mandates", screen: MandatesScreen },
  { path: "/lists/:id", screen: ListsScreen },
  { path: "/lists", screen: ListsScreen },
  { path: "/proposals/:id", screen: ProposalsScreen },
  { path: "/proposals", screen: ProposalsScreen },
  { path: "/backtests/:id", screen: BacktestsScreen },
  { path: "/backtests", screen: BacktestsScreen },
  { path: "/limits", screen: LimitsScreen },
  { path: "/settings", screen: SettingsScreen },
  { path: "/webhooks/:id", screen: WebhooksScreen },
  { path: "/webhooks", screen: WebhooksScreen },
  { path: "/agents", screen: AgentsScreen },
  { path: "/agents/:id", screen: AgentScreen },
  { path: "/sessions/:id", screen: SessionScreen },
  { path: "/incident", screen: IncidentScreen },
  { path: "/notifications", screen: NotificationsScreen },
  { path: "/keys", screen: KeysScreen },
  { path: "/people/:id", screen: PeopleScreen },
  { path: "/people", screen: PeopleScreen },
  { path: "/approver-groups/:id", screen: ApproverGroupsScreen },
  { path: "/approver-groups", screen: ApproverGroupsScreen },
  { path: "/workspaces", screen: WorkspacesScreen },
];

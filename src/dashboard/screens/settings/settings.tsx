import { Link } from "wouter";
import { Icon, type IconName } from "../../kit/icon.tsx";
import { ScreenFrame } from "../../kit/screen.tsx";
import { type RoleWord, useSession } from "../../session.ts";
import "../../styles/settings.css";

interface SettingsPage {
  readonly id: string;
  readonly href: string;
  readonly icon: IconName;
  readonly title: string;
  readonly purpose: string;
  /** Roles that may use the page; absent for all roles. */
  readonly roles?: readonly RoleWord[];
}

const PAGES: readonly SettingsPage[] = [
  {
    id: "webhooks",
    href: "/webhooks",
    icon: "webhooks",
    title: "Webhooks",
    purpose: "Tell other systems of escalations, revocations, incidents and changed tools, in order and at least once.",
  },
  {
    id: "redaction-webhooks",
    href: "/webhooks?kind=redaction",
    icon: "redaction",
    title: "Redaction webhooks",
    purpose: "Tell other systems when the redaction proxy finds a personal value.",
  },
  {
    id: "notifications",
    href: "/notifications",
    icon: "notifications",
    title: "Notifications",
    purpose: "Be told of escalations in this browser, by e-mail or in Slack; set the mail server and the Slack app.",
    roles: ["admin", "operator"],
  },
  {
    id: "keys",
    href: "/keys",
    icon: "keys",
    title: "Keys",
    purpose: "Create and revoke the keys of people and programs; look at the signing keys of the service.",
    roles: ["admin"],
  },
  {
    id: "people",
    href: "/people",
    icon: "people",
    title: "People",
    purpose:
      "Add people, invite them to keys of their own, change their roles, and end what they have when they leave.",
    roles: ["admin"],
  },
  {
    id: "approver-groups",
    href: "/approver-groups",
    icon: "approvers",
    title: "Approver groups",
    purpose: "Say who approves what rules ask about: people, groups of an identity provider, and deputies.",
  },
  {
    id: "workspaces",
    href: "/workspaces",
    icon: "workspaces",
    title: "Workspaces",
    purpose: "Set default decisions, four eyes, deadlines, trust and rates.",
    roles: ["admin"],
  },
];

/** Pages on which a workspace is set up, which daily work does not need. */
export function Settings() {
  const { role } = useSession().session;
  return (
    <ScreenFrame name="settings" title="Settings">
      <ul className="settings">
        {PAGES.filter(({ roles }) => roles?.includes(role) ?? true).map(({ id, href, icon, title, purpose }) => (
          <li key={id} data-id={id}>
            <Link href={href} className="card settings-page">
              <Icon name={icon} />
              <span className="settings-title">{title}</span>
              <span className="hint">{purpose}</span>
            </Link>
          </li>
        ))}
      </ul>
    </ScreenFrame>
  );
}

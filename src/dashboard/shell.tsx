import { DropdownMenu } from "radix-ui";
import { type ReactNode, useEffect, useState } from "react";
import { Link, useLocation } from "wouter";
import { HaltBanner, HaltButton } from "./halt.tsx";
import { Actor } from "./kit/actor.tsx";
import { useAnnounce } from "./kit/toast.tsx";
import { usePendingCount } from "./live/use-escalations.tsx";
import { useNotifications } from "./live/use-notifications.ts";
import { NAVIGATION, type NavEntry } from "./screens.tsx";
import { signOut, useSession } from "./session.ts";
import { type Theme, useTheme } from "./theme.ts";

const GROUPS: readonly { readonly group: NavEntry["group"]; readonly title: string }[] = [
  { group: "watch", title: "Watch" },
  { group: "govern", title: "Govern" },
  { group: "administer", title: "Administer" },
];

/** Frame around every screen: navigation, the signed-in name, and the button to sign out. */
export function Shell({ children }: { readonly children: ReactNode }) {
  const [location] = useLocation();
  const [isOpen, setIsOpen] = useState(false);
  // biome-ignore lint/correctness/useExhaustiveDependencies: another screen closes the navigation of a narrow page
  useEffect(() => setIsOpen(false), [location]);
  useNotifications();
  return (
    <div className="shell">
      <a className="skip" href="#content">
        Skip to the content
      </a>
      <header className="top">
        <button
          type="button"
          className="icon-button only-narrow"
          aria-expanded={isOpen}
          aria-controls="navigation"
          onClick={() => setIsOpen(!isOpen)}
        >
          <span aria-hidden>☰</span>
          <span className="visually-hidden">Navigation</span>
        </button>
        <Link href="/overview" className="brand">
          Agent Control Plane
        </Link>
        <HaltButton />
        <Account />
      </header>
      <nav id="navigation" className={isOpen ? "side is-open" : "side"} aria-label="Screens">
        {GROUPS.map(({ group, title }) => (
          <NavGroup key={group} title={title} entries={NAVIGATION.filter((entry) => entry.group === group)} />
        ))}
      </nav>
      <main id="content" tabIndex={-1}>
        <HaltBanner />
        {children}
      </main>
    </div>
  );
}

function NavGroup({ title, entries }: { readonly title: string; readonly entries: readonly NavEntry[] }) {
  const { role } = useSession().session;
  const [location] = useLocation();
  const shown = entries.filter(({ roles }) => roles?.includes(role) ?? true);
  if (shown.length === 0) return null;
  return (
    <div className="nav-group">
      <h2>{title}</h2>
      <ul>
        {shown.map((entry) => {
          const isHere = location === `/${entry.name}` || location.startsWith(`/${entry.name}/`);
          return (
            <li key={entry.name}>
              <Link href={`/${entry.name}`} data-nav={entry.name} aria-current={isHere ? "page" : undefined}>
                {entry.title}
                {entry.name === "escalations" ? <PendingCount /> : null}
              </Link>
            </li>
          );
        })}
      </ul>
    </div>
  );
}

function PendingCount() {
  const count = usePendingCount();
  return (
    <span className="nav-count" data-count="escalations">
      {count === 0 ? "" : count}
    </span>
  );
}

const THEMES: readonly { readonly theme: Theme; readonly title: string }[] = [
  { theme: "system", title: "As the system" },
  { theme: "light", title: "Light" },
  { theme: "dark", title: "Dark" },
];

function Account() {
  const { session, leave } = useSession();
  const [theme, setTheme] = useTheme();
  const announce = useAnnounce();
  const out = (everywhere: boolean): void => {
    signOut(session, everywhere).then(leave, (error: unknown) => announce({ tone: "bad", text: String(error) }));
  };
  return (
    <DropdownMenu.Root>
      <DropdownMenu.Trigger className="account" data-action="account">
        <span className="account-workspace">{session.workspaceId}</span>
        <span className="account-role">{session.role}</span>
      </DropdownMenu.Trigger>
      <DropdownMenu.Portal>
        <DropdownMenu.Content className="menu" align="end" sideOffset={6}>
          <DropdownMenu.Label className="menu-label">
            <Actor id={session.keyId} name={session.name} />
          </DropdownMenu.Label>
          <DropdownMenu.RadioGroup value={theme} onValueChange={(value) => setTheme(value as Theme)}>
            {THEMES.map(({ theme: value, title }) => (
              <DropdownMenu.RadioItem key={value} value={value} className="menu-item">
                {title}
                <DropdownMenu.ItemIndicator aria-hidden>✓</DropdownMenu.ItemIndicator>
              </DropdownMenu.RadioItem>
            ))}
          </DropdownMenu.RadioGroup>
          <DropdownMenu.Separator className="menu-line" />
          <DropdownMenu.Item className="menu-item" data-action="sign-out" onSelect={() => out(false)}>
            Sign out
          </DropdownMenu.Item>
          <DropdownMenu.Item className="menu-item" data-action="sign-out-everywhere" onSelect={() => out(true)}>
            Sign out everywhere
          </DropdownMenu.Item>
        </DropdownMenu.Content>
      </DropdownMenu.Portal>
    </DropdownMenu.Root>
  );
}

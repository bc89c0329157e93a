import { DropdownMenu } from "radix-ui";
import { type ReactNode, type RefObject, useEffect, useRef, useState } from "react";
import { Link, useLocation } from "wouter";
import { FindButton, FindWindows } from "./find/find.tsx";
import { HaltBanner, HaltButton } from "./halt.tsx";
import { Actor } from "./kit/actor.tsx";
import { followPlace, placeIn, untilRestored } from "./kit/history-places.ts";
import { Icon } from "./kit/icon.tsx";
import { useAnnounce } from "./kit/toast.tsx";
import { usePrint } from "./kit/use-print.ts";
import { useZone, type Zone } from "./kit/zone.ts";
import { type NeedCount, useNeedCounts, useNeedTotal } from "./live/use-needs.ts";
import { useNotifications } from "./live/use-notifications.ts";
import { usePush } from "./live/use-push.ts";
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
  usePush();
  usePrint();
  const main = useScreenPlace(location);
  return (
    <FindWindows>
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
            <Icon name="menu" />
            <span className="visually-hidden">Navigation</span>
          </button>
          <Link href="/overview" className="brand">
            <Mark />
            <span>Agent Control Plane</span>
          </Link>
          <FindButton />
          <NeedsButton />
          <HaltButton />
          <Account />
        </header>
        <nav id="navigation" className={isOpen ? "side is-open" : "side"} aria-label="Screens">
          {GROUPS.map(({ group, title }) => (
            <NavGroup key={group} title={title} entries={NAVIGATION.filter((entry) => entry.group === group)} />
          ))}
          <div className="nav-group">
            <h2>Help</h2>
            <ul>
              <li>
                <a href="/docs" data-nav="docs">
                  <Icon name="docs" />
                  Documentation
                </a>
              </li>
            </ul>
          </div>
        </nav>
        <main ref={main} id="content" tabIndex={-1}>
          <HaltBanner />
          {children}
        </main>
      </div>
    </FindWindows>
  );
}

/** Mark of the product, as on the browser's tab. */
function Mark() {
  return (
    <svg viewBox="0 0 32 32" width="22" height="22" aria-hidden>
      <rect width="32" height="32" rx="7" fill="#2b59c3" />
      <path
        d="M9 16.5l4.6 4.6L23.5 11"
        fill="none"
        stroke="#fff"
        strokeWidth="3.4"
        strokeLinecap="round"
        strokeLinejoin="round"
      />
    </svg>
  );
}

/** Begins a screen at its top, or where Back left it. */
function useScreenPlace(location: string): RefObject<HTMLElement | null> {
  const main = useRef<HTMLElement>(null);
  // biome-ignore lint/correctness/useExhaustiveDependencies: each address has a place of its own
  useEffect(() => {
    const element = main.current;
    if (element === null) return;
    const top = placeIn<number>("screen") ?? 0;
    const stop = untilRestored(() => {
      element.scrollTop = top;
      return Math.abs(element.scrollTop - top) < 1;
    });
    const unfollow = followPlace("screen", element, () => Math.round(element.scrollTop));
    return () => {
      stop();
      unfollow();
    };
  }, [location]);
  return main;
}

function NavGroup({ title, entries }: { readonly title: string; readonly entries: readonly NavEntry[] }) {
  const { role } = useSession().session;
  const counts = useNeedCounts();
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
            <li key={entry.name} className={entry.isSub === true ? "is-sub" : undefined}>
              <Link href={`/${entry.name}`} data-nav={entry.name} aria-current={isHere ? "page" : undefined}>
                <Icon name={entry.icon} />
                {entry.title}
                <NeedBadge count={counts.get(entry.name)} name={entry.name} />
              </Link>
            </li>
          );
        })}
      </ul>
    </div>
  );
}

/** Number of things that wait on a screen, beside its name. */
function NeedBadge({ name, count: need }: { readonly name: string; readonly count: NeedCount | undefined }) {
  if (need === undefined) return null;
  const { count, words } = need;
  return (
    <>
      <span className="nav-count" data-count={name}>
        {count === 0 ? "" : count.toLocaleString("en")}
      </span>
      {count === 0 ? null : <span className="visually-hidden">{words}</span>}
    </>
  );
}

/** Opens the overview on a phone, where the navigation with its counts is folded. */
function NeedsButton() {
  const total = useNeedTotal();
  return (
    <Link href="/overview" className={total === 0 ? "needs-button" : "needs-button is-needed"} data-action="needs">
      <span data-count="needs">{total.toLocaleString("en")}</span>
      <span className="visually-hidden">{total === 1 ? "thing needs you" : "things need you"}</span>
    </Link>
  );
}

const THEMES: readonly { readonly theme: Theme; readonly title: string }[] = [
  { theme: "system", title: "As the system" },
  { theme: "light", title: "Light" },
  { theme: "dark", title: "Dark" },
];

const ZONES: readonly { readonly zone: Zone; readonly title: string }[] = [
  { zone: "local", title: "Times of this browser" },
  { zone: "utc", title: "Times in UTC" },
];

function Account() {
  const { session, leave } = useSession();
  const [theme, setTheme] = useTheme();
  const [zone, setZone] = useZone();
  const announce = useAnnounce();
  const out = (everywhere: boolean): void => {
    signOut(session, everywhere).then(leave, (error: unknown) => announce({ tone: "bad", text: String(error) }));
  };
  return (
    // A modal menu hides the page from screen readers, whose controls keep the focus.
    <DropdownMenu.Root modal={false}>
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
          <DropdownMenu.RadioGroup value={zone} onValueChange={(value) => setZone(value as Zone)}>
            {ZONES.map(({ zone: value, title }) => (
              <DropdownMenu.RadioItem key={value} value={value} className="menu-item" data-action={`zone-${value}`}>
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

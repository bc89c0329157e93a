import type { IconName } from "../kit/icon.tsx";
import { NAVIGATION } from "../screens.tsx";
import type { RoleWord } from "../session.ts";

/** Something that a person can go to or do. */
export interface Finding {
  /** Unique among all findings; `data-id` of its line. */
  readonly id: string;
  /** Heading above its kind. */
  readonly kind: "Commands" | "Screens" | "Agents" | "Mandates" | "Tools" | "MCP servers" | "By id";
  readonly icon: IconName;
  /** Text from the service or from people: only shown by `Shown`. */
  readonly title: string;
  readonly detail?: string;
  /** Further words under which it is found. */
  readonly words?: string;
  /** Address that it leads to, or the change that it makes. */
  readonly act: string | (() => void);
}

/** Kinds of resources whose ids lead to a screen of theirs, by the beginning of the id. */
const BY_ID: Readonly<Record<string, { readonly path: string; readonly icon: IconName; readonly title: string }>> = {
  dec: { path: "/decisions", icon: "decisions", title: "Decision" },
  esc: { path: "/escalations", icon: "escalations", title: "Escalation" },
  agt: { path: "/agents", icon: "agents", title: "Agent" },
  ses: { path: "/sessions", icon: "agents", title: "Session" },
  mnd: { path: "/mandates", icon: "mandates", title: "Mandate" },
};
/** An id of the service: its kind, and the base32 of 16 bytes. */
const ID = /^([a-z]{3})_[a-z2-7]{26}$/;

/** Returns what an id leads to; undefined for any other text. */
export function findingById(text: string): Finding | undefined {
  const id = text.trim();
  const kind = BY_ID[ID.exec(id)?.[1] ?? ""];
  if (kind === undefined) return undefined;
  return { id, kind: "By id", icon: kind.icon, title: `${kind.title} ${id}`, act: `${kind.path}/${id}` };
}

/** Screens that a role may see. */
export function screenFindings(role: RoleWord): readonly Finding[] {
  return NAVIGATION.filter(({ roles }) => roles?.includes(role) ?? true).map(({ name, title, icon, key }) => ({
    id: name,
    kind: "Screens",
    icon,
    title,
    detail: `g ${key}`,
    act: `/${name}`,
  }));
}

const wordsOf = (text: string): readonly string[] => text.toLowerCase().split(/\s+/).filter(Boolean);

/** Keeps the findings that have every word of a text, those that begin with it first. */
export function matching(findings: readonly Finding[], text: string): readonly Finding[] {
  const words = wordsOf(text);
  const whole = words.join(" ");
  const found = findings.filter(({ title, words: more = "" }) => {
    const name = `${title} ${more}`.toLowerCase();
    return words.every((word) => name.includes(word));
  });
  const begins = ({ title }: Finding): number => (title.toLowerCase().startsWith(whole) ? 0 : 1);
  return found.toSorted((a, b) => begins(a) - begins(b));
}

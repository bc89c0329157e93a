import { useMemo } from "react";
import { useHalted } from "../halt.tsx";
import { useAnnounce } from "../kit/toast.tsx";
import { useZone } from "../kit/zone.ts";
import { signOut, useMayChange, useSession } from "../session.ts";
import { type Theme, useTheme } from "../theme.ts";
import type { Finding } from "./findings.ts";
import { useFindWindows } from "./windows.ts";

const THEMES: readonly { readonly theme: Theme; readonly title: string }[] = [
  { theme: "light", title: "Theme: light" },
  { theme: "dark", title: "Theme: dark" },
  { theme: "system", title: "Theme: as the system" },
];

/** Commands that the signed-in person may give. */
export function useCommands(): readonly Finding[] {
  const { session, leave } = useSession();
  const mayChange = useMayChange();
  const halted = useHalted();
  const announce = useAnnounce();
  const open = useFindWindows();
  const [, setTheme] = useTheme();
  const [, setZone] = useZone();
  return useMemo(() => {
    const command = (id: string, title: string, words: string, act: () => void): Finding => ({
      id,
      kind: "Commands",
      icon: "action",
      title,
      words,
      act,
    });
    const out = (everywhere: boolean): void => {
      signOut(session, everywhere).then(leave, (error: unknown) => announce({ tone: "bad", text: String(error) }));
    };
    return [
      ...(mayChange && halted === false
        ? [command("command-halt", "Halt the workspace …", "stop block pause", () => open("halt"))]
        : []),
      ...(mayChange && halted === true
        ? [command("command-resume", "End the halt …", "resume start", () => open("resume"))]
        : []),
      command("command-keys", "Show the keys of the dashboard", "shortcuts help keyboard", () => open("keys")),
      ...THEMES.map(({ theme, title }) =>
        command(`command-theme-${theme}`, title, "colour color mode", () => setTheme(theme)),
      ),
      command("command-zone-local", "Times of this browser's zone", "local utc clock", () => setZone("local")),
      command("command-zone-utc", "Times in UTC", "zone clock", () => setZone("utc")),
      command("command-sign-out", "Sign out", "leave log out logout", () => out(false)),
      command("command-sign-out-everywhere", "Sign out everywhere", "leave log out logout all", () => out(true)),
    ];
  }, [session, leave, mayChange, halted, announce, open, setTheme, setZone]);
}

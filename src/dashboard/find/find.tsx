import { lazy, type ReactNode, useCallback, useEffect, useState } from "react";
import { useLocation } from "wouter";
import { HaltDialog, ResumeDialog } from "../halt.tsx";
import { Icon } from "../kit/icon.tsx";
import { Part } from "../kit/part.tsx";
import { areShortcutsOn, isTyping } from "../kit/shortcuts.ts";
import { NAVIGATION } from "../screens.tsx";
import { useSession } from "../session.ts";
import { FindDialog } from "./find-dialog.tsx";
import { type FindWindow, FindWindowsContext, useFindWindows } from "./windows.ts";

const KeysDialog = lazy(() => import("./keys-dialog.tsx").then(({ KeysDialog: dialog }) => ({ default: dialog })));

/** Milliseconds in which a letter follows `g`. */
const SEQUENCE_MS = 1_500;

/** Opens windows above the screens by keys, buttons and commands. */
export function FindWindows({ children }: { readonly children: ReactNode }) {
  const [open, setOpen] = useState<FindWindow | undefined>(undefined);
  const close = useCallback(() => setOpen(undefined), []);
  useFindKeys(setOpen);
  useScreenKeys();
  return (
    <FindWindowsContext value={setOpen}>
      {children}
      {open === "find" ? <FindDialog onClose={close} /> : null}
      {open === "keys" ? (
        <Part what="the keys" fallback={null}>
          <KeysDialog onClose={close} />
        </Part>
      ) : null}
      {open === "halt" ? <HaltDialog onClose={close} /> : null}
      {open === "resume" ? <ResumeDialog onClose={close} /> : null}
    </FindWindowsContext>
  );
}

/** Button in the top bar that finds anything. */
export function FindButton() {
  const open = useFindWindows();
  return (
    <button
      type="button"
      className="find-button"
      data-action="find"
      aria-haspopup="dialog"
      aria-keyshortcuts="Control+K Meta+K"
      onClick={(event) => {
        // Safari focuses no button on a press.
        event.currentTarget.focus({ preventScroll: true });
        open("find");
      }}
    >
      <Icon name="find" />
      <span className="find-button-word">Find</span>
      <kbd aria-hidden>Ctrl K</kbd>
    </button>
  );
}

const isDialogOpen = (): boolean => document.querySelector("[role=dialog]") !== null;

function useFindKeys(setOpen: (open: FindWindow) => void): void {
  useEffect(() => {
    const press = (event: KeyboardEvent): void => {
      if (event.isComposing || event.altKey || isDialogOpen()) return;
      const isFind = (event.ctrlKey || event.metaKey) && !event.shiftKey && event.key.toLowerCase() === "k";
      const isKeys = event.key === "?" && !event.ctrlKey && !event.metaKey && areShortcutsOn();
      if (!isFind && (!isKeys || isTyping(event.target))) return;
      event.preventDefault();
      event.stopImmediatePropagation();
      setOpen(isFind ? "find" : "keys");
    };
    window.addEventListener("keydown", press, { capture: true });
    return () => window.removeEventListener("keydown", press, { capture: true });
  }, [setOpen]);
}

/** Goes to a screen by `g` and its letter, except while text is typed, a dialog is open, or single keys are off. */
function useScreenKeys(): void {
  const [, navigate] = useLocation();
  const { role } = useSession().session;
  useEffect(() => {
    let began = Number.NEGATIVE_INFINITY;
    const press = (event: KeyboardEvent): void => {
      const isFollowing = performance.now() - began < SEQUENCE_MS;
      const isPlain = !event.ctrlKey && !event.metaKey && !event.altKey && !event.isComposing && !event.repeat;
      if (!isPlain || !areShortcutsOn() || isTyping(event.target) || isDialogOpen()) return;
      if (["Shift", "CapsLock"].includes(event.key)) return;
      began = event.key === "g" && !isFollowing ? performance.now() : Number.NEGATIVE_INFINITY;
      if (!isFollowing) return;
      // The letter belongs to `g`: on its own it may answer an escalation.
      event.preventDefault();
      event.stopImmediatePropagation();
      const entry = NAVIGATION.find(({ key, roles }) => key === event.key && (roles?.includes(role) ?? true));
      if (entry !== undefined) navigate(`/${entry.name}`);
    };
    window.addEventListener("keydown", press, { capture: true });
    return () => window.removeEventListener("keydown", press, { capture: true });
  }, [navigate, role]);
}

import { useEffect, useSyncExternalStore } from "react";

const KEY = "acp-shortcuts";
/** Event of the page after the setting has changed. */
const CHANGED = "acp-shortcuts-changed";

/** Tests whether single keys act. */
export const areShortcutsOn = (): boolean => localStorage.getItem(KEY) !== "off";

function subscribe(listener: () => void): () => void {
  window.addEventListener(CHANGED, listener);
  return () => window.removeEventListener(CHANGED, listener);
}

function changeSetting(isOn: boolean): void {
  localStorage.setItem(KEY, isOn ? "on" : "off");
  window.dispatchEvent(new Event(CHANGED));
}

/** Returns whether single keys act, and the function that switches them. The browser keeps the choice. */
export function useShortcutSetting(): readonly [boolean, (isOn: boolean) => void] {
  return [useSyncExternalStore(subscribe, areShortcutsOn), changeSetting];
}

/** Tests whether a key press belongs to a text input or a dialog. */
export function isTyping(target: EventTarget | null): boolean {
  const element = target instanceof HTMLElement ? target : null;
  if (element === null) return false;
  return (
    element.isContentEditable ||
    element.closest("input:not([type=checkbox]), textarea, select, [role=dialog], [role=menu]") !== null
  );
}

const isScrolled = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement && target.closest(".escalation-body") !== null;

/** Calls the handler of a shortcut key, except while text is typed or a dialog is open. */
export function useShortcuts(isOn: boolean, actions: Readonly<Record<string, () => void>>): void {
  useEffect(() => {
    if (!isOn) return;
    const press = (event: KeyboardEvent): void => {
      const isPlain = !event.ctrlKey && !event.metaKey && !event.altKey && !event.isComposing && !event.repeat;
      const action = actions[event.key];
      if (!isPlain || action === undefined || isTyping(event.target)) return;
      // Arrows scroll the part of the page that has the focus.
      if (event.key.startsWith("Arrow") && isScrolled(event.target)) return;
      if (document.querySelector("[role=dialog]") !== null) return;
      event.preventDefault();
      action();
    };
    window.addEventListener("keydown", press);
    return () => window.removeEventListener("keydown", press);
  }, [isOn, actions]);
}

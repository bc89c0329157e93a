import { useEffect, useState } from "react";

const KEY = "acp-shortcuts";

/** Returns whether shortcuts are on, and the function that switches them. The browser keeps the choice. */
export function useShortcutSetting(): readonly [boolean, (isOn: boolean) => void] {
  const [isOn, setIsOn] = useState(() => localStorage.getItem(KEY) !== "off");
  const change = (next: boolean): void => {
    localStorage.setItem(KEY, next ? "on" : "off");
    setIsOn(next);
  };
  return [isOn, change];
}

/** Tests whether a key press belongs to a text input or a dialog. */
function isTyping(target: EventTarget | null): boolean {
  const element = target instanceof HTMLElement ? target : null;
  if (element === null) return false;
  return (
    element.isContentEditable ||
    element.closest("input:not([type=checkbox]), textarea, select, [role=dialog], [role=menu]") !== null
  );
}

/** Calls the handler of a shortcut key, except while text is typed or a dialog is open. */
export function useShortcuts(isOn: boolean, actions: Readonly<Record<string, () => void>>): void {
  useEffect(() => {
    if (!isOn) return;
    const press = (event: KeyboardEvent): void => {
      const isPlain = !event.ctrlKey && !event.metaKey && !event.altKey && !event.isComposing && !event.repeat;
      const action = actions[event.key];
      if (!isPlain || action === undefined || isTyping(event.target)) return;
      if (document.querySelector("[role=dialog]") !== null) return;
      event.preventDefault();
      action();
    };
    window.addEventListener("keydown", press);
    return () => window.removeEventListener("keydown", press);
  }, [isOn, actions]);
}

import { useState } from "react";

/** Colour scheme of the page. */
export type Theme = "system" | "light" | "dark";

const KEY = "acp-theme";
const isTheme = (text: string | null): text is Theme => text === "system" || text === "light" || text === "dark";

function apply(theme: Theme): void {
  document.documentElement.style.colorScheme = theme === "system" ? "" : theme;
}

function stored(): Theme {
  const text = localStorage.getItem(KEY);
  return isTheme(text) ? text : "system";
}

apply(stored());

/** Returns the theme and the function that changes it. The browser keeps the choice. */
export function useTheme(): readonly [Theme, (theme: Theme) => void] {
  const [theme, setTheme] = useState(stored);
  const change = (next: Theme): void => {
    localStorage.setItem(KEY, next);
    apply(next);
    setTheme(next);
  };
  return [theme, change];
}

import { createContext, useContext } from "react";

/** A window above the screens that a key or a command opens. */
export type FindWindow = "find" | "keys" | "halt" | "resume";

/** Passes down the function that opens a window in place of the one that is open. */
export const FindWindowsContext = createContext<(open: FindWindow) => void>(() => undefined);

/** Returns the function that opens a window in place of the one that is open. */
export const useFindWindows = (): ((open: FindWindow) => void) => useContext(FindWindowsContext);

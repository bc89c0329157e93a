import { fold } from "../text/fold.ts";

/** Returns a key that is equal for names that the service treats as the same: without differences of case, width and spaces. */
export const nameKey = (name: string): string => fold(name).replace(/ +/g, " ");

/** Returns the names of a path after `.` and `..`, without empty ones. Leading `..` stay in a path without a root. */
export function walkedNames(written: readonly string[], isRooted: boolean): readonly string[] {
  const names: string[] = [];
  for (const name of written) {
    if (name === "" || name === ".") continue;
    if (name !== "..") names.push(name);
    else if (names.length > 0 && names.at(-1) !== "..") names.pop();
    else if (!isRooted) names.push(name);
  }
  return names;
}

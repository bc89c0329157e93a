/** Returns the processor time that this thread has used, milliseconds: unlike a clock, it stands while other work has the processor. */
export function threadMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1_000;
}

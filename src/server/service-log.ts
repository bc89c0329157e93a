import { type DestinationStream, type Logger, pino } from "pino";

/** Creates the log of the service: a line of JSON for each entry, with its level as a word and its time in milliseconds. */
export function createServiceLog(level: string, destination: DestinationStream): Logger {
  return pino({ level, formatters: { level: (word) => ({ level: word }) } }, destination);
}

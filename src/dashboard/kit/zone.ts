import { useSyncExternalStore } from "react";

/** Zone in which the page writes times and reads those that people type: the browser's own, or UTC. */
export type Zone = "local" | "utc";

const KEY = "acp-zone";
/** Event of the page after the zone has changed. */
const CHANGED = "acp-zone-changed";

/** Returns the zone that the browser keeps. Default: local. */
export const zoneNow = (): Zone => (localStorage.getItem(KEY) === "utc" ? "utc" : "local");

function changeZone(zone: Zone): void {
  localStorage.setItem(KEY, zone);
  window.dispatchEvent(new Event(CHANGED));
}

/** Calls a function after each change of the zone. Returns the function that ends it. */
export function onZoneChange(listener: () => void): () => void {
  window.addEventListener(CHANGED, listener);
  return () => window.removeEventListener(CHANGED, listener);
}

/** Returns the zone and the function that changes it. The browser keeps the choice. */
export function useZone(): readonly [Zone, (zone: Zone) => void] {
  return [useSyncExternalStore(onZoneChange, zoneNow), changeZone];
}

const two = (n: number): string => String(n).padStart(2, "0");

/** Minutes by which the zone is ahead of UTC at a time. */
const offsetAt = (ms: number, zone: Zone): number => (zone === "utc" ? 0 : -new Date(ms).getTimezoneOffset());

/** A time whose parts in UTC are those that a clock of the zone shows. */
const clockOf = (ms: number, zone: Zone): Date => new Date(ms + offsetAt(ms, zone) * 60_000);

/** Writes a time as ISO 8601 with milliseconds and the offset of the zone: `2026-11-27T01:39:28.775+01:00`. */
export function isoText(ms: number, zone: Zone): string {
  const text = clockOf(ms, zone).toISOString();
  if (zone === "utc") return text;
  const offset = offsetAt(ms, zone);
  const size = Math.abs(offset);
  return `${text.slice(0, -1)}${offset < 0 ? "-" : "+"}${two(Math.floor(size / 60))}:${two(size % 60)}`;
}

/** Writes a time in the form of an input of date and time, to the second. */
export const inputText = (ms: number, zone: Zone): string => clockOf(ms, zone).toISOString().slice(0, 19);

/** Reads the text of an input of date and time, epoch milliseconds; NaN if it is none. */
export const inputTime = (text: string, zone: Zone): number => Date.parse(zone === "utc" ? `${text}Z` : text);

/** Returns the beginning of a day in the zone, epoch milliseconds: of the day of a time, or so many days before it. */
export function startOfDay(ms: number, zone: Zone, daysBefore = 0): number {
  const clock = clockOf(ms, zone);
  const [year, month, day] = [clock.getUTCFullYear(), clock.getUTCMonth(), clock.getUTCDate() - daysBefore];
  return zone === "utc" ? Date.UTC(year, month, day) : new Date(year, month, day).getTime();
}

/** Writes a time by a form, in the zone. */
export function zonedText(ms: number, zone: Zone, form: Intl.DateTimeFormatOptions): string {
  return new Intl.DateTimeFormat("en-GB", zone === "utc" ? { ...form, timeZone: "UTC" } : form).format(ms);
}

const EXACT: Intl.DateTimeFormatOptions = {
  weekday: "short",
  day: "numeric",
  month: "short",
  year: "numeric",
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  timeZoneName: "short",
};

/** Writes a date and time with their zone: `Fri, 27 Nov 2026, 01:39:28 CET`. */
export const exactText = (ms: number, zone: Zone): string => zonedText(ms, zone, EXACT);

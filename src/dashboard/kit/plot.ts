import { type RefObject, useEffect, useState } from "react";
import type uPlot from "uplot";
import type { AlignedData, Axis, Options } from "uplot";
import { onZoneChange, startOfDay, zonedText, zoneNow } from "./zone.ts";

/** Width of a label on the time axis, pixels. */
const TICK_SPACE = 84;
/** Height of the time axis, pixels: its ticks and one line. */
const TIME_AXIS_HEIGHT = 34;
/** Width of the vertical axis while its labels are short, pixels: charts above each other begin at one line. */
const MIN_AXIS_WIDTH = 44;
const DAY_SECONDS = 86_400;

/** Returns the current value of a theme colour, because a canvas cannot read CSS variables. */
export function colorOf(name: string): string {
  const probe = document.createElement("span");
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}

/** Returns the width that the labels of the vertical axis need, with its ticks and the gap beside them, pixels. */
function axisWidth(chart: uPlot, labels: readonly string[] | null, index: number): number {
  const { font, ticks, gap = 0 } = chart.axes[index] ?? {};
  const { ctx } = chart;
  ctx.save();
  // The library draws with the first of its fonts, in pixels of the device.
  ctx.font = Array.isArray(font) ? String(font[0]) : (font ?? ctx.font);
  const widths = (labels ?? []).map((label) => ctx.measureText(label).width / devicePixelRatio);
  ctx.restore();
  return Math.max(MIN_AXIS_WIDTH, Math.ceil(Math.max(0, ...widths) + (ticks?.size ?? 0) + gap));
}

const dayText = (ms: number): string => zonedText(ms, zoneNow(), { day: "numeric", month: "short" });
const isMidnight = (ms: number): boolean => ms - startOfDay(ms, zoneNow()) < 60_000;

function clockText(ms: number, hasSeconds: boolean): string {
  const form = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" } as const;
  return zonedText(ms, zoneNow(), hasSeconds ? { ...form, second: "2-digit" } : form);
}

/** Writes the labels of the time axis: the date where days pass, the hour otherwise. */
function timeTexts(seconds: readonly number[], step: number): string[] {
  return seconds.map((each) => {
    const ms = each * 1_000;
    return step >= DAY_SECONDS || isMidnight(ms) ? dayText(ms) : clockText(ms, step < 60);
  });
}

/** Writes a range of time: `27 Nov, 12:00 to 12:30`, or `27 Nov` for a whole day. */
export function rangeText(fromMs: number, toMs: number): string {
  const from = dayText(fromMs);
  if (isMidnight(fromMs) && isMidnight(toMs) && toMs - fromMs < 1.5 * DAY_SECONDS * 1_000) return from;
  const end = from === dayText(toMs) || isMidnight(toMs) ? "" : `${dayText(toMs)}, `;
  return `${from}, ${clockText(fromMs, false)} to ${end}${clockText(toMs, false)}`;
}

/** Creates the axes of a chart over time in the colours of the theme. The vertical one is as wide as its labels. */
export function createAxes(vertical: Partial<Axis> = {}): Axis[] {
  const stroke = colorOf("soft");
  const grid = { stroke: colorOf("line"), width: 1 };
  return [
    {
      stroke,
      grid,
      ticks: grid,
      space: TICK_SPACE,
      size: TIME_AXIS_HEIGHT,
      values: (_chart, splits, _axis, _space, step) => timeTexts(splits, step),
    },
    { stroke, grid, ticks: grid, size: axisWidth, ...vertical },
  ];
}

/** A drawn chart. Each drawing and each change of its size gives a new object. */
export interface Plot {
  readonly chart: uPlot;
}

/**
 * Draws a chart into an element. The library loads on first use; the chart follows width, theme and zone. `options` and `data` are read
 * anew when one of them changes.
 */
export function usePlot(
  place: RefObject<HTMLElement | null>,
  options: (width: number) => Options,
  data: AlignedData,
): Plot | undefined {
  const [plot, setPlot] = useState<Plot | undefined>(undefined);
  useEffect(() => {
    const element = place.current;
    let isGone = false;
    let stop: (() => void) | undefined;
    void Promise.all([import("uplot"), import("uplot/dist/uPlot.min.css")]).then(([{ default: UPlot }]) => {
      if (isGone || element === null) return;
      const draw = () => {
        const inZone = { tzDate: (seconds: number) => UPlot.tzDate(new Date(seconds * 1_000), "Etc/UTC") };
        const given = options(element.clientWidth);
        const drawn = new UPlot(zoneNow() === "utc" ? { ...given, ...inZone } : given, data, element);
        setPlot({ chart: drawn });
        return drawn;
      };
      let chart = draw();
      const sizes = new ResizeObserver(() => {
        if (Math.abs(chart.width - element.clientWidth) <= 1) return;
        chart.setSize({ width: element.clientWidth, height: chart.height });
        setPlot({ chart });
      });
      const redraw = (): void => {
        chart.destroy();
        chart = draw();
      };
      const themes = new MutationObserver(redraw);
      const scheme = matchMedia("(prefers-color-scheme: dark)");
      sizes.observe(element);
      themes.observe(document.documentElement, { attributeFilter: ["style"] });
      scheme.addEventListener("change", redraw);
      const unfollow = onZoneChange(redraw);
      stop = () => {
        sizes.disconnect();
        themes.disconnect();
        scheme.removeEventListener("change", redraw);
        unfollow();
        chart.destroy();
      };
    });
    return () => {
      isGone = true;
      stop?.();
    };
  }, [place, options, data]);
  return plot;
}

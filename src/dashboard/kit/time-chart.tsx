import { useCallback, useMemo, useRef } from "react";
import type { Options } from "uplot";
import { colorOf, createAxes, usePlot } from "./plot.ts";

/** One line of a chart. */
export interface Series {
  readonly label: string;
  /** Colour by its name in the theme: `good`, `bad`, `wait`, `accent`. */
  readonly color: "good" | "bad" | "wait" | "accent";
  readonly values: readonly (number | null)[];
}

/** Properties of a chart. */
export interface TimeChartProps {
  /** Summary of the chart in a sentence, for screen readers. */
  readonly summary: string;
  /** Times of the values, epoch milliseconds, ascending. */
  readonly times: readonly number[];
  readonly series: readonly Series[];
  readonly height?: number;
  /** Range of the vertical axis. Default: fits the values. */
  readonly range?: readonly [number, number];
}

const DEFAULT_HEIGHT = 180;

/** Draws values over time as lines. */
export function TimeChart({ summary, times, series, height = DEFAULT_HEIGHT, range }: TimeChartProps) {
  const place = useRef<HTMLDivElement>(null);
  const data = useMemo(
    () => [times.map((ms) => ms / 1_000), ...series.map(({ values }) => [...values])] as [number[], ...number[][]],
    [times, series],
  );
  const options = useCallback(
    (width: number): Options => ({
      width,
      height,
      legend: { show: series.length > 1, live: false },
      scales: range === undefined ? {} : { y: { range: [range[0], range[1]] } },
      axes: createAxes(),
      series: [
        {},
        ...series.map(({ label, color }) => ({ label, stroke: colorOf(color), width: 2, points: { show: false } })),
      ],
    }),
    [series, height, range],
  );
  usePlot(place, options, data);
  return (
    <figure className="chart">
      <div ref={place} style={{ minHeight: height }} aria-hidden />
      <figcaption className="visually-hidden">{summary}</figcaption>
    </figure>
  );
}

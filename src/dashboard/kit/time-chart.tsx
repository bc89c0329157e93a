import { useEffect, useRef } from "react";
import type { Options } from "uplot";

/** One line or area of a chart. */
export interface Series {
  readonly label: string;
  /** Colour by its name in the theme: `good`, `bad`, `wait`, `accent`. */
  readonly color: "good" | "bad" | "wait" | "accent";
  readonly values: readonly (number | null)[];
  /** Draws bars instead of a line. */
  readonly isBars?: boolean;
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
/** Width of a label on the time axis, pixels. */
const TICK_SPACE = 84;

/** Returns the current value of a theme colour, because a canvas cannot read CSS variables. */
function colorOf(name: string): string {
  const probe = document.createElement("span");
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}

type UPlot = typeof import("uplot");

const DAY = 86_400;

/** Writes the labels of the time axis: the date where days pass, the hour otherwise. */
function timeTexts(seconds: readonly number[], step: number): string[] {
  return seconds.map((each) => {
    const at = new Date(each * 1_000);
    const isDay = step >= DAY || (at.getHours() === 0 && at.getMinutes() === 0);
    if (isDay) return at.toLocaleDateString("en-GB", { day: "numeric", month: "short" });
    return at.toLocaleTimeString("en-GB", {
      hour: "2-digit",
      minute: "2-digit",
      ...(step < 60 && { second: "2-digit" }),
    });
  });
}

function optionsFrom(
  { series, height = DEFAULT_HEIGHT, range }: TimeChartProps,
  width: number,
  { paths }: UPlot,
): Options {
  const [stroke, grid] = [colorOf("soft"), { stroke: colorOf("line"), width: 1 }];
  return {
    width,
    height,
    legend: { show: series.length > 1, live: false },
    scales: range === undefined ? {} : { y: { range: [range[0], range[1]] } },
    axes: [
      {
        stroke,
        grid,
        ticks: grid,
        space: TICK_SPACE,
        values: (_chart, splits, _axis, _space, step) => timeTexts(splits, step),
      },
      { stroke, grid, ticks: grid, size: 44 },
    ],
    series: [
      {},
      ...series.map(({ label, color, isBars = false }) => ({
        label,
        stroke: colorOf(color),
        width: 2,
        ...(isBars && { fill: colorOf(`${color}-ground`), paths: paths.bars?.({ size: [0.8, 60] }) ?? null }),
        points: { show: false },
      })),
    ] as Options["series"],
  };
}

/** Draws values over time. The chart library loads on first use; the chart follows width and theme. */
export function TimeChart(props: TimeChartProps) {
  const place = useRef<HTMLDivElement>(null);
  const { summary, times, series } = props;
  // biome-ignore lint/correctness/useExhaustiveDependencies: drawn anew when what it shows changes
  useEffect(() => {
    const element = place.current;
    let isGone = false;
    let stop: (() => void) | undefined;
    void Promise.all([import("uplot"), import("uplot/dist/uPlot.min.css")]).then(([{ default: UPlot }]) => {
      if (isGone || element === null) return;
      const data = [times.map((ms) => ms / 1000), ...series.map(({ values }) => [...values])];
      const draw = () => new UPlot(optionsFrom(props, element.clientWidth, UPlot), data as never, element);
      let chart = draw();
      const sizes = new ResizeObserver(() => {
        if (Math.abs(chart.width - element.clientWidth) > 1)
          chart.setSize({ width: element.clientWidth, height: chart.height });
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
      stop = () => {
        sizes.disconnect();
        themes.disconnect();
        scheme.removeEventListener("change", redraw);
        chart.destroy();
      };
    });
    return () => {
      isGone = true;
      stop?.();
    };
  }, [times, series, props.height]);
  return (
    <figure className="chart">
      <div ref={place} aria-hidden />
      <figcaption className="visually-hidden">{summary}</figcaption>
    </figure>
  );
}

import { type KeyboardEvent, type MouseEvent, useCallback, useMemo, useRef, useState } from "react";
import type uPlot from "uplot";
import type { Options } from "uplot";
import { Link, useLocation } from "wouter";
import {
  barText,
  OUTCOME_WORDS,
  OUTCOMES,
  type Outcome,
  type OutcomeBar,
  type OutcomePick,
  segmentsOf,
  totalOf,
} from "./outcome-bars.ts";
import { colorOf, createAxes, type Plot, rangeText, usePlot } from "./plot.ts";

/** Properties of a chart of outcomes. */
export interface OutcomeChartProps {
  /** Summary of the chart in a sentence, for screen readers. */
  readonly summary: string;
  /** Bars of one length, oldest first. */
  readonly bars: readonly OutcomeBar[];
  readonly height?: number;
  /** Returns the address that shows the decisions of a bar or of one outcome of it. */
  readonly hrefOf: (pick: OutcomePick) => string;
}

const DEFAULT_HEIGHT = 220;
/** Share of its time that a bar fills. */
const BAR_SHARE = 0.84;
const COLORS: Readonly<Record<Outcome, string>> = { allow: "bar-good", escalate: "bar-wait", block: "bar-bad" };
/** Distances of labels on the vertical axis: decisions are counted, so no label is between two numbers. */
const STEPS = Array.from({ length: 12 }, (_, power) => [1, 2, 5].map((digit) => digit * 10 ** power)).flat();

/** Decisions that the pointer or the keyboard is on. */
interface Mark {
  readonly index: number;
  readonly outcome: Outcome | undefined;
}

/**
 * Draws decisions over time as bars of stacked outcomes. The pointer and the arrow keys choose a bar or one outcome of it, which is
 * told in words; a click or Enter opens its decisions. A tap chooses, a second one opens.
 */
export function OutcomeChart({ summary, bars, height = DEFAULT_HEIGHT, hrefOf }: OutcomeChartProps) {
  const place = useRef<HTMLDivElement>(null);
  const [, navigate] = useLocation();
  const plot = usePlot(place, useOptions(bars, height), useData(bars));
  const [pointed, setPointed] = useState<Mark | undefined>(undefined);
  const [reached, setReached] = useState<Mark | undefined>(undefined);
  // Not every browser's click tells what made it.
  const isTouch = useRef(false);
  const [hasFocus, setHasFocus] = useState(false);
  const shown = pointed ?? (hasFocus ? reached : undefined);
  const mark = shown ?? reached ?? { index: bars.length - 1, outcome: undefined };
  const index = Math.min(mark.index, bars.length - 1);
  const bar = bars[index];
  if (bar === undefined) return null;
  const pickOf = ({ index: at, outcome }: Mark): OutcomePick => {
    const { fromMs, toMs } = bars[at] ?? bar;
    return { fromMs, toMs, outcome };
  };
  const open = (event: MouseEvent<HTMLElement>): void => {
    const found = markAt(plot, bars, event);
    if (found === undefined) return;
    if (isTouch.current && (pointed?.index !== found.index || pointed.outcome !== found.outcome)) setPointed(found);
    else navigate(hrefOf(pickOf(found)));
  };
  const onKeyDown = (event: KeyboardEvent<HTMLElement>): void => {
    const next = markAfter(event.key, { index, outcome: mark.outcome }, bars);
    if (next === undefined) return;
    event.preventDefault();
    setPointed(undefined);
    setReached(next);
  };
  const text = barText(bar, mark.outcome);
  const box = boxOf(plot, bars, { index, outcome: mark.outcome });
  return (
    <figure className="chart outcome-chart">
      {/* biome-ignore lint/a11y/noStaticElementInteractions: the pointer's way to what the link within does by keyboard */}
      {/* biome-ignore lint/a11y/useKeyWithClickEvents: the link within has the keys */}
      <div
        className="outcome-plot"
        style={{ minHeight: height }}
        onPointerDown={({ pointerType }) => {
          isTouch.current = pointerType === "touch";
        }}
        onPointerMove={(event) => {
          if (event.pointerType !== "touch") setPointed(markAt(plot, bars, event));
        }}
        onPointerLeave={(event) => {
          if (event.pointerType !== "touch") setPointed(undefined);
        }}
        onClick={open}
      >
        <div ref={place} aria-hidden />
        <Link
          href={hrefOf(pickOf({ index, outcome: mark.outcome }))}
          className={shown === undefined ? "outcome-mark" : "outcome-mark is-shown"}
          style={box}
          aria-label={`Decisions of ${text}`}
          aria-description="Left and right choose a time, up and down an outcome."
          data-action="open-decisions"
          onKeyDown={onKeyDown}
          onFocus={({ target }) => {
            setHasFocus(target.matches(":focus-visible"));
            setReached({ index, outcome: mark.outcome });
          }}
          onBlur={() => setHasFocus(false)}
          onClick={(event) => event.stopPropagation()}
        />
        {shown === undefined || box === undefined ? null : (
          <Tip bar={bar} outcome={mark.outcome} box={box} plot={plot} />
        )}
      </div>
      <p className="visually-hidden" role="status">
        {hasFocus && reached !== undefined ? text : ""}
      </p>
      <figcaption className="visually-hidden">{summary}</figcaption>
    </figure>
  );
}

function useData(bars: readonly OutcomeBar[]): [number[], number[]] {
  return useMemo(() => [bars.map(({ fromMs }) => fromMs / 1_000), bars.map(totalOf)], [bars]);
}

function useOptions(bars: readonly OutcomeBar[], height: number): (width: number) => Options {
  return useCallback(
    (width) => ({
      width,
      height,
      legend: { show: false },
      cursor: { show: false },
      scales: {
        x: { range: [(bars[0]?.fromMs ?? 0) / 1_000, (bars.at(-1)?.toMs ?? 1) / 1_000] },
        y: { range: (_chart, _min, max) => [0, Math.max(1, (max ?? 0) * 1.06)] },
      },
      axes: createAxes({ incrs: STEPS }),
      series: [{}, { paths: () => null, points: { show: false } }],
      hooks: { draw: [(chart) => drawBars(chart, bars)] },
    }),
    [bars, height],
  );
}

function drawBars(chart: uPlot, bars: readonly OutcomeBar[]): void {
  const { ctx } = chart;
  const colors = { allow: colorOf(COLORS.allow), escalate: colorOf(COLORS.escalate), block: colorOf(COLORS.block) };
  ctx.save();
  for (const bar of bars) {
    const { left, width, bottom, scale } = placeOf(chart, bar, true);
    for (const { outcome, low, high } of segmentsOf(bar, scale)) {
      ctx.fillStyle = colors[outcome];
      ctx.fillRect(left, bottom - high, width, high - low);
    }
  }
  ctx.restore();
}

/** Returns the place of a bar, in pixels of the canvas or of the page, and the height of one decision. */
function placeOf(chart: uPlot, { fromMs, toMs }: OutcomeBar, onCanvas: boolean) {
  const [from, to] = [chart.valToPos(fromMs / 1_000, "x", onCanvas), chart.valToPos(toMs / 1_000, "x", onCanvas)];
  const gap = ((to - from) * (1 - BAR_SHARE)) / 2;
  const bottom = chart.valToPos(0, "y", onCanvas);
  const scale = bottom - chart.valToPos(1, "y", onCanvas);
  return { left: from + gap, width: Math.max(1, to - from - 2 * gap), bottom, scale };
}

/** Returns the bar, and the outcome if it is on one, below the pointer. */
function markAt(
  plot: Plot | undefined,
  bars: readonly OutcomeBar[],
  { clientX, clientY }: MouseEvent<HTMLElement>,
): Mark | undefined {
  if (plot === undefined) return undefined;
  const { left, top, width, height } = plot.chart.over.getBoundingClientRect();
  const [x, y] = [clientX - left, clientY - top];
  if (x < 0 || x >= width || y < 0 || y > height) return undefined;
  const index = Math.floor((x / width) * bars.length);
  const bar = bars[index];
  if (bar === undefined) return undefined;
  const { bottom, scale } = placeOf(plot.chart, bar, false);
  const found = segmentsOf(bar, scale).find(({ low, high }) => bottom - y >= low && bottom - y < high);
  return { index, outcome: found?.outcome };
}

/** Returns the mark that a key leads to. */
function markAfter(key: string, { index, outcome }: Mark, bars: readonly OutcomeBar[]): Mark | undefined {
  const last = bars.length - 1;
  const moves: Readonly<Record<string, number>> = { ArrowLeft: index - 1, ArrowRight: index + 1, Home: 0, End: last };
  const moved = moves[key];
  if (moved !== undefined) return { index: Math.min(last, Math.max(0, moved)), outcome: undefined };
  if (key !== "ArrowUp" && key !== "ArrowDown") return undefined;
  const bar = bars[index];
  const choices = [undefined, ...OUTCOMES.filter((each) => (bar?.[each] ?? 0) > 0)];
  const by = key === "ArrowUp" ? 1 : choices.length - 1;
  return { index, outcome: choices[(choices.indexOf(outcome) + by) % choices.length] };
}

interface Box {
  readonly left: number;
  readonly top: number;
  readonly width: number;
  readonly height: number;
}

/** Returns the place of what is marked within the chart, pixels. */
function boxOf(plot: Plot | undefined, bars: readonly OutcomeBar[], { index, outcome }: Mark): Box | undefined {
  const bar = bars[index];
  if (plot === undefined || bar === undefined) return undefined;
  const { chart } = plot;
  const { left, width, bottom, scale } = placeOf(chart, bar, false);
  const { offsetLeft, offsetTop, offsetHeight } = chart.over;
  const segment = segmentsOf(bar, scale).find((each) => each.outcome === outcome);
  if (segment === undefined) return { left: offsetLeft + left, top: offsetTop, width, height: offsetHeight };
  return {
    left: offsetLeft + left,
    top: offsetTop + bottom - segment.high,
    width,
    height: segment.high - segment.low,
  };
}

interface TipProps {
  readonly bar: OutcomeBar;
  readonly outcome: Outcome | undefined;
  readonly box: Box;
  readonly plot: Plot | undefined;
}

/** Tells the marked bar beside it, on the side that has the room. */
function Tip({ bar, outcome, box, plot }: TipProps) {
  const width = plot?.chart.width ?? 0;
  const isLeft = box.left > width / 2;
  return (
    <div
      className="outcome-tip"
      style={isLeft ? { right: width - box.left + 8 } : { left: box.left + box.width + 8 }}
      aria-hidden
      data-tip
    >
      <strong>{rangeText(bar.fromMs, bar.toMs)}</strong>
      <ul>
        {OUTCOMES.toReversed().map((each) => (
          <li key={each} className={each === outcome ? "is-marked" : undefined}>
            <span className={`swatch is-${each}`} />
            {bar[each].toLocaleString("en")} {OUTCOME_WORDS[each]}
          </li>
        ))}
      </ul>
    </div>
  );
}

const WIDTH = 96;
const HEIGHT = 24;

/** Properties of a spark line. */
export interface SparkLineProps {
  readonly values: readonly number[];
  /** What it shows, in words. */
  readonly label: string;
  readonly range: readonly [number, number];
}

/** A line as high as a text, without axes. */
export function SparkLine({ values, label, range: [low, high] }: SparkLineProps) {
  const step = WIDTH / Math.max(1, values.length - 1);
  const points = values.map((value, index) => {
    const share = (value - low) / (high - low);
    return `${(index * step).toFixed(1)},${(HEIGHT - 2 - share * (HEIGHT - 4)).toFixed(1)}`;
  });
  return (
    <svg
      className="spark"
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      width={WIDTH}
      height={HEIGHT}
      role="img"
      aria-label={label}
    >
      <polyline points={points.join(" ")} fill="none" stroke="currentcolor" strokeWidth="1.6" />
    </svg>
  );
}

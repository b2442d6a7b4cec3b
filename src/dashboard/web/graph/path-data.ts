import type { Point } from './layout.ts';

/** An SVG path through the points of an edge, its corners rounded. */
export function pathData(points: readonly Point[]): string {
  const [first, ...rest] = points;
  if (first === undefined) return '';
  const last = rest.at(-1);
  if (last === undefined) return `M${at(first)}`;
  // Each corner is the control point of a curve between the middles of its sides.
  const corners = rest.slice(0, -1).map((corner, index) => {
    const next = rest[index + 1] ?? last;
    return `Q${at(corner)} ${at({ x: (corner.x + next.x) / 2, y: (corner.y + next.y) / 2 })}`;
  });
  return [`M${at(first)}`, ...corners, `L${at(last)}`].join('');
}

const at = ({ x, y }: Point) => `${round(x)},${round(y)}`;
const round = (value: number) => Math.round(value * 10) / 10;

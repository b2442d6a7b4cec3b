import { printable } from '../model/text.ts';

/** Minimum width of the last column, however wide the others are. */
const LEAST = 20;

/**
 * Lines of columns under a head. If a line is longer than `columns`, its last cell is cut. Without `columns`, as for a
 * file or a pipe, nothing is cut.
 */
export function table(
  head: readonly string[],
  rows: readonly (readonly string[])[],
  columns: number | undefined = process.stdout.columns,
): string {
  const lines = [head, ...rows].map((cells) => cells.map(printable));
  const widths = head.map((_, column) => Math.max(...lines.map((cells) => cells[column]?.length ?? 0)));
  const before = widths.slice(0, -1).reduce((sum, width) => sum + width + 2, 0);
  const most = columns === undefined ? Number.POSITIVE_INFINITY : Math.max(LEAST, columns - before);
  return lines
    .map((cells) => {
      const padded = cells.map((cell, column) =>
        column === head.length - 1 ? cutTo(cell, most) : cell.padEnd(widths[column] ?? 0),
      );
      return `${padded.join('  ').trimEnd()}\n`;
    })
    .join('');
}

function cutTo(text: string, most: number): string {
  return text.length <= most ? text : `${text.slice(0, most - 1)}…`;
}

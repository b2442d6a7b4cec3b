import type { Box } from './layout.ts';

export const ARROWS = ['ArrowLeft', 'ArrowRight', 'ArrowUp', 'ArrowDown'] as const;
type ArrowKey = (typeof ARROWS)[number];

/**
 * The step that an arrow key leads to: the nearest whose middle lies that way, where being off to the side counts
 * double. Undefined where there is none.
 */
export function neighbour<T extends Box>(from: Box, key: ArrowKey, all: readonly T[]): T | undefined {
  const isAcross = key === 'ArrowLeft' || key === 'ArrowRight';
  const sign = key === 'ArrowRight' || key === 'ArrowDown' ? 1 : -1;
  let nearest: T | undefined;
  let least = Number.POSITIVE_INFINITY;
  for (const other of all) {
    const dx = middleX(other) - middleX(from);
    const dy = middleY(other) - middleY(from);
    const ahead = sign * (isAcross ? dx : dy);
    const aside = Math.abs(isAcross ? dy : dx);
    if (ahead < 1 || ahead + 2 * aside >= least) continue;
    nearest = other;
    least = ahead + 2 * aside;
  }
  return nearest;
}

const middleX = ({ x, width }: Box) => x + width / 2;
const middleY = ({ y, height }: Box) => y + height / 2;

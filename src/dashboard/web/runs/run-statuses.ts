import type { StepStatus } from '../api-types.ts';

interface Counted {
  readonly path: string;
  readonly status: StepStatus;
  readonly count: number;
}

/** The gravest first: of many iterations of one step the picture shows what somebody has to look at. */
const GRAVITY: readonly StepStatus[] = ['Failed', 'Running', 'Pending', 'Succeeded', 'Skipped'];

export interface ChildCounts {
  readonly status: StepStatus;
  /** Such as "3 of 120 failed", or "120 succeeded" where all have. */
  readonly text: string;
}

/** Children of loops by path: what all iterations together show. */
export function childCounts(children: readonly Counted[]): Map<string, ChildCounts> {
  const byPath = new Map<string, Map<StepStatus, number>>();
  for (const { path, status, count } of children) {
    const counts = byPath.get(path) ?? new Map<StepStatus, number>();
    counts.set(status, (counts.get(status) ?? 0) + count);
    byPath.set(path, counts);
  }
  return new Map(
    [...byPath].map(([path, counts]) => {
      const present = GRAVITY.filter((status) => counts.has(status));
      const status = present[0] ?? 'Pending';
      const total = [...counts.values()].reduce((sum, count) => sum + count, 0);
      const text = `${counts.get(status)} ${present.length > 1 ? `of ${total} ` : ''}${status.toLowerCase()}`;
      return [path, { status, text }];
    }),
  );
}

/** The send times of a steady rate: evenly spaced, whatever happened to earlier requests. */
export interface Timetable {
  readonly count: number;
  /** Milliseconds from the start to the request; 0 for the first. */
  dueAt(index: number): number;
  /** How many requests are due this many milliseconds after the start. */
  dueUntil(elapsedMs: number): number;
}

export function timetable(ratePerSecond: number, seconds: number): Timetable {
  const count = Math.round(ratePerSecond * seconds);
  // Computed from the index each time: a sum of intervals would drift.
  const dueAt = (index: number) => (index * 1000) / ratePerSecond;
  return {
    count,
    dueAt,
    dueUntil(elapsedMs) {
      if (elapsedMs < 0) return 0;
      let due = Math.min(count, Math.floor((elapsedMs * ratePerSecond) / 1000));
      // The division may have been rounded either way.
      while (due < count && dueAt(due) <= elapsedMs) due += 1;
      return due;
    },
  };
}

/** Deliveries of a flow that are searched for those of one of its triggers: 5 ms. */
export const NEWEST_SEARCHED = 5000;

/** An event as its column has it; no event is called as none is. */
export function writtenEvent(event: string | null): string {
  return event === null ? '' : `=${event}`;
}

export function readEvent(written: string): string | null {
  return written === '' ? null : written.slice(1);
}
